#!/usr/bin/env python3
"""Training, logits and continuations of the real SmolLM2 against what transformers gave.

usage: smollm2_parity.py TIERTRAIN WORK_DIR   (with the project's virtual environment)

Fetches the model into WORK_DIR once. The reference (data/smollm2_reference.json, written by
tools/python/make_parity_reference.py) is ten steps of torch.optim.AdamW with accumulation,
weight decay, warm-up and clipping on, in float64 and in bfloat16.

Ours in float32 has losses and norms to 1e-5, weights, at a learning rate of 1e-5, to 1e-5, and
logits to 1e-4 of the largest one. In bfloat16 no two implementations agree: the reference has
two trainings of PyTorch that differ in how attention rounds. Ours may be as far from the
second, whose attention rounds its result only as ours does, as twice the most that the two are
from each other at any step.

Continuations (data/smollm2_generation.jsonl) are greedy, of user messages in the chat template,
64 tokens or up to the end token, and have to be the same token for token.
"""

import json
import pathlib
import sys

import numpy as np
from safetensors import safe_open

import smollm2

DATA = pathlib.Path(__file__).resolve().parent / "data"
REFERENCE = json.loads((DATA / "smollm2_reference.json").read_text())
OPTIONS = [f"--{name}={value}" for name, value in REFERENCE["options"].items()]


def say(good, text):
    """1 if it is a fault."""
    print(text + ("" if good else "  WRONG"), flush=True)
    return not good


def difference(ours, theirs, key):
    return abs(ours[key] / theirs[key] - 1)


def step_faults(ours, theirs, tolerances):
    """Steps of the log that differ from the reference's by more than {key: tolerance}."""
    faults = len(ours) != len(theirs)
    for one, other in zip(ours, theirs):
        off = {key: difference(one, other, key) for key in tolerances}
        good = all(off[key] <= tolerances[key] for key in off) and all(
            one[key] == other[key] for key in ("lr", "tokens", "trained_tokens")
        )
        text = ", ".join(f"{key} off by {value:.1e}" for key, value in off.items())
        faults += say(good, f"step {one['step']}: {text}")
    return faults


def weight_faults(directory):
    """Whether any probed weight differs by more than 1e-5 from the reference's."""
    worst, where = 0.0, ""
    with safe_open(directory / "model.safetensors", framework="np") as file:
        faults = say(set(file.keys()) == set(REFERENCE["weights"]), f"{len(file.keys())} tensors")
        for name, probed in REFERENCE["weights"].items():
            ours = file.get_tensor(name).reshape(-1)[probed["indices"]].astype(np.float64)
            off = float(np.abs(ours - probed["values"]).max())
            worst, where = max((worst, where), (off, name))
    return faults + say(worst <= 1e-5, f"largest difference of weights {worst:.1e}, in {where}")


def fp32_faults(run):
    ours = run.train("fp32", *OPTIONS, "--output_dir", run.work / "fp32")
    return step_faults(
        ours, REFERENCE["steps"], {"loss": 1e-5, "grad_norm": 1e-5}
    ) + weight_faults(run.work / "fp32")


def bf16_faults(run):
    one, other = REFERENCE["bf16_steps"]
    tolerances = {
        key: 2 * max(difference(a, b, key) for a, b in zip(one, other))
        for key in ("loss", "grad_norm")
    }
    print(f"bfloat16: PyTorch from itself, doubled: {tolerances}")
    ours = run.train("bf16", *OPTIONS, "--bf16")
    return step_faults(ours, other, tolerances)


def logit_faults(run):
    """Before any training: a step at rate 0 changes nothing."""
    first, path = run.work / "first_row.jsonl", run.work / "logits.safetensors"
    first.write_text((DATA / "smollm2_rows.jsonl").read_text().split("\n")[0] + "\n")
    run.train("logits", "--max_steps=1", "--learning_rate=0", "--weight_decay=0",
              "--eval_file", first, "--logits_file", path)
    with safe_open(path, framework="np") as file:
        logits = file.get_tensor("logits")
    theirs = REFERENCE["logits"]
    off = float(np.abs(logits[:, theirs["tokens"]] - np.array(theirs["values"])).max())
    off /= theirs["largest"]
    argmax = int((logits.argmax(-1) != np.array(theirs["argmax"])).sum())
    return say(
        off <= 1e-4 and argmax == 0 and abs(np.abs(logits).max() / theirs["largest"] - 1) <= 1e-4,
        f"logits off by {off:.1e} of the largest; {argmax} of {len(logits)} arguments of it differ",
    )


def generation_faults(run):
    """Prompts that are not continued as the reference has it."""
    reference = DATA / "smollm2_generation.jsonl"
    output = run.tiertrain("--generate", reference, "--max_new_tokens", 64)
    pairs = zip(map(json.loads, output.splitlines()),
                map(json.loads, reference.read_text().splitlines()), strict=True)
    equal = [ours["output_ids"] == theirs["output_ids"] for ours, theirs in pairs]
    print(f"{sum(equal)} of {len(equal)} continuations equal")
    return equal.count(False)


def main():
    run = smollm2.Runner(*sys.argv[1:], rows=DATA / "smollm2_rows.jsonl")
    faults = sum(
        check(run) for check in (logit_faults, fp32_faults, bf16_faults, generation_faults)
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
