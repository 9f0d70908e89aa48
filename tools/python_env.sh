# The project's own virtual environment, .venv. Sourced by tools/test.sh and tools/demo.sh
# from the top of the tree, after tools/packages.sh.

# The interpreter must be the system's where Debian's python3-torch is to be seen.
STRATA_PYTHON=${STRATA_PYTHON:-/usr/bin/python3}

# python_env [transformers]: makes .venv from tools/python/requirements.txt, or brings it up
# to date, saying what it installs. With `transformers` it also sees Debian's PyTorch (CPU,
# no CUDA wheels) and has transformers. Sets VENV_PYTHON. Safe to call twice at once.
python_env() {
  local want=${1:-light} packages=(python3-venv) files=(tools/python/requirements.txt)
  VENV_PYTHON=$PWD/.venv/bin/python3
  # An environment with transformers serves the light uses too.
  grep -qs '^transformers ' .venv/strata-stamp && want=transformers
  if [ "$want" = transformers ]; then
    packages+=(python3-torch libopenblas0-pthread)  # without it PyTorch's products take minutes
    files+=(tools/python/requirements-transformers.txt)
  fi
  install_packages "${packages[@]}" || return 1
  mkdir -p .venv
  ( flock 9; python_env_build "$want" "${files[@]}" ) 9<.venv
}

# python_env_build KIND REQUIREMENTS...: nothing if the stamp says that all is there. The
# stamp is written last, so an interrupted build is done again.
python_env_build() {
  local want=$1 stamp file arguments=() system=()
  shift
  stamp="$want $STRATA_PYTHON $("$STRATA_PYTHON" --version) $(cat "$@" | sha256sum)"
  [ "$(cat .venv/strata-stamp 2>/dev/null)" = "$stamp" ] && return 0
  for file in "$@"; do arguments+=(-r "$file"); done
  if [ "$want" = transformers ]; then
    system=(--system-site-packages)
    "$STRATA_PYTHON" -c 'import torch' 2>/dev/null || {
      echo "error: $STRATA_PYTHON does not see PyTorch; install python3-torch, or set" \
        "STRATA_PYTHON to an interpreter that has it" >&2
      return 1
    }
  fi
  echo "Installing with pip into .venv: $(sed -nE 's/^([A-Za-z0-9_-]+)==.*/\1/p' "$@" | sort -u | tr '\n' ' ')"
  "$STRATA_PYTHON" -m venv --clear "${system[@]}" .venv || return 1
  .venv/bin/python3 -m pip install --quiet --disable-pip-version-check --no-deps \
    --ignore-installed "${arguments[@]}" || {
    echo "error: pip could not install the Python packages; is the package index reachable?" >&2
    return 1
  }
  echo "$stamp" >.venv/strata-stamp
}
