#!/usr/bin/env python3
"""Opens a model directory in transformers and compares it with what tiertrain computed.

Logits, loss and generated text of the model, all in float32 on the CPU; with --train, steps of
torch.optim.AdamW on it. Needs Debian's python3-torch and transformers 4.48.3: tools/demo.sh
installs both, or `. tools/packages.sh; . tools/python_env.sh; python_env transformers`.

  check_transformers.py MODEL --logits F          compare with logits that tiertrain wrote
  check_transformers.py MODEL --data F            loss of the rows in F
  check_transformers.py MODEL --prompt TEXT       greedy text
  check_transformers.py MODEL --train F --compare_log LOG.jsonl
"""

import argparse
import json
import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

import training_rows


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="Hugging Face directory")
    parser.add_argument("--threads", type=int, help="of PyTorch (default: its own choice)")
    parser.add_argument("--json", metavar="F", help="write what was found as JSON")

    group = parser.add_argument_group("logits, loss, text")
    group.add_argument(
        "--logits",
        metavar="F",
        help=".safetensors with `logits` F32 [tokens, vocab]"
        " and `input_ids` [tokens]; exit code 1 if a bound below does not hold",
    )
    group.add_argument(
        "--max_difference",
        type=float,
        default=1e-4,
        help="largest logit difference, relative to the largest logit (default 1e-4)",
    )
    group.add_argument("--max_kl", type=float, help="mean KL(transformers || ours) in nats")
    group.add_argument("--min_argmax", type=float, help="share of positions with the same argmax")
    group.add_argument("--data", metavar="F", help="rows (.jsonl or prepared .safetensors): loss")
    group.add_argument(
        "--write_logits",
        metavar="F",
        help="logits of the first row of --data, in the form that --logits reads",
    )
    group.add_argument(
        "--prompt", help="a user's message, through the chat template if there is one"
    )
    group.add_argument(
        "--tokenizer", metavar="DIR", help="for --prompt (default: the model's directory)"
    )
    group.add_argument("--max_new_tokens", type=int, default=60)

    group = parser.add_argument_group("training, named as in transformers' Trainer")
    group.add_argument("--train", metavar="F", help="rows, taken in order")
    group.add_argument("--max_steps", type=int, default=10)
    group.add_argument("--per_device_train_batch_size", type=int, default=1)
    group.add_argument("--gradient_accumulation_steps", type=int, default=1)
    group.add_argument("--learning_rate", type=float, default=1e-5)
    group.add_argument("--weight_decay", type=float, default=0.0)
    group.add_argument("--decay_norms", action="store_true", help="decay norms and biases too")
    group.add_argument("--max_grad_norm", type=float, default=1.0, help="0: no clipping")
    group.add_argument("--adam_beta1", type=float, default=0.9)
    group.add_argument("--adam_beta2", type=float, default=0.999)
    group.add_argument("--adam_epsilon", type=float, default=1e-8)
    group.add_argument(
        "--lr_scheduler_type",
        default="linear",
        choices=["constant", "constant_with_warmup", "linear", "cosine"],
    )
    group.add_argument("--warmup_steps", type=int, default=0)
    group.add_argument(
        "--bf16", action="store_true", help="bfloat16 weights under a float32 master"
    )
    group.add_argument("--eval_data", metavar="F", help="rows whose loss is taken before and after")
    group.add_argument("--save_model", metavar="DIR")
    group.add_argument("--compare_log", metavar="F", help="a --log_file of tiertrain")
    group.add_argument(
        "--compare_model", metavar="DIR", help="what tiertrain wrote after the same steps"
    )
    group.add_argument(
        "--tolerance",
        type=float,
        default=1e-5,
        help="relative for losses and norms, absolute for weights (default 1e-5)",
    )
    return parser.parse_args(arguments)


def compare_logits(ours, theirs):
    """Both float32 [tokens, vocab]. Differences relative to the largest logit, KL, argmax."""

    def log_softmax(x):
        x = x.astype(np.float64) - x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))

    largest = float(np.abs(theirs).max())
    difference = float(np.abs(ours - theirs).max())
    kl = 0.0
    for start in range(0, len(ours), 64):
        p, q = log_softmax(theirs[start : start + 64]), log_softmax(ours[start : start + 64])
        kl += float((np.exp(p) * (p - q)).sum())
    return {
        "tokens": len(ours),
        "largest_logit": largest,
        "largest_difference": difference,
        "relative_difference": difference / largest,
        "mean_kl": kl / len(ours),
        "argmax_equal": float((ours.argmax(-1) == theirs.argmax(-1)).mean()),
    }


