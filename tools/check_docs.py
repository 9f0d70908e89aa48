#!/usr/bin/env python3
"""Fails on a link in the documentation to a file that is not there."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def documents():
    yield from ROOT.glob("*.md")
    yield from (ROOT / "docs").rglob("*.md")


def faults():
    for path in sorted(documents()):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                if not (path.parent / target.split("#")[0]).exists():
                    yield f"{path.relative_to(ROOT)}:{number}: no such file: {target}"


def main():
    found = list(faults())
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
