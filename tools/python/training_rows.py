"""Reads the rows that tiertrain trains on, from .jsonl or from prepare_data.py's .safetensors.

A row is what one sequence of a micro-batch holds: token ids, labels aligned with them (-100 is
not trained; the shift by one happens inside the model), and the lengths of its documents.
"""

import dataclasses
import json
import pathlib

import numpy as np
from safetensors import safe_open

IGNORED = -100


@dataclasses.dataclass
class Row:
    input_ids: np.ndarray  # int64 [tokens]
    labels: np.ndarray  # int64 [tokens]
    document_lengths: list  # their sum is tokens

    def targets(self):
        """What position i must predict: labels[i + 1], or IGNORED at a document's end."""
        targets = np.append(self.labels[1:], IGNORED)
        targets[np.cumsum(self.document_lengths) - 1] = IGNORED
        return targets


class BadRow(Exception):
    """A row that cannot be trained on, named by file and line."""


def json_lines_rows(path):
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                value = json.loads(line)
                ids = np.array(value["input_ids"], np.int64)
                labels = np.array(value.get("labels", value["input_ids"]), np.int64)
            except (ValueError, KeyError, TypeError, OverflowError) as error:
                raise BadRow(f"{where}: not a row of token ids: {error!r}") from error
            lengths = value.get("document_lengths", [len(ids)])
            if labels.shape != ids.shape or ids.ndim != 1 or sum(lengths) != len(ids):
                raise BadRow(
                    f"{where}: {ids.shape} input_ids, {labels.shape} labels and document_lengths"
                    f" of {sum(lengths)} tokens do not fit together"
                )
            yield Row(ids, labels, lengths)


def prepared_rows(path, max_seq_length):
    """Rows of `max_seq_length` tokens (default: the file's own); unpacked, each document is one."""
    with safe_open(path, framework="np") as file:
        metadata = file.metadata() or {}
        length = max_seq_length or int(metadata["max_seq_length"])
        ids, labels = file.get_slice("input_ids"), file.get_slice("labels")
        borders = file.get_tensor("document_offsets")
        total = int(borders[-1])
        starts = (
            range(0, total, length) if metadata.get("packing") == "true" else borders[:-1].tolist()
        )
        for index, start in enumerate(starts):
            end = min(start + length, total)
            if metadata.get("packing") != "true":
                end = min(end, int(borders[index + 1]))
            inner = borders[
                np.searchsorted(borders, start, "right") : np.searchsorted(borders, end, "left")
            ]
            lengths = np.diff(np.concatenate([[start], inner, [end]])).tolist()
            yield Row(ids[start:end].astype(np.int64), labels[start:end].astype(np.int64), lengths)


def rows_of(path, max_seq_length=None):
    if pathlib.Path(path).suffix == ".safetensors":
        return prepared_rows(path, max_seq_length)
    return json_lines_rows(path)
