#!/usr/bin/env python3
"""Writes what transformers computes for SmolLM2-135M, for tests where no PyTorch is.

  ROWS.jsonl       rows of token ids, of which a step takes two
  REFERENCE.json   options: as tiertrain's flags; steps: loss, grad_norm and lr of each;
                   logits: of the first row, at some tokens of each position;
                   weights: after the last step, at some elements of each tensor (row-major);
                   bf16_steps: the same training in bfloat16, twice, with attentions that
                   round differently: how far PyTorch is from itself

All but the last in float64 (where transformers itself does not round to float32: in norms,
softmax and rotary tables), so that what ours differs by is ours. In float32 PyTorch was seen to
be off by 4e-6 in losses and 1e-5 in norms.
"""

import argparse
import json
import pathlib

import numpy as np

import check_transformers
import training_rows

OPTIONS = {
    "max_steps": 10,
    "gradient_accumulation_steps": 2,
    "learning_rate": 1e-5,
    "weight_decay": 0.01,
    "warmup_steps": 2,
    "lr_scheduler_type": "linear",
    "max_grad_norm": 1.0,
}


def probes(count, wanted):
    """`wanted` indices below `count`, ends included."""
    return np.linspace(0, count - 1, min(wanted, count)).astype(np.int64).tolist()


def train(oracle, rows, *more, **other):
    """The oracle's steps on `rows`."""
    flags = [f"--{name}={value}" for name, value in OPTIONS.items()]
    options = check_transformers.parse_arguments(["", *flags, *more])
    return oracle.train(rows, options, **other)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="what fetch_demo_model.py wrote")
    parser.add_argument("data", help="prepared rows; some of them are taken, evenly spread")
    parser.add_argument("output_dir", type=pathlib.Path)
    options = parser.parse_args(arguments)

    import transformers_oracle  # after --help: it takes seconds

    count = OPTIONS["max_steps"] * OPTIONS["gradient_accumulation_steps"]
    everything = list(training_rows.rows_of(options.data))
    rows = everything[:: len(everything) // count][:count]
    with open(options.output_dir / "smollm2_rows.jsonl", "w", encoding="utf-8") as file:
        for row in rows:
            value = {
                "input_ids": row.input_ids.tolist(),
                "labels": row.labels.tolist(),
                "document_lengths": row.document_lengths,
            }
            file.write(json.dumps(value, separators=(",", ":")) + "\n")

    oracle = transformers_oracle.Oracle(options.model, dtype=transformers_oracle.torch.float64)
    logits = oracle.logits(rows[0])
    tokens = probes(logits.shape[1], 16)
    steps = train(oracle, rows)
    weights = {}
    for name, parameter in oracle.model.named_parameters():
        flat = parameter.detach().numpy().reshape(-1)
        indices = probes(flat.size, 8)
        weights[name] = {"indices": indices, "values": flat[indices].astype(float).tolist()}
    reference = {
        "options": OPTIONS,
        "steps": steps,
        "logits": {
            "largest": float(np.abs(logits).max()),
            "tokens": tokens,
            "values": logits[:, tokens].astype(float).round(6).tolist(),
            "argmax": logits.argmax(-1).tolist(),
        },
        "weights": weights,
        "bf16_steps": [
            train(transformers_oracle.Oracle(options.model), rows, "--bf16", bf16_attention=attention)
            for attention in (None, transformers_oracle.float32_attention)
        ],
    }
    text = json.dumps(reference, separators=(",", ":"))
    (options.output_dir / "smollm2_reference.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
