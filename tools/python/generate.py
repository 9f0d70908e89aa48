#!/usr/bin/env python3
"""Text in, text out: lets tiertrain continue prompts with a model, through its tokenizer.

Prompts go through the tokenizer's chat template if there is one. What stands behind -- goes to
tiertrain as it is:

  generate.py MODEL --prompt "What is a compiler?" -- --bf16 --device_memory 600MB
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from preparation.documents import Refused
from preparation.text_tokenizer import TextTokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def parse_arguments(arguments):
    passed_on = []
    if "--" in arguments:
        split = arguments.index("--")
        arguments, passed_on = arguments[:split], arguments[split + 1 :]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="Hugging Face directory")
    parser.add_argument("--prompt", action="append", default=[], help="repeatable")
    parser.add_argument(
        "--prompt_file", metavar="F", help="text file: a prompt is a line that is not blank"
    )
    parser.add_argument("--system", help="what the chat template's system message says")
    parser.add_argument(
        "--chat",
        choices=["auto", "true", "false"],
        default="auto",
        help="prompts are a user's messages (default: if the tokenizer has a chat template);"
        " false: the model goes on where they end",
    )
    parser.add_argument(
        "--tokenizer", metavar="DIR", help="default: the model's directory"
    )
    parser.add_argument("--max_new_tokens", type=int, default=64, help="default 64")
    parser.add_argument("--temperature", type=float, default=0.0, help="default 0: the likeliest")
    parser.add_argument(
        "--tiertrain", metavar="PROGRAM", help="default: the newest under build/, or of PATH"
    )
    options = parser.parse_args(arguments)
    options.passed_on = passed_on
    if options.prompt_file:
        lines = pathlib.Path(options.prompt_file).read_text(encoding="utf-8").splitlines()
        options.prompt += [line for line in lines if line.strip()]
    if not options.prompt:
        parser.error("--prompt or --prompt_file: there is nothing to continue")
    return options


def find_tiertrain():
    built = sorted(ROOT.glob("build/*/bin/tiertrain"), key=lambda path: path.stat().st_mtime)
    return str(built[-1]) if built else "tiertrain"


def prompt_tokens(tokenizer, options):
    if options.chat == "false" or (options.chat == "auto" and not tokenizer.has_chat_template):
        return [tokenizer.prompt_ids(prompt) for prompt in options.prompt]
    system = [{"role": "system", "content": options.system}] if options.system else []
    return [
        tokenizer.chat_ids(system + [{"role": "user", "content": prompt}])
        for prompt in options.prompt
    ]


def generate(options):
    """The texts that follow the prompts, in order."""
    tokenizer = TextTokenizer(options.tokenizer or options.model)
    with tempfile.TemporaryDirectory() as directory:
        prompts = pathlib.Path(directory) / "prompts.jsonl"
        with open(prompts, "w", encoding="utf-8") as file:
            for ids in prompt_tokens(tokenizer, options):
                file.write(json.dumps({"input_ids": ids}) + "\n")
        command = [
            options.tiertrain or find_tiertrain(), "--model_name_or_path", options.model,
            "--generate", prompts, "--max_new_tokens", options.max_new_tokens,
            "--temperature", options.temperature, *options.passed_on,
        ]  # fmt: skip
        done = subprocess.run(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            encoding="utf-8", check=False,
        )  # fmt: skip
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        sys.exit(done.returncode)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [tokenizer.text(line["output_ids"]) for line in lines]


def main(arguments=None):
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        texts = generate(options)
    except (Refused, ValueError, OSError) as error:
        what, _, mend = str(error).partition("\n")
        print(f"error: {what}", *([mend] if mend else []), sep="\n", file=sys.stderr)
        return 2
    for prompt, text in zip(options.prompt, texts):
        print(f"{prompt}\n> {text.strip()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
