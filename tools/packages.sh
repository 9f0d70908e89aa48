# The packages that Strata builds with, and how to install those that are missing.
# Sourced by tools/test.sh and tools/demo.sh.

STRATA_PACKAGES=(g++ cmake ninja-build git python3 pkg-config ccache
  libabsl-dev liburing-dev libaio-dev libdnnl-dev nlohmann-json3-dev libgtest-dev)

# install_packages PACKAGE...: says what it is about to install, then does, as root or with sudo.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "Installing with apt-get: ${missing[*]}"
  local sudo=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "error: not root and no sudo; install these packages first: ${missing[*]}" >&2; return 1; }
    sudo=sudo
  fi
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}
