#!/usr/bin/env python3
"""Fails on an #include against the arrows between the folders (docs/architecture.md)."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = {
    "runtime": {"runtime"},
    "kernels": {"kernels", "runtime"},
    "tiers": {"tiers", "runtime"},
    "model": {"model", "kernels", "runtime"},
}
# Vendor headers stay behind our interfaces.
VENDOR = {
    r"cuda|cublas|cudnn|nccl|nvtx": re.compile(r"(^|/)(cuda_|nccl_)|^kernels/cuda/"),
    r"liburing|libaio": re.compile(r"_queue\.cc$"),
    r"dnnl": re.compile(r"^kernels/cpu/"),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def faults():
    for folder, allowed in ALLOWED.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
                continue
            name = str(path.relative_to(ROOT))
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                kind, header = match.groups()
                if kind == '"' and header.split("/")[0] not in allowed:
                    yield f"{name}:{number}: {folder}/ may not include {header}"
                for vendor, where in VENDOR.items():
                    if kind == "<" and re.match(vendor, header) and not where.search(name):
                        yield f"{name}:{number}: {header} belongs behind an interface"


def main():
    found = list(faults())
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
