#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --help ]; then
  cat <<'HELP'
usage: tools/test.sh [--quick]

Installs the missing packages (says which), builds and runs every test: unit and property
tests, layering, address, undefined-behaviour and thread sanitizers, a CUDA compile where
nvcc is found, and the embedding example against an installed tree. Needs no GPU.

  --quick   only the optimised build and its tests
HELP
  exit 0
fi
quick=${1:-}

. tools/packages.sh
install_packages "${STRATA_PACKAGES[@]}" clang libclang-rt-14-dev clang-format
. tools/python_env.sh
python_env

python3 tools/check_layers.py
python3 tools/check_docs.py

if [ "$quick" != --quick ]; then
  for preset in asan tsan; do
    cmake --preset "$preset" >/dev/null
    cmake --build --preset "$preset"
    ctest --preset "$preset"
  done
  if command -v nvcc >/dev/null; then
    cmake --preset cuda -DSTRATA_CUDA_ARCHITECTURES=90 >/dev/null
    cmake --build --preset cuda --target tiertrain tierbench tierinfo cuda_device_test cuda_kernels_test
  fi
fi

cmake --preset dev >/dev/null
cmake --build --preset dev
ctest --preset dev
