"""Turns conversations and instructions into text, and says which of it the model should learn.

The text is what transformers' apply_chat_template gives for the same tokenizer directory.
"""

import datetime
import json
import os
import pathlib
import re

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

from preparation.documents import Refused

# Noncharacters of Unicode that mark what a template puts between {% generation %} tags.
GENERATION_START, GENERATION_END = "\ufdd0", "\ufdd1"

ALPACA = (
    "Below is an instruction that describes a task{paired}. Write a response that"
    " appropriately completes the request.\n\n### Instruction:\n{instruction}\n\n{input}### Response:\n"
)
ALPACA_PAIRED = ", paired with an input that provides further context"


class TemplateFault(ValueError):
    """The template cannot render this conversation."""


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: how a template marks what is trained."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller):
        return GENERATION_START + caller() + GENERATION_END


def _strftime_now(form):
    """Today, or the day that SOURCE_DATE_EPOCH names, so that a file can be made again."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.datetime.utcfromtimestamp(int(epoch)) if epoch else datetime.datetime.now()
    return now.strftime(form)


def _raise(message):
    raise TemplateFault(message)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _template_source(directory, config):
    """chat_template.jinja, else the config's template; of several, the one named default."""
    file = directory / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    source = config.get("chat_template")
    if isinstance(source, list):
        source = {item["name"]: item["template"] for item in source}.get("default")
    return source


class ChatTemplate:
    """The template of a tokenizer directory.

    `special_tokens` maps names like eos_token to text; `endings` are all that may end a turn.
    """

    def __init__(self, source, special_tokens, endings):
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = _strftime_now
        self._special = special_tokens
        self._template = environment.from_string(source)
        self._endings = tuple(endings)
        self._marks = "endgeneration" in source

    @classmethod
    def of(cls, directory, config, special_tokens, endings):
        """None if the tokenizer has no chat template."""
        source = _template_source(pathlib.Path(directory), config)
        try:
            return cls(source, special_tokens, endings) if source else None
        except jinja2.TemplateError as error:
            raise Refused(
                f"{directory}: the chat template is broken: {error}\nmend it, or pass --prompt_template alpaca"
            ) from error

    def render(self, messages):
        """(text, spans): spans are the [start, end) of what is trained, in characters."""
        text = self._text(messages, add_generation_prompt=False)
        if self._marks:
            return self._marked(text)
        return text, [
            self._answer(text, messages, index)
            for index, message in enumerate(messages)
            if message["role"] == "assistant"
        ]

    def prompt(self, messages):
        """What a model is given to answer `messages`."""
        return self._text(messages, add_generation_prompt=True)

    def _text(self, messages, add_generation_prompt):
        try:
            return self._template.render(
                messages=messages,
                add_generation_prompt=add_generation_prompt,
                tools=None,
                documents=None,
                **self._special,
            )
        except (jinja2.TemplateError, TemplateFault, TypeError) as error:
            raise TemplateFault(f"the chat template refuses it: {error}") from error

    @staticmethod
    def _marked(text):
        plain, spans, start = "", [], 0
        for piece in re.split(f"([{GENERATION_START}{GENERATION_END}])", text):
            if piece == GENERATION_START:
                start = len(plain)
            elif piece == GENERATION_END:
                spans.append((start, len(plain)))
            else:
                plain += piece
        return plain, spans

    def _answer(self, text, messages, index):
        """Where message `index` is in `text`: after what a model is given to answer it.

        White space after the token that ends the turn is not the model's to say.
        """
        before = self._text(messages[:index], add_generation_prompt=True)
        after = self._text(messages[: index + 1], add_generation_prompt=False)
        if not (text.startswith(after) and after.startswith(before)):
            raise TemplateFault(
                f"the chat template rewrites earlier messages, so it cannot be told what"
                f" message {index} adds; use a template with generation tags"
            )
        end = len(after)
        said = after.rstrip()
        if said.endswith(self._endings):
            end = len(said)
        return len(before), end


def alpaca_text(record, end_token):
    """(text, spans) of an instruction in the form that Stanford Alpaca used."""
    prompt = ALPACA.format(
        paired=ALPACA_PAIRED if record["input"] else "",
        instruction=record["instruction"],
        input=f"### Input:\n{record['input']}\n\n" if record["input"] else "",
    )
    text = prompt + record["output"] + end_token
    return text, [(len(prompt), len(text))]


def alpaca_messages(record):
    """The same instruction as a conversation."""
    question = record["instruction"] + ("\n\n" + record["input"] if record["input"] else "")
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": record["output"]},
    ]
