#!/usr/bin/env python3
"""Writes the demo's text as conversations, from what a Debian package ships.

jargon    jargon-text: the Jargon File, a dictionary of hackers' slang (public domain); each
          entry becomes a question for its meaning and the answer
perlfaq   perl-doc: the 306 questions and answers of perlfaq (GPL or Artistic)
"""

import argparse
import gzip
import json
import pathlib
import re
import sys

JARGON = pathlib.Path("/usr/share/doc/jargon-text/jargon.txt.gz")
PERL = pathlib.Path("/usr/share/perl")
POD_CODES = re.compile(r"[A-Z]<([^<>]*)>|[A-Z]<<+ (.*?) >>+")
POD_ESCAPES = {"lt": "<", "gt": ">", "sol": "/", "verbar": "|"}


class NotInstalled(Exception):
    """The text is not on this machine."""


def conversation(question, answer):
    return {
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ]
    }


def paragraphs_of(text):
    """Paragraphs without their line breaks; tables are left out."""
    for block in re.split(r"\n[ \t]*\n", text):
        if block.strip() and "─" not in block:
            yield " ".join(block.split())


def jargon_entries(path=JARGON):
    """The dictionary: `   :term: /pronunciation/ what it means`, and more paragraphs."""
    if not path.is_file():
        raise NotInstalled(f"{path}: no such file\ninstall Debian's package jargon-text")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        text = file.read()
    entries = re.split(r"(?m)^   :([^:\n]+):", text)
    for term, body in zip(entries[1::2], entries[2::2]):
        body = re.split(r"(?m)^\s*Part\s+I", body)[0]  # another part of the book follows
        answer = "\n\n".join(paragraphs_of(body))
        answer = re.sub(r"\{([^{}]*)\}", r"\1", answer)  # a cross-reference
        if len(answer) > 40:
            yield conversation(f"What does “{term}” mean?", f"{term}: {answer}")


def plain_pod(text):
    text = re.sub(r"E<(\w+)>", lambda match: POD_ESCAPES.get(match[1], match[0]), text)
    for _ in range(3):  # codes inside codes
        text = POD_CODES.sub(lambda match: (match[1] or match[2] or "").split("|")[0], text)
    return text


def perl_questions(root=PERL):
    files = sorted({file.resolve() for file in root.glob("*/pod/perlfaq[1-9].pod")})
    if not files:
        raise NotInstalled(
            f"{root}/*/pod/perlfaq1.pod: no such file\ninstall Debian's package perl-doc"
        )
    for file in files:
        body = file.read_text(encoding="utf-8", errors="replace").split("\n=head1 AUTHOR")[0]
        for section in re.split(r"(?m)^=head2 ", body)[1:]:
            question, _, answer = re.split(r"(?m)^=head1 ", section)[0].partition("\n\n")
            answer = re.sub(r"(?m)^=(item +|(over|back|cut|for|begin|end)\b.*$)", "", answer)
            answer = "\n\n".join(
                block.strip("\n") if block[:1].isspace() else plain_pod(" ".join(block.split()))
                for block in re.split(r"\n\n+", answer)
                if block.strip()
            )
            if answer:
                yield conversation(plain_pod(" ".join(question.split())), answer)


SOURCES = {"jargon": jargon_entries, "perlfaq": perl_questions}


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", choices=sorted(SOURCES))
    parser.add_argument(
        "output", type=pathlib.Path, help="the .jsonl to write, a conversation a line"
    )
    options = parser.parse_args(arguments)
    try:
        lines = [json.dumps(value, ensure_ascii=False) for value in SOURCES[options.source]()]
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except (NotInstalled, OSError) as error:
        what, _, mend = str(error).partition("\n")
        print(f"error: {what}", *([mend] if mend else []), sep="\n", file=sys.stderr)
        return 2
    print(f"Wrote {options.output}: {len(lines)} conversations")
    return 0


if __name__ == "__main__":
    sys.exit(main())
