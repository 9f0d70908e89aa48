#!/usr/bin/env bash
# Installs what was built, and builds and runs the embedding example against it.
# usage: embed_example.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build=$1 source=$2 work=$1/embed_example
rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$source/docs/examples/embed" -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build"
output=$("$work/build/embed" "$source/docs/architecture.md" "$work/swap")
echo "$output"
awk '/^device/ { if ($6 + 0 <= 0) exit 1 }   # something rests on nvme
     /^step 0 / { first = $4 } /^step 99 / { last = $4 }
     END { exit !(first > 5 && last < 0.7 * first) }' <<<"$output"
