"""Writes prepared data: a .safetensors of any length, with little memory, complete or not at all.

  input_ids         int32 [tokens]
  labels            int32 [tokens]: aligned with input_ids; -100 is not trained, and stands at the start
                    of each document
  document_offsets  int64 [documents + 1]: document i is [offsets[i], offsets[i + 1])

With the metadata packing = "true" every row is max_seq_length tokens of this stream, no document
crosses a row's border, and padding is a document without trained tokens. With "false" each
document is a row.
"""

import json
import os
import shutil

import numpy as np

FORMAT_VERSION = "1"
COPY_BYTES = 4 << 20


def header_of(tokens, documents, metadata, length=0):
    """The file's first bytes. `length`: of the JSON, to which spaces fill it up."""
    header, offset = {"__metadata__": metadata}, 0
    for name, dtype, item_bytes, count in (
        ("input_ids", "I32", 4, tokens),
        ("labels", "I32", 4, tokens),
        ("document_offsets", "I64", 8, documents + 1),
    ):
        header[name] = {
            "dtype": dtype,
            "shape": [count],
            "data_offsets": [offset, offset + item_bytes * count],
        }
        offset += item_bytes * count
    text = json.dumps(header, separators=(",", ":")).encode()
    length = length or -(-len(text) // 8) * 8
    if len(text) > length:
        raise ValueError(f"a header of {len(text)} bytes, but {length} were kept for it")
    return length.to_bytes(8, "little") + text.ljust(length)


class PreparedFile:
    """Grows beside `path` in hidden files; finish() puts it in place, discard() leaves nothing.

    `metadata`: strings; finish() may add or replace values of up to 20 characters under the keys
    that are there already.
    """

    def __init__(self, path, metadata):
        self._path = path
        self._metadata = metadata
        path.parent.mkdir(parents=True, exist_ok=True)
        self._paths = [
            path.with_name(f".{path.name}.{part}") for part in ("ids", "labels", "offsets")
        ]
        self._files = [part.open("w+b") for part in self._paths]
        longest = {key: value.ljust(20) for key, value in metadata.items()}
        self._header_bytes = -(-len(header_of(10**18, 10**18, longest)) // 512) * 512 - 8
        self._files[0].write(bytes(8 + self._header_bytes))  # ids go to where they stay
        self._files[2].write(np.int64(0).tobytes())
        self._tokens = self._documents = 0

    def write_document(self, ids, labels):
        self._files[0].write(np.ascontiguousarray(ids, "<i4").data)
        self._files[1].write(np.ascontiguousarray(labels, "<i4").data)
        self._tokens += len(ids)
        self._documents += 1
        self._files[2].write(self._tokens.to_bytes(8, "little"))

    def finish(self, metadata):
        """Puts the file in place; returns its size in bytes."""
        main, *others = self._files
        for other in others:
            other.seek(0)
            shutil.copyfileobj(other, main, COPY_BYTES)
        main.seek(0)
        main.write(
            header_of(
                self._tokens, self._documents, {**self._metadata, **metadata}, self._header_bytes
            )
        )
        main.flush()
        os.fsync(main.fileno())
        size = os.fstat(main.fileno()).st_size
        self._paths[0].rename(self._path)
        self.discard()
        return size

    def discard(self):
        for file, path in zip(self._files, self._paths):
            file.close()
            path.unlink(missing_ok=True)
