"""Token ids and labels of documents, with any tokenizer that Hugging Face's library can read."""

import dataclasses
import hashlib
import json
import pathlib

import numpy as np
import tokenizers

from preparation import chat_template
from preparation.documents import Refused

IGNORED = -100
BATCH_PARTS = 256
BATCH_CHARACTERS = 1 << 20
SPECIAL = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


@dataclasses.dataclass
class Part:
    """Part of a document, waiting for its tokens or with them."""

    where: str
    text: str
    spans: list  # [start, end) of what is trained, in characters; None: all of it
    special: bool  # the tokenizer adds the special tokens that its settings ask for
    last: bool  # the document ends here
    conversation: bool


@dataclasses.dataclass
class Tokens:
    ids: np.ndarray  # int32 [tokens]
    labels: np.ndarray  # int32 [tokens], aligned with ids
    last: bool  # the document ends here
    conversation: bool  # cut at its end when too long, where text is split


def read_json(path, required):
    if not path.is_file():
        if required:
            raise Refused(
                f"{path}: no such file\nname a Hugging Face directory with a fast tokenizer"
            )
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Refused(f"{path}: not JSON: {error}\nfetch the tokenizer again") from error


class TextTokenizer:
    """The tokenizer in a Hugging Face directory.

    prompt_template: auto (the tokenizer's own for instructions, if it has one), chat, alpaca.
    document_end: the token after a plain text; auto for the tokenizer's eos_token, or none.
    """

    def __init__(self, directory, prompt_template="auto", document_end="auto"):
        directory = pathlib.Path(directory)
        self.name = directory.resolve().name
        read_json(directory / "tokenizer.json", required=True)
        self.sha256 = hashlib.sha256((directory / "tokenizer.json").read_bytes()).hexdigest()
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
        except Exception as error:  # the library raises Exception itself
            raise Refused(
                f"{directory / 'tokenizer.json'}: {error}\nfetch the tokenizer again"
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        config = read_json(directory / "tokenizer_config.json", required=False)
        self.length_max = config.get("model_max_length")
        self.special = self._special_tokens(directory, config)
        endings = [
            token.content
            for token in self._tokenizer.get_added_tokens_decoder().values()
            if token.special
        ]
        self._chat = chat_template.ChatTemplate.of(directory, config, self.special, endings)
        self._prompt_template = self._choose(prompt_template, directory)
        self._end_id = self._document_end(document_end, directory)
        padding = [self._id(self.special.get(name)) for name in ("pad_token", "eos_token")]
        self.pad_id = next((found for found in padding if found is not None), 0)

    @property
    def vocab_size(self):
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    @property
    def has_chat_template(self):
        return self._chat is not None

    def prompt_ids(self, text):
        """Token ids of a text that a model is to continue."""
        ids = self._tokenizer.encode(text, add_special_tokens=True).ids
        return ids[:-1] if ids and ids[-1] == self._end_id else ids

    def chat_ids(self, messages):
        """Token ids of a conversation that a model is to answer."""
        if not self._chat:
            raise Refused(
                f"{self.name}: the tokenizer has no chat template\n"
                "pass --chat false, or add chat_template to tokenizer_config.json"
            )
        return self._tokenizer.encode(self._chat.prompt(messages), add_special_tokens=False).ids

    def text(self, ids):
        """The text of token ids, without special tokens."""
        return self._tokenizer.decode(ids, skip_special_tokens=True)

    def _id(self, token):
        return None if token is None else self._tokenizer.token_to_id(token)

    @staticmethod
    def _special_tokens(directory, config):
        named = {**read_json(directory / "special_tokens_map.json", required=False), **config}
        content = {key: named[key] for key in SPECIAL if named.get(key)}
        return {
            key: token["content"] if isinstance(token, dict) else token
            for key, token in content.items()
        }

    def _choose(self, prompt_template, directory):
        if prompt_template == "auto":
            return "chat" if self._chat else "alpaca"
        if prompt_template == "chat" and not self._chat:
            raise Refused(
                f"{directory}: the tokenizer has no chat template\n"
                "pass --prompt_template alpaca, or add chat_template to tokenizer_config.json"
            )
        return prompt_template

    def _document_end(self, document_end, directory):
        if document_end == "none":
            return None
        token = self.special.get("eos_token") if document_end == "auto" else document_end
        found = self._id(token)
        if found is None and token is not None:
            raise Refused(
                f"{directory}: the tokenizer has no token {token!r}\npass --document_end none or another token"
            )
        return found

    def parts(self, document):
        """The document in parts to be tokenized; ValueError if the template cannot render it."""
        if document.parts is not None:
            held = None
            for text in document.parts:
                if held:
                    yield held
                held = Part(
                    document.where, text, None, special=held is None, last=False, conversation=False
                )
            if held:
                held.last = True
                yield held
            return
        if document.messages is not None and not self._chat:
            raise Refused(
                f"{document.where}: a conversation, but the tokenizer has no chat template\n"
                "add chat_template to tokenizer_config.json, or use instruction and output"
            )
        if document.messages is None and self._prompt_template == "alpaca":
            text, spans = chat_template.alpaca_text(
                document.instruction, self.special.get("eos_token") or ""
            )
            yield Part(document.where, text, spans, special=True, last=True, conversation=True)
            return
        messages = document.messages or chat_template.alpaca_messages(document.instruction)
        text, spans = self._chat.render(messages)
        yield Part(document.where, text, spans, special=False, last=True, conversation=True)

    def tokens(self, parts):
        """Tokens of a list of parts, in order. Parts of one document are consecutive."""
        encodings = [None] * len(parts)
        for offsets in (False, True):
            for special in (False, True):
                chosen = [
                    i
                    for i, part in enumerate(parts)
                    if part.special == special and (part.spans is not None) == offsets
                ]
                encode = (
                    self._tokenizer.encode_batch if offsets else self._tokenizer.encode_batch_fast
                )
                for i, encoding in zip(
                    chosen, encode([parts[i].text for i in chosen], add_special_tokens=special)
                ):
                    encodings[i] = encoding
        return [self._labelled(part, encoding) for part, encoding in zip(parts, encodings)]

    def _labelled(self, part, encoding):
        ids = np.array(encoding.ids, np.int32)
        if part.spans is None:
            ended = len(ids) > 0 and ids[-1] == self._end_id
            if part.last and not ended and self._end_id is not None:
                ids = np.append(ids, np.int32(self._end_id))
            elif part.special and ended and not part.last:
                ids = ids[:-1]  # the tokenizer ends each text itself; this one goes on
            return Tokens(ids, ids.copy(), part.last, part.conversation)
        labels = np.full(len(ids), IGNORED, np.int32)
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        for start, end in part.spans:
            said = (offsets[:, 0] < end) & (offsets[:, 1] > np.maximum(start, offsets[:, 0]))
            labels[said] = ids[said]
        return Tokens(ids, labels, part.last, part.conversation)
