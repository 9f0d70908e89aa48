#!/usr/bin/env python3
"""Turns text into the token file that tiertrain trains on, with any Hugging Face tokenizer.

Inputs, by the keys of each JSON object (.jsonl: one a line; .json: an array) or as plain text:
  {"text"}                          a text, all of it trained
  {"messages": [{role, content}]}   a conversation, through the tokenizer's chat template; only
                                    what the assistant says is trained (also ShareGPT's form)
  {"instruction", "input", "output"}  alpaca's form; only the output is trained

Documents are packed into rows of --max_seq_length tokens; they do not see each other. The same
inputs and options give the same file, and memory does not grow with the input.
"""

import argparse
import hashlib
import pathlib
import sys

from tqdm import tqdm

from preparation.documents import BadLines, Refused, Source
from preparation.prepared_file import FORMAT_VERSION, PreparedFile
from preparation.rows import RowBuilder
from preparation.text_tokenizer import BATCH_CHARACTERS, BATCH_PARTS, TextTokenizer


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    group = parser.add_argument_group("files")
    group.add_argument(
        "--tokenizer",
        required=True,
        metavar="DIR",
        help="a model's or tokenizer's directory (tokenizer.json)",
    )
    group.add_argument(
        "--input", required=True, action="append", metavar="F", type=pathlib.Path, help="repeatable"
    )
    group.add_argument("--output", required=True, metavar="F.safetensors", type=pathlib.Path)
    group.add_argument(
        "--eval_output", metavar="F.safetensors", type=pathlib.Path, help="held-out documents"
    )
    group.add_argument(
        "--eval_fraction",
        type=float,
        default=0.0,
        help="share of documents to hold out (default 0)",
    )
    group.add_argument(
        "--seed", type=int, default=42, help="which documents are held out (default 42)"
    )

    group = parser.add_argument_group("how inputs are read")
    group.add_argument(
        "--format",
        choices=["auto", "text", "json"],
        default="auto",
        help="default: json where the name ends in .jsonl, .ndjson or .json",
    )
    group.add_argument(
        "--text_documents",
        choices=["file", "blank_line", "line"],
        default="file",
        help="what a document is in plain text: all of it, or what blank lines or lines part"
        " (default file)",
    )
    group.add_argument(
        "--bad_lines",
        choices=["refuse", "skip"],
        default="refuse",
        help="a line that cannot be used ends the run, and nothing is written; or it is counted"
        " (default refuse)",
    )
    group.add_argument(
        "--prompt_template",
        choices=["auto", "chat", "alpaca"],
        default="auto",
        help="for instructions: the tokenizer's chat template, or Alpaca's own words"
        " (default: chat if there is one)",
    )
    group.add_argument(
        "--document_end",
        default="auto",
        metavar="TOKEN|auto|none",
        help="token after a plain text (default: the tokenizer's eos_token)",
    )

    group = parser.add_argument_group("rows")
    group.add_argument(
        "--max_seq_length", type=int, default=2048, help="tokens of a row (default 2048)"
    )
    group.add_argument(
        "--packing",
        default="true",
        choices=["true", "false"],
        help="several documents in a row (default true); false: each is a row of its own length",
    )
    group.add_argument(
        "--long_documents",
        choices=["auto", "split", "truncate", "drop"],
        default="auto",
        help="longer than a row (default: texts are split, conversations truncated)",
    )
    options = parser.parse_args(arguments)
    options.packing = options.packing == "true"
    if options.max_seq_length < 2:
        parser.error("--max_seq_length: at least 2, or there is nothing to predict")
    if not 0 <= options.eval_fraction < 1:
        parser.error("--eval_fraction: at least 0 and less than 1")
    if (options.eval_fraction > 0) != (options.eval_output is not None):
        parser.error("--eval_fraction and --eval_output go together")
    return options


def held_out(options, index):
    """Whether document `index` is held out: a hash of seed and index, whatever the batches."""
    digest = hashlib.blake2b(f"{options.seed} {index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") < options.eval_fraction * 2**64


def labelled_parts(options, tokenizer, sources, bad_lines, progress):
    """(part of a document, whether it is held out), over all sources."""
    index = 0
    for source in sources:
        before = 0
        for document in source.documents(options.format):
            evaluated = held_out(options, index)
            try:
                for part in tokenizer.parts(document):
                    yield part, evaluated
                    progress.update(source.position - before)
                    before = source.position
            except ValueError as error:
                bad_lines.report(document.where, error)
                continue
            index += 1


def batches(items):
    """Lists of items of bounded size: tokenizers work on them in parallel."""
    batch, characters = [], 0
    for item in items:
        batch.append(item)
        characters += len(item[0].text)
        if len(batch) >= BATCH_PARTS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def metadata_of(options, tokenizer):
    return {
        "format": "strata-prepared-data",
        "format_version": FORMAT_VERSION,
        "tokenizer": tokenizer.name,
        "tokenizer_sha256": tokenizer.sha256,
        "vocab_size": str(tokenizer.vocab_size),
        "source": ",".join(path.name for path in options.input),
        "max_seq_length": str(options.max_seq_length),
        "packing": "true" if options.packing else "false",
        "documents": "",
        "trained_tokens": "",
        "padding_tokens": "",
    }


