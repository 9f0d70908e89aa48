#!/usr/bin/env bash
# Fine-tunes a model on a file of texts, conversations or instructions: installs what is
# missing, builds, prepares the data and trains. tools/python/finetune.py does the rest.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

cd "$top"
. tools/packages.sh
. tools/python_env.sh
install_packages "${STRATA_PACKAGES[@]}" >&2
python_env >&2
cmake -S . -B build/programs -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTRATA_TESTS=OFF >/dev/null
cmake --build build/programs >&2

cd "$OLDPWD"  # paths are the caller's
exec "$VENV_PYTHON" "$top/tools/python/finetune.py" --tiertrain "$top/build/programs/bin/tiertrain" "$@"
