#!/usr/bin/env python3
"""Six placements of the real SmolLM2 train the same bits: law 1 on a real model.

usage: smollm2_placements.py TIERTRAIN WORK_DIR   (with the project's virtual environment)

Four steps of 64 tokens each, in two micro-batches, in float32 and in bfloat16; some of them
are clipped. Losses, norms and the
exported model are compared byte for byte with those of the first run.
"""

import hashlib
import json
import pathlib
import sys

import smollm2

DATA = pathlib.Path(__file__).resolve().parent / "data"
EVERYTHING = "weights={0},optimizer={0},gradients={0},activations={0}"
AMPLE = ("--device_memory", "4GB", "--host_memory", "4GB")
TIGHT = ("--device_memory", "480MB", "--host_memory", "1GB")
RUNS = {
    "all on the device": (AMPLE, "--placement", EVERYTHING.format("device")),
    "all in host memory": (AMPLE, "--placement", EVERYTHING.format("host")),
    "all on the drive": (AMPLE, "--placement", EVERYTHING.format("nvme")),
    "all on the drive, by threads": (
        AMPLE, "--placement", EVERYTHING.format("nvme"), "--io_backend", "threads"),
    "on all three": (
        AMPLE, "--placement", "weights=host,optimizer=nvme,gradients=device,activations=host"),
    "as planned under small budgets": (TIGHT,),
}


def short_rows(source, target):
    """The first 32 tokens of eight rows."""
    with open(target, "w", encoding="utf-8") as file:
        for line in source.read_text().splitlines()[:8]:
            row = json.loads(line)
            file.write(json.dumps({"input_ids": row["input_ids"][:32]}) + "\n")


def result(run, name, dtype):
    """Losses and norms, and a checksum of the weights."""
    budgets, *flags = RUNS[name]
    out = run.work / "placed"
    log = run.train("placed", *flags, *dtype, "--output_dir", out, "--max_steps=4",
                    "--gradient_accumulation_steps=2", "--learning_rate=1e-4",
                    "--max_grad_norm=10", budgets=budgets)
    weights = (out / "model.safetensors").read_bytes()
    return ([(step["loss"], step["grad_norm"], step["clipped"]) for step in log],
            hashlib.sha256(weights).hexdigest())


def main():
    tiertrain, work = sys.argv[1:]
    rows = pathlib.Path(work) / "short_rows.jsonl"
    rows.parent.mkdir(parents=True, exist_ok=True)
    short_rows(DATA / "smollm2_rows.jsonl", rows)
    run = smollm2.Runner(tiertrain, work, rows)
    faults = 0
    for dtype in ([], ["--bf16"]):
        expected = None
        for name in RUNS:
            found = result(run, name, dtype)
            expected = expected or found
            same = found == expected and len(found[0]) == 4
            faults += not same
            print(f"{' '.join(dtype) or '--fp32'}, {name}: {'same bits' if same else 'WRONG'}",
                  flush=True)
        print("steps:", expected[0])
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