def check_logits(oracle, options):
    with safe_open(options.logits, framework="np") as file:
        ours, ids = file.get_tensor("logits"), file.get_tensor("input_ids").astype(np.int64)
    theirs = oracle.logits(training_rows.Row(ids, ids, [len(ids)]))
    if ours.shape != theirs.shape:
        raise training_rows.BadRow(
            f"{options.logits}: logits are {ours.shape}, the model's {theirs.shape}"
        )
    found = compare_logits(ours, theirs)
    print(
        f"{found['tokens']} tokens: largest logit difference"
        f" {found['relative_difference']:.2e} of the largest logit ({found['largest_logit']:.2f}),"
        f" mean KL {found['mean_kl']:.2e}, argmax equal {found['argmax_equal']:.1%}"
    )
    holds = (
        np.isfinite(ours).all()
        and found["relative_difference"] <= options.max_difference
        and (options.max_kl is None or found["mean_kl"] <= options.max_kl)
        and (options.min_argmax is None or found["argmax_equal"] >= options.min_argmax)
    )
    return found, bool(holds)


def compare_steps(steps, log_file):
    """Largest relative differences of loss and norm between our steps and tiertrain's log."""
    with open(log_file, encoding="utf-8") as file:
        logged = {
            line["step"]: line for line in map(json.loads, file) if line.get("loss") is not None
        }
    missing = [step["step"] for step in steps if step["step"] not in logged]
    if missing:
        raise training_rows.BadRow(f"{log_file}: no loss for steps {missing}")
    return {
        key: max(abs(logged[step["step"]][key] - step[key]) / abs(step[key]) for step in steps)
        for key in ("loss", "grad_norm")
    }


def train(oracle, options):
    found, holds = {}, True
    if options.eval_data:
        found["eval_loss_before"] = oracle.loss(training_rows.rows_of(options.eval_data))
        print(f"held-out loss before {found['eval_loss_before']:.4f}", flush=True)
    found["steps"] = oracle.train(list(training_rows.rows_of(options.train)), options)
    if options.eval_data:
        found["eval_loss_after"] = oracle.loss(training_rows.rows_of(options.eval_data))
        print(f"held-out loss after {found['eval_loss_after']:.4f}")
    if options.compare_log:
        found["relative_difference"] = compare_steps(found["steps"], options.compare_log)
        holds = all(value <= options.tolerance for value in found["relative_difference"].values())
        print("largest relative difference from the log:", found["relative_difference"])
    if options.compare_model:
        found["weight_difference"], name = oracle.weight_difference(options.compare_model)
        holds = holds and found["weight_difference"] <= options.tolerance
        print(f"largest weight difference {found['weight_difference']:.2e}, in {name}")
    if options.save_model:
        oracle.model.save_pretrained(options.save_model)
    return found, holds


def check_data(oracle, options):
    rows = list(training_rows.rows_of(options.data))
    if options.write_logits:
        save_file(
            {"input_ids": rows[0].input_ids.astype(np.int32), "logits": oracle.logits(rows[0])},
            options.write_logits,
        )
    loss = oracle.loss(rows)
    print(f"loss {loss:.7f} over {len(rows)} rows")
    return {"loss": loss, "rows": len(rows)}


def run(options):
    """Everything that was asked for, in one dict, and whether all bounds hold."""
    import transformers_oracle  # after --help: it takes seconds

    oracle = transformers_oracle.Oracle(options.model, options.threads)
    print(
        f"{options.model} opens in transformers {oracle.version}: {oracle.parameters} parameters",
        flush=True,
    )
    found, holds = {"parameters": oracle.parameters}, True
    if options.logits:
        compared, holds = check_logits(oracle, options)
        found.update(compared)
    if options.data:
        found.update(check_data(oracle, options))
    if options.prompt is not None:
        found["text"] = oracle.generate(
            options.prompt, options.max_new_tokens, options.tokenizer or options.model
        )
        print(f"{options.prompt}\n> {found['text']}")
    if options.train:
        trained, bounded = train(oracle, options)
        found.update(trained)
        holds = holds and bounded
    return found, holds


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        found, holds = run(options)
    except (training_rows.BadRow, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
            file.write("\n")
    if not holds:
        print("error: the difference is beyond what was allowed", file=sys.stderr)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
