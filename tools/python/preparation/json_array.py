"""Reads the items of one big JSON array, of which only one item is in memory at a time."""

import codecs
import json
import re

ITEM_CHARACTERS_MAX = 32 << 20
CHUNK_BYTES = 256 << 10
SPACE = re.compile(r"[ \t\r\n]*")


class BrokenArray(Exception):
    """Not a JSON array. There is no next line to go on at, so this ends the file."""


class JsonArray:
    """Iterates over (line number, value) of the array in a binary file."""

    def __init__(self, file):
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""  # what was read and not yet dropped
        self._at = 0  # index in _text of what comes next
        self._lines = 1  # line number of _text[0]
        self._ended = False

    def __iter__(self):
        self._expect("[")
        if self._peek() == "]":
            return
        while True:
            self._peek()
            line = self._line()
            yield line, self._value()
            if self._expect(",]") == "]":
                return

    def _line(self):
        return self._lines + self._text.count("\n", 0, self._at)

    def _more(self):
        """Drops what was used and reads as much again as is waiting, at least a chunk."""
        if self._ended:
            return False
        self._lines = self._line()
        self._text = self._text[self._at :]
        self._at = 0
        data = self._file.read(max(CHUNK_BYTES, len(self._text)))
        self._ended = not data
        try:
            self._text += self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            raise BrokenArray(
                f"{self._line()}: not UTF-8 after this line: {error.reason}"
            ) from error
        return True

    def _peek(self):
        """The next character that is not white space."""
        while True:
            self._at = SPACE.match(self._text, self._at).end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise BrokenArray(f"{self._line()}: the file ends inside the array")

    def _expect(self, characters):
        found = self._peek()
        if found not in characters:
            raise BrokenArray(
                f"{self._line()}: expected {' or '.join(characters)}, found {found!r}"
            )
        self._at += 1
        return found

    def _value(self):
        decoder = json.JSONDecoder()
        while True:
            try:
                value, end = decoder.raw_decode(self._text, self._at)
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
                fault = None
            except (ValueError, RecursionError) as error:
                fault = error
            if len(self._text) - self._at > ITEM_CHARACTERS_MAX or not self._more():
                raise BrokenArray(f"{self._line()}: the item that starts here is not JSON: {fault}")
