#!/usr/bin/env python3
"""Ten steps and five continuations of the real SmolLM2 against what transformers gave.

usage: smollm2_parity.py TIERTRAIN WORK_DIR   (with the project's virtual environment)

Fetches the model into WORK_DIR once. The reference (data/smollm2_reference.json) is fp32
with accumulation, weight decay, warm-up and clipping on.

Losses agree to 1e-5. Norms are compared to 3e-4 only: the reference's come from
torch.nn.utils.clip_grad_norm_ of PyTorch 1.13, whose fp32 norm of a tensor of 28 million
elements (the embedding) was seen to be 2e-4 to 1.5e-3 too small; ours is summed in double.

Continuations (data/smollm2_generation.jsonl) are greedy, of user messages in the chat template,
64 tokens or up to the end token, and have to be the same token for token.
"""

import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LOSS_TOLERANCE = 1.2e-5
NORM_TOLERANCE = 3e-4


def generation_faults(tiertrain, model):
    """Prompts that are not continued as the reference has it."""
    reference = HERE / "data/smollm2_generation.jsonl"
    command = [
        tiertrain, "--model_name_or_path", model, "--generate", reference,
        "--max_new_tokens", "64", "--device", "cpu", "--device_memory", "600MB",
        "--host_memory", "900MB",
    ]
    done = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE)
    pairs = zip(map(json.loads, done.stdout.splitlines()),
                map(json.loads, reference.read_text().splitlines()), strict=True)
    equal = [ours["output_ids"] == theirs["output_ids"] for ours, theirs in pairs]
    print(f"{sum(equal)} of {len(equal)} continuations equal")
    return equal.count(False)


def training_faults(tiertrain, model, work):
    """Steps that differ by more than the tolerances."""
    log = work / "steps.jsonl"
    reference = json.loads((HERE / "data/smollm2_reference.json").read_text())
    options = reference["options"]
    command = [
        tiertrain, "--model_name_or_path", model,
        "--train_file", HERE / "data/smollm2_rows.jsonl", "--shuffle=false",
        "--per_device_train_batch_size", "1", "--device", "cpu", "--log_file", log,
        "--device_memory", "700MB", "--host_memory", "2GB", "--nvme_path", f"{work / 'swap'}:2GB",
    ]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    subprocess.run([str(part) for part in command], check=True)
    faults = 0
    for ours, theirs in zip(map(json.loads, log.read_text().splitlines()), reference["steps"]):
        loss = abs(ours["loss"] / theirs["loss"] - 1)
        norm = abs(ours["grad_norm"] / theirs["grad_norm"] - 1)
        good = (loss <= LOSS_TOLERANCE and norm <= NORM_TOLERANCE and ours["lr"] == theirs["lr"]
                and ours["trained_tokens"] == theirs["trained_tokens"])
        faults += not good
        print(f"step {ours['step']}: loss off by {loss:.1e}, norm by {norm:.1e}"
              f"{'' if good else '  WRONG'}")
    return faults


def main():
    tiertrain, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    model = work / "smollm2"
    subprocess.run([sys.executable, ROOT / "tools/python/fetch_demo_model.py", model], check=True)
    faults = training_faults(tiertrain, model, work) + generation_faults(tiertrain, model)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
