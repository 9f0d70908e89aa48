"""Cuts documents to the length of a row and packs them into rows.

Everything is decided by the order of the documents alone, and at most OPEN_ROWS rows are in
memory, so the result is the same each time and any amount of text passes through.
"""

import dataclasses

import numpy as np

IGNORED = -100
OPEN_ROWS = 64


@dataclasses.dataclass
class Counts:
    """What became of the documents. A document is dropped when nothing of it is kept."""

    documents: int = 0
    tokens: int = 0  # kept, padding not among them
    trained_tokens: int = 0
    truncated: int = 0  # documents that lost some of their tokens
    dropped: int = 0
    cut_tokens: int = 0  # of truncated and dropped documents
    padding: int = 0
    rows: int = 0


class DocumentCutter:
    """Turns the parts of documents into pieces of at most `length` tokens.

    A document that is longer is split into pieces that do not see each other, truncated, or
    dropped; `auto` splits texts and truncates conversations. Pieces without a token to train are
    left out. The first label of a piece is IGNORED, for nothing comes before it.
    """

    def __init__(self, length, long_documents, counts):
        self._length = length
        self._long = long_documents
        self._counts = counts
        self._start()

    def _start(self):
        self._ids = self._labels = np.empty(0, np.int32)
        self._seen = 0  # tokens of the current document
        self._kept = 0

    def add(self, tokens):
        """Yields (ids, labels) of the pieces that are ready, after one more part of a document."""
        action = self._long
        if action == "auto":
            action = "truncate" if tokens.conversation else "split"
        self._seen += len(tokens.ids)
        room = len(tokens.ids) if action == "split" else max(0, self._length + 1 - len(self._ids))
        self._ids = np.concatenate([self._ids, tokens.ids[:room]])
        self._labels = np.concatenate([self._labels, tokens.labels[:room]])
        if action == "split":
            while len(self._ids) > self._length or (tokens.last and len(self._ids)):
                yield from self._piece()
                self._ids, self._labels = self._ids[self._length :], self._labels[self._length :]
        if not tokens.last:
            return
        if action == "truncate" or len(self._ids) <= self._length:
            yield from self._piece()
        self._counts.documents += 1
        self._counts.cut_tokens += self._seen - self._kept
        self._counts.dropped += self._kept == 0
        self._counts.truncated += 0 < self._kept < self._seen
        self._start()

    def _piece(self):
        ids, labels = self._ids[: self._length], self._labels[: self._length].copy()
        labels[:1] = IGNORED
        if (labels != IGNORED).any():
            self._kept += len(ids)
            yield ids, labels


class RowPacker:
    """Puts whole pieces into rows of `length` tokens, each where the least room stays."""

    def __init__(self, length):
        self._length = length
        self._open = []  # [room, pieces], oldest first

    def add(self, ids, labels):
        """Yields the rows (lists of pieces) that are finished by this piece."""
        fitting = [row for row in self._open if row[0] >= len(ids)]
        if fitting:
            row = min(fitting, key=lambda candidate: candidate[0])
        else:
            row = [self._length, []]
            self._open.append(row)
        row[0] -= len(ids)
        row[1].append((ids, labels))
        if row[0] == 0:
            yield self._close(row)
        elif len(self._open) > OPEN_ROWS:
            yield self._close(min(self._open, key=lambda candidate: candidate[0]))

    def _close(self, row):
        self._open = [other for other in self._open if other is not row]
        return row[1]

    def finish(self):
        for row in list(self._open):
            yield self._close(row)


class RowBuilder:
    """Documents in, rows of the prepared file out: cut, packed and padded."""

    def __init__(self, length, packing, long_documents, pad_id, file):
        self.counts = Counts()
        self._length = length
        self._cutter = DocumentCutter(length, long_documents, self.counts)
        self._packer = RowPacker(length) if packing else None
        self._pad_id = pad_id
        self._file = file

    def add(self, tokens):
        for ids, labels in self._cutter.add(tokens):
            rows = self._packer.add(ids, labels) if self._packer else [[(ids, labels)]]
            for row in rows:
                self._write(row)

    def finish(self):
        for row in self._packer.finish() if self._packer else []:
            self._write(row)

    def _write(self, row):
        used = 0
        for ids, labels in row:
            self._file.write_document(ids, labels)
            used += len(ids)
            self.counts.trained_tokens += int((labels != IGNORED).sum())
        self.counts.tokens += used
        self.counts.rows += 1
        padding = self._length - used if self._packer else 0
        if padding:  # a document of its own, so that no other sees it
            self._file.write_document(
                np.full(padding, self._pad_id, np.int32), np.full(padding, IGNORED, np.int32)
            )
            self.counts.padding += padding