def summary(name, counts, size):
    lines = [
        f"{name}: {size / 1e6:.1f} MB",
        f"  documents {counts.documents}, truncated {counts.truncated}, dropped {counts.dropped}"
        f" ({counts.cut_tokens} tokens cut)",
        f"  rows {counts.rows}, tokens {counts.tokens}, trained {counts.trained_tokens}"
        f" ({counts.trained_tokens / max(1, counts.tokens):.1%}), padding {counts.padding}"
        f" ({counts.padding / max(1, counts.tokens + counts.padding):.1%})",
    ]
    return "\n".join(lines)


def prepare(options):
    """Returns {path: (counts, size in bytes)} and the number of bad lines."""
    refuse_early(options)
    tokenizer = TextTokenizer(options.tokenizer, options.prompt_template, options.document_end)
    if tokenizer.length_max and options.max_seq_length > tokenizer.length_max:
        print(
            f"note: --max_seq_length {options.max_seq_length} is more than the tokenizer's"
            f" model_max_length {tokenizer.length_max}",
            file=sys.stderr,
        )
    bad_lines = BadLines(options.bad_lines)
    sources = [Source(path, bad_lines, options.text_documents) for path in options.input]
    total = sum(path.stat().st_size for path in options.input)

    outputs = [options.output] + ([options.eval_output] if options.eval_output else [])
    files, results = [], {}
    try:
        for path in outputs:
            files.append(PreparedFile(path, metadata_of(options, tokenizer)))
        builders = [
            RowBuilder(
                options.max_seq_length,
                options.packing,
                options.long_documents,
                tokenizer.pad_id,
                file,
            )
            for file in files
        ]
        # On a terminal only.
        with tqdm(total=total, unit="B", unit_scale=True, desc="tokens", disable=None) as progress:
            for batch in batches(labelled_parts(options, tokenizer, sources, bad_lines, progress)):
                for tokens, (_, evaluated) in zip(
                    tokenizer.tokens([part for part, _ in batch]), batch
                ):
                    builders[evaluated].add(tokens)
        for builder in builders:
            builder.finish()
        documents = sum(builder.counts.documents for builder in builders)
        for path, builder in zip(outputs, builders):
            refuse_empty(path, builder.counts, options, documents)
        for path, builder, file in zip(outputs, builders, files):
            counts = builder.counts
            size = file.finish(
                {
                    "documents": str(counts.documents - counts.dropped),
                    "trained_tokens": str(counts.trained_tokens),
                    "padding_tokens": str(counts.padding),
                }
            )
            results[path] = (counts, size)
    finally:
        for file in files:
            file.discard()
    return results, bad_lines.count


def refuse_early(options):
    """What the options alone show to be in vain, before hours of work."""
    for path in options.input:
        if not path.is_file():
            raise Refused(f"{path}: no such file\ngive --input a text or JSON file")
    paths = [path.resolve() for path in [*options.input, options.output]]
    if options.eval_output:
        paths.append(options.eval_output.resolve())
    outputs = paths[len(options.input) :]
    for path in outputs:
        if paths.count(path) > 1:
            raise Refused(f"{path}: would be written over\nname another output")
    kinds = {Source.kind_of(path, options.format) for path in options.input}
    if options.eval_output and kinds == {"text"} and options.text_documents == "file":
        documents = len(options.input)
        if sum(held_out(options, index) for index in range(documents)) in (0, documents):
            raise Refused(
                f"--eval_fraction {options.eval_fraction} cannot part {documents} text files"
                "\npass --text_documents blank_line or line"
            )


def refuse_empty(path, counts, options, documents):
    """`documents`: of all outputs together."""
    if counts.trained_tokens:
        return
    if documents == 0:
        raise Refused("the inputs hold no document\ngive --input files that do")
    if counts.documents == 0:
        raise Refused(
            f"--eval_fraction {options.eval_fraction} of {documents} documents leaves none for {path}\n"
            "give more documents, another fraction, or --text_documents blank_line"
        )
    raise Refused(
        f"nothing to train for {path}: of {counts.documents} documents, {counts.dropped} have no"
        f" trained token within --max_seq_length {options.max_seq_length}\nraise --max_seq_length"
    )


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        results, bad = prepare(options)
    except (Refused, OSError) as error:
        what, _, mend = str(error).partition("\n")
        print(f"error: {what}", *([mend] if mend else []), sep="\n", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    for path, (counts, size) in results.items():
        print(summary(path, counts, size))
    if bad:
        print(f"bad lines skipped: {bad}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
