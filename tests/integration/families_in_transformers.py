#!/usr/bin/env python3
"""Trains a tiny model of each family, and opens what comes out in transformers.

usage: families_in_transformers.py TIERTRAIN WORK_DIR

The configurations are those of data/family_reference.json, the weights the fixture's. After some
steps the exported directory must load with no tensor missing or left over, and give the logits
that tiertrain wrote. Families that this transformers does not know are named and passed over.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file
from safetensors.torch import save_file

import make_family_reference as fixture

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-5  # of the largest logit


def write_model(directory, config):
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config))
    loaded = transformers.AutoConfig.from_pretrained(directory)
    model = transformers.AutoModelForCausalLM.from_config(loaded)
    tensors = {
        name: fixture.tensor(name, tuple(parameter.shape)).contiguous()
        for name, parameter in model.named_parameters()
    }
    save_file(tensors, str(directory / "model.safetensors"), metadata={"format": "pt"})


def train(tiertrain, work):
    rows = [json.dumps({"input_ids": fixture.sequence(s, fixture.ROW)}) for s in range(4)]
    (work / "rows.jsonl").write_text("\n".join(rows) + "\n")
    command = [
        tiertrain, "--model_name_or_path", work / "model", "--train_file", work / "rows.jsonl",
        "--eval_file", work / "rows.jsonl", "--logits_file", work / "logits.safetensors",
        "--output_dir", work / "out", "--per_device_train_batch_size", "1", "--max_steps", "3",
        "--learning_rate", "1e-3", "--device", "cpu", "--device_memory", "64MiB",
        "--host_memory", "64MiB",
    ]  # fmt: skip
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def fault_of(work):
    """What is wrong with the export; None if nothing is."""
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(
        work / "out", torch_dtype=torch.float32, attn_implementation="eager",
        output_loading_info=True,
    )  # fmt: skip
    wrong = {key: found for key, found in loading.items() if found}
    if wrong:
        return f"loading says {wrong}"
    ours = load_file(str(work / "logits.safetensors"))
    with torch.no_grad():
        ids = torch.from_numpy(ours["input_ids"].astype(np.int64))[None]
        theirs = model.eval()(input_ids=ids, use_cache=False).logits[0].numpy()
    difference = np.abs(ours["logits"] - theirs).max() / np.abs(theirs).max()
    return None if difference <= TOLERANCE else f"logits differ by {difference:.1e}"


def main():
    tiertrain, work = sys.argv[1], pathlib.Path(sys.argv[2])
    shutil.rmtree(work, ignore_errors=True)
    families = json.loads((HERE / "data/family_reference.json").read_text())["families"]
    faults = opened = 0
    for name, family in families.items():
        if family["config"]["model_type"] not in transformers.CONFIG_MAPPING:
            print(f"{name}: transformers {transformers.__version__} does not know it")
            continue
        write_model(work / name / "model", family["config"])
        train(tiertrain, work / name)
        fault = fault_of(work / name)
        faults += fault is not None
        opened += 1
        print(f"{name}: {fault or 'opens, and has the same logits'}")
    return 1 if faults or not opened else 0


if __name__ == "__main__":
    sys.exit(main())
