#!/usr/bin/env python3
"""Fine-tunes a model on a file of text, with the command line that people know.

Prepares the data with the model's own tokenizer and runs tiertrain. Whatever is not named below
goes to tiertrain as it is (tiertrain --help); flags of transformers' Trainer that mean nothing
here are passed over, and said so.

  finetune.sh --model_name_or_path ./model --data_path alpaca.json --deepspeed ds_config.json \\
    --per_device_train_batch_size 8 --learning_rate 2e-5 --num_train_epochs 3 --bf16 True \\
    --output_dir ./output

Data: .json or .jsonl with {"instruction", "input", "output"}, {"messages"} or {"text"}, or plain
text. It is prepared once: the token file lies beside the output directory and is used again
while inputs, tokenizer and row length are the same.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys

import generate
import prepare_data

# Flags of transformers' Trainer, and of scripts that wrap it, without a meaning here: with the
# values that ask for nothing else than what happens anyway (None: any).
PASSED_OVER = {
    "--ddp_find_unused_parameters": None,
    "--do_train": None,
    "--eval_strategy": {"no", "steps"},
    "--evaluation_strategy": {"no", "steps"},
    "--gradient_checkpointing": None,
    "--lazy_preprocess": None,
    "--local_rank": None,
    "--optim": {"adamw_torch", "adamw_torch_fused", "adamw_hf"},
    "--overwrite_output_dir": None,
    "--remove_unused_columns": None,
    "--report_to": {"none"},
    "--save_strategy": {"no", "steps"},
    "--tf32": None,
    "--trust_remote_code": {"False", "false"},
}
PREPARED = (".safetensors",)


def refuse(what, mend):
    print(f"error: {what}\ndo: {mend}", file=sys.stderr)
    sys.exit(2)


def split_flags(arguments):
    """[(flag, values)]: --flag value.. and --flag=value."""
    flags = []
    for argument in arguments:
        if argument.startswith("--"):
            name, equals, value = argument.partition("=")
            flags.append((name, [value] if equals else []))
        elif flags:
            flags[-1][1].append(argument)
        else:
            refuse(f"{argument}: a flag was expected", "see --help")
    return flags


def pass_over(flags):
    """The flags that tiertrain knows, or refuses by name itself."""
    kept = []
    for name, values in flags:
        allowed = PASSED_OVER.get(name, ())
        if name not in PASSED_OVER:
            kept.append((name, values))
        elif allowed is None or all(value in allowed for value in values):
            print(f"{' '.join([name, *values])}: passed over, it changes nothing here", file=sys.stderr)
        else:
            names = ", ".join(sorted(allowed))
            refuse(
                f"{' '.join([name, *values])}: not supported",
                f"leave it out, or give one of: {names}",
            )
    return kept


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--model_name_or_path", required=True, metavar="DIR", type=pathlib.Path)
    parser.add_argument("--output_dir", required=True, metavar="DIR", type=pathlib.Path)
    parser.add_argument(
        "--data_path",
        action="append",
        default=[],
        metavar="F",
        help="texts, conversations or instructions; repeatable",
    )
    parser.add_argument(
        "--train_file", action="append", default=[], metavar="F", help="the same, or a prepared file"
    )
    parser.add_argument(
        "--eval_fraction",
        type=float,
        default=0.0,
        metavar="X",
        help="share of documents that are held out and evaluated (default 0)",
    )
    parser.add_argument(
        "--max_seq_length",
        "--model_max_length",
        type=int,
        default=2048,
        metavar="N",
        help="tokens of a row (default 2048)",
    )
    parser.add_argument(
        "--tiertrain", metavar="PROGRAM", help="default: the newest under build/, or of PATH"
    )
    options, rest = parser.parse_known_args(arguments)
    options.passed_on = pass_over(split_flags(rest))
    options.data = options.data_path + options.train_file
    if not options.data:
        parser.error("--data_path: the file to train on is missing")
    prepared = [name for name in options.data if name.endswith(PREPARED)]
    if prepared and len(prepared) < len(options.data):
        parser.error(f"{prepared[0]} is prepared and others are not: give one kind")
    if prepared and options.eval_fraction:
        parser.error("--eval_fraction: a prepared file is not divided; give --eval_file")
    options.is_prepared = bool(prepared)
    return options


def stamp_of(options):
    """What the prepared file depends on."""
    files = [pathlib.Path(name) for name in options.data]
    files += sorted(options.model_name_or_path.glob("tokenizer*"))
    kinds = [[str(f.resolve()), f.stat().st_size, f.stat().st_mtime_ns] for f in files]
    rest = [options.max_seq_length, options.eval_fraction, prepare_data.FORMAT_VERSION]
    return hashlib.sha256(json.dumps([kinds, rest]).encode()).hexdigest()


def prepare(options):
    """The flags that name the prepared files."""
    if options.is_prepared:
        return [flag for name in options.data for flag in ("--train_file", name)]
    for name in options.data:
        if not pathlib.Path(name).is_file():
            refuse(f"--data_path {name}: there is no such file", "check the path")
    output = options.output_dir
    folder = output.parent / (output.name + "-data")
    train, held_out, stamp = (folder / name for name in ("train.safetensors", "eval.safetensors", "stamp"))
    wanted = stamp_of(options)
    if stamp.is_file() and stamp.read_text() == wanted and train.is_file():
        print(f"{train}: prepared before, used again", file=sys.stderr)
    else:
        stamp.unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        arguments = ["--tokenizer", str(options.model_name_or_path), "--output", str(train)]
        arguments += ["--max_seq_length", str(options.max_seq_length)]
        arguments += [flag for name in options.data for flag in ("--input", name)]
        if options.eval_fraction:
            arguments += ["--eval_fraction", str(options.eval_fraction)]
            arguments += ["--eval_output", str(held_out)]
        code = prepare_data.main(arguments)
        if code:
            sys.exit(code)
        stamp.write_text(wanted)
    flags = ["--train_file", str(train)]
    return flags + (["--eval_file", str(held_out)] if options.eval_fraction else [])


def main(arguments):
    options = parse_arguments(arguments)
    command = [options.tiertrain or generate.find_tiertrain()]
    command += ["--model_name_or_path", str(options.model_name_or_path)]
    command += prepare(options)
    command += ["--output_dir", str(options.output_dir)]
    command += ["--max_seq_length", str(options.max_seq_length)]
    for name, values in options.passed_on:
        command += [name, *values]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
