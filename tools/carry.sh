#!/usr/bin/env bash
# Builds the programs, the gpu tests and the kernel benchmark for another machine.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --help ]; then
  cat <<'HELP'
usage: tools/carry.sh [ARCHITECTURES]

Builds the `cuda` preset for compute capability 9.0, or for ARCHITECTURES ("80;89"), and
puts what an x86-64 machine with an NVIDIA card, CUDA 13's libraries and no compiler needs
into carry/: stripped programs, and the libraries that it may lack. Run them there with

  carry/run tiertrain ...        a program, with the libraries found
  carry/run gpu-tests            every test that needs a card
HELP
  exit 0
fi

. tools/packages.sh
install_packages "${STRATA_PACKAGES[@]}" libbenchmark-dev

cmake --preset cuda -DSTRATA_CUDA_ARCHITECTURES="${1:-90}" -DSTRATA_BENCH=ON >/dev/null
carried=(tiertrain tierbench tierplan tierinfo kernel_bench cuda_device_test cuda_kernels_test)
mapfile -t built < <(ninja -C build/cuda -t targets all | sed -n 's#^bin/\([^:]*\):.*#\1#p' |
  grep -Fx "$(printf '%s\n' "${carried[@]}")")
cmake --build build/cuda -j "$(nproc)" --target "${built[@]}"

rm -rf carry
mkdir -p carry/bin carry/lib
for name in "${built[@]}"; do strip -o "carry/bin/$name" "build/cuda/bin/$name"; done
# Debian's oneDNN asks for OpenCL's loader, which a machine for CUDA need not have.
for library in libdnnl.so.2 libgomp.so.1 libOpenCL.so.1; do
  cp -L "/usr/lib/x86_64-linux-gnu/$library" carry/lib/
done

cat > carry/run <<'RUN'
#!/usr/bin/env bash
# usage: run PROGRAM [ARGUMENT...]   or   run gpu-tests
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# cuBLASLt is 500 MB and is not carried: it lies with the toolkit or with PyTorch.
cublaslt=""
for folder in /usr/local/cuda/lib64 /usr/local/cuda-13*/lib64 /usr/lib/x86_64-linux-gnu \
    $(ldconfig -p 2>/dev/null | sed -n 's#.*=> \(.*\)/libcublasLt.so.13$#\1#p') \
    $(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null)/nvidia/*/lib; do
  if [ -e "$folder/libcublasLt.so.13" ]; then cublaslt=$folder; break; fi
done
if [ -z "$cublaslt" ]; then
  echo "error: libcublasLt.so.13 was found neither with CUDA 13 nor in python3's packages" >&2
  exit 1
fi
export LD_LIBRARY_PATH="$here/lib:$cublaslt${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

name=${1:?usage: run PROGRAM [ARGUMENT...], or run gpu-tests}
shift
if [ "$name" != gpu-tests ]; then exec "$here/bin/$name" "$@"; fi
failed=0
for test in "$here"/bin/cuda_*_test; do "$test" "$@" || failed=1; done
exit $failed
RUN
chmod +x carry/run
du -sh carry
