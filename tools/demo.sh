#!/usr/bin/env bash
# A real language model learns from real text through three tiers of memory.
set -Eeuo pipefail
caller=$PWD
cd "$(dirname "$0")/.."

usage() {
  cat <<'HELP'
usage: tools/demo.sh [--output_dir DIR] [--max_steps N]

Installs what is missing (says what), builds, fetches SmolLM2-135M-Instruct (93 MB), and
fine-tunes it on the Jargon File, a dictionary of hackers' slang, through device, host and
NVMe tiers: its weights and optimizer do not fit the device budget, and the rest does not fit
the host budget. Then it opens the result in transformers. Needs no GPU; where there is one,
it runs there as well. About 10 minutes on 2 cores after the installs.

  --output_dir DIR   where everything goes (default demo-output; about 2.5 GB)
  --max_steps N      optimizer steps of 512 tokens (default 40)
HELP
}

output_dir=$PWD/demo-output
max_steps=40
while [ $# -gt 0 ]; do
  case $1 in
    --help) usage; exit 0 ;;
    --output_dir | --max_steps)
      [ $# -ge 2 ] || { echo "error: $1 needs a value" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *) echo "error: unknown flag $1; see tools/demo.sh --help" >&2; exit 2 ;;
  esac
done
[[ $max_steps =~ ^[1-9][0-9]*$ ]] || { echo "error: --max_steps $max_steps: a number from 1 on" >&2; exit 2; }
[[ $output_dir = /* ]] || output_dir=$caller/$output_dir

current=start
step() {
  current=$1
  printf '\n== %s\n' "$current"
}
trap 'echo "error: the demo stopped at: $current" >&2' ERR

tokens_per_row=512
prompt='What does “sanity check” mean?'  # held out, like everything in $eval_file
model=$output_dir/model
train_file=$output_dir/data/train.safetensors
eval_file=$output_dir/data/eval.safetensors

step "Packages"
. tools/packages.sh
. tools/python_env.sh
install_packages "${STRATA_PACKAGES[@]}" jargon-text
python_env transformers

step "Build"
cmake -S . -B build/demo -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTRATA_TESTS=OFF >/dev/null
cmake --build build/demo --target tiertrain
tiertrain=build/demo/bin/tiertrain

step "Model"
"$VENV_PYTHON" tools/python/fetch_demo_model.py "$model"

step "Text"
"$VENV_PYTHON" tools/python/demo_text.py jargon "$output_dir/data/jargon.jsonl"
"$VENV_PYTHON" tools/python/prepare_data.py --tokenizer "$model" --input "$output_dir/data/jargon.jsonl" \
  --output "$train_file" --max_seq_length "$tokens_per_row" --eval_output "$eval_file" --eval_fraction 0.02

# train DEVICE DEVICE_MEMORY HOST_MEMORY: fine-tunes into $output_dir/DEVICE.
train() {
  local out=$output_dir/$1
  "$tiertrain" --model_name_or_path "$model" --train_file "$train_file" --eval_file "$eval_file" \
    --output_dir "$out" --bf16 --max_steps "$max_steps" --eval_steps "$max_steps" \
    --per_device_train_batch_size 1 --learning_rate 1e-4 --warmup_steps 4 --max_seq_length "$tokens_per_row" \
    --device "$1" --device_memory "$2" --host_memory "$3" --nvme_path "$output_dir/swap:4GB" \
    --log_file "$output_dir/$1.jsonl" --timeline "$output_dir/$1-timeline.json"
  "$VENV_PYTHON" tools/python/summarize_run.py "$out" "$output_dir/$1.jsonl"
}

# sample MODEL DEVICE: what it answers, its weights streamed through the tiers.
sample() {
  "$VENV_PYTHON" tools/python/generate.py "$1" --tokenizer "$model" --prompt "$prompt" --max_new_tokens 60 \
    --tiertrain "$tiertrain" -- --bf16 --device "$2" --device_memory 600MB --host_memory 900MB
}

# judge MODEL: opens it in transformers; its held-out loss, computed there.
judge() {
  "$VENV_PYTHON" tools/python/check_transformers.py "$1" --data "$eval_file"
}

step "Before, in transformers"
judge "$model"
sample "$model" cpu

step "Fine-tuning on the CPU through three tiers"
train cpu 600MB 900MB

step "After, in transformers"
judge "$output_dir/cpu"
sample "$output_dir/cpu" cpu

if nvidia-smi -L >/dev/null 2>&1; then
  step "Fine-tuning on the GPU through three tiers"
  train cuda 1500MB 900MB
  step "After, in transformers"
  judge "$output_dir/cuda"
  sample "$output_dir/cuda" cpu
fi

step "Done"
echo "The trained model is in $output_dir/cpu. Open report.html there to see what the run did; the timeline of its"
echo "last steps, $output_dir/cpu-timeline.json, opens in chrome://tracing or ui.perfetto.dev."
