"""Reads documents, one after the other, from text and JSON files of any size.

Nothing here holds more than one line, one item of a JSON array, or one part of a text at a time.
"""

import codecs
import dataclasses
import itertools
import json
import sys
from typing import Iterable

from preparation import json_array

LINE_BYTES_MAX = 32 << 20
PART_CHARACTERS = 256 << 10
REPORTED_MAX = 10
SPEAKERS = {"human": "user", "gpt": "assistant", "bing": "assistant", "chatgpt": "assistant"}


class Refused(Exception):
    """The user's input or options cannot be used. Says what, then on a new line what to do."""


@dataclasses.dataclass
class Document:
    """One document; exactly one of the last three is set."""

    where: str  # file:line, for messages
    parts: Iterable = None  # plain text; to be read before the next document is asked for
    messages: list = None  # a conversation: [{"role", "content"}, ...]
    instruction: dict = None  # {"instruction", "input", "output"}, strings


class BadLines:
    """Lines that cannot be used: the first one ends the run, or all are counted."""

    def __init__(self, policy):
        self.policy = policy
        self.count = 0

    def report(self, where, why):
        if self.policy == "refuse":
            raise Refused(
                f"{where}: {why}\nmend the line, or pass --bad_lines skip to count such lines and go on"
            )
        self.count += 1
        if self.count <= REPORTED_MAX:
            print(f"skipped {where}: {why}", file=sys.stderr)
        elif self.count == REPORTED_MAX + 1:
            print("more lines are skipped; the summary counts them", file=sys.stderr)


def text_parts(pieces):
    """The same text in parts of PART_CHARACTERS, cut before a space where there is one.

    A tokenizer sees one part at a time, so where the cuts fall depends on the text alone.
    """
    rest = ""
    for piece in pieces:
        rest += piece
        while len(rest) > PART_CHARACTERS:
            cut = max(rest.rfind(" ", 1, PART_CHARACTERS), rest.rfind("\n", 1, PART_CHARACTERS))
            cut = cut if cut > 0 else PART_CHARACTERS
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest


class Source:
    """One input file. `position` is the number of bytes read so far, for a progress bar."""

    def __init__(self, path, bad_lines, text_documents):
        self.path = path
        self.position = 0
        self._bad = bad_lines
        self._text_documents = text_documents  # a document is a: file, blank_line, line

    @staticmethod
    def kind_of(path, kind):
        if kind == "auto":
            return "json" if path.suffix in (".json", ".jsonl", ".ndjson") else "text"
        return kind

    def documents(self, kind):
        """Documents of the file, read as `kind`: text, json, or auto by the file's name."""
        kind = self.kind_of(self.path, kind)
        with self.path.open("rb") as file:
            if kind == "text":
                yield from self._texts(file)
                return
            start = file.read(4096).removeprefix(codecs.BOM_UTF8).lstrip()
            file.seek(0)
            items = self._array_items(file) if start.startswith(b"[") else self._line_items(file)
            for where, value in items:
                try:
                    yield document_of(where, value)
                except ValueError as error:
                    self._bad.report(where, error)

    def _lines(self, file):
        """(number, text) of each line that is UTF-8, with plain line ends."""
        for number in itertools.count(1):
            line = file.readline(LINE_BYTES_MAX + 1)
            if not line:
                return
            self.position = file.tell()
            if len(line) > LINE_BYTES_MAX:
                raise Refused(
                    f"{self.path}:{number}: longer than {LINE_BYTES_MAX >> 20} MiB\n"
                    "break it into several lines"
                )
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                yield number, line.decode("utf-8").replace("\r\n", "\n")
            except UnicodeDecodeError as error:
                self._bad.report(
                    f"{self.path}:{number}", f"not UTF-8 at byte {error.start + 1} of the line"
                )

    def _texts(self, file):
        lines = self._lines(file)
        if self._text_documents == "file":
            yield Document(f"{self.path}", parts=text_parts(line for _, line in lines))
            return
        paragraph, first = [], 0
        for number, line in itertools.chain(lines, [(0, "")]):
            if paragraph and (self._text_documents == "line" or not line.strip()):
                yield Document(
                    f"{self.path}:{first}", parts=text_parts(["".join(paragraph).rstrip("\n")])
                )
                paragraph = []
            if line.strip():
                first = first if paragraph else number
                paragraph.append(line)

    def _line_items(self, file):
        for number, line in self._lines(file):
            if not line.strip():
                continue
            where = f"{self.path}:{number}"
            try:
                yield where, json.loads(line)
            except (ValueError, RecursionError) as error:
                self._bad.report(where, f"not JSON: {error}")

    def _array_items(self, file):
        try:
            for line, value in json_array.JsonArray(file):
                self.position = file.tell()
                yield f"{self.path}:{line}", value
        except json_array.BrokenArray as error:
            raise Refused(f"{self.path}:{error}\nmend the file") from error


def document_of(where, value):
    """The document in one JSON object; ValueError says what is wrong with it."""
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found {type(value).__name__}")
    if "messages" in value or "conversations" in value:
        return Document(
            where, messages=conversation_of(value.get("messages", value.get("conversations")))
        )
    if "instruction" in value:
        record = {key: value.get(key) or "" for key in ("instruction", "input", "output")}
        for key, text in record.items():
            if not isinstance(text, str):
                raise ValueError(f"{key} is {type(text).__name__}, not a string")
        if not record["output"]:
            raise ValueError("no output to an instruction")
        return Document(where, instruction=record)
    if "text" in value:
        if not isinstance(value["text"], str):
            raise ValueError(f"text is {type(value['text']).__name__}, not a string")
        return Document(where, parts=text_parts([value["text"]]))
    raise ValueError(
        f"no text, messages, conversations or instruction among the keys {sorted(value)[:8]}"
    )


def conversation_of(turns):
    """Messages from {role, content} or from ShareGPT's {from, value}."""
    if not isinstance(turns, list) or not turns:
        raise ValueError("messages is not a list with something in it")
    messages = []
    for index, turn in enumerate(turns):
        if not isinstance(turn, dict):
            raise ValueError(f"message {index} is not an object")
        role = turn.get("role", turn.get("from"))
        content = turn.get("content", turn.get("value"))
        if not isinstance(role, str) or not isinstance(content, str):
            raise ValueError(f"message {index} has no role and content that are strings")
        messages.append({**turn, "role": SPEAKERS.get(role, role), "content": content})
    if all(message["role"] != "assistant" for message in messages):
        raise ValueError("no message of the assistant, so nothing to train")
    return messages
