"""What prepare_data.py writes, read back: rows, borders, labels, counts and refusals."""

import contextlib
import io
import json
import pathlib
import random
import tempfile
import unittest

import numpy as np
from safetensors import safe_open
from tokenizers import Tokenizer

import prepare_data
import training_rows
from preparation import documents, rows
from tests import small_tokenizer

IGNORED = -100


class PrepareDataTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tokenizer_dir = self.folder / "tokenizer"
        self.tokenizer_dir.mkdir()
        small_tokenizer.write(self.tokenizer_dir)
        self.tokenizer = Tokenizer.from_file(str(self.tokenizer_dir / "tokenizer.json"))
        self.output = self.folder / "out" / "train.safetensors"

    def write(self, name, content):
        path = self.folder / name
        if not isinstance(content, (str, bytes)):
            content = "".join(json.dumps(value) + "\n" for value in content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def run_tool(self, *arguments, expect=0):
        """(what it printed, what it said on stderr)"""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = prepare_data.main(
                    [
                        "--tokenizer",
                        str(self.tokenizer_dir),
                        "--output",
                        str(self.output),
                        *map(str, arguments),
                    ]
                )
            except SystemExit as stop:
                code = stop.code
        self.assertEqual(code, expect, err.getvalue())
        return out.getvalue(), err.getvalue()

    def documents(self, path=None):
        """[(text, trained text)] of each document, special tokens included."""
        with safe_open(path or self.output, "np") as file:
            ids, labels = file.get_tensor("input_ids"), file.get_tensor("labels")
            offsets = file.get_tensor("document_offsets")
        self.assertEqual((ids.dtype, labels.dtype, offsets.dtype), (np.int32, np.int32, np.int64))
        self.assertEqual((offsets[0], offsets[-1]), (0, len(ids)))
        trained = labels != IGNORED
        np.testing.assert_array_equal(labels[trained], ids[trained])  # aligned, not shifted
        self.assertFalse(
            trained[offsets[:-1]].any()
        )  # nothing comes before a document's first token
        return [
            (self.decode(ids[a:b]), self.decode(ids[a:b][trained[a:b]]))
            for a, b in zip(offsets, offsets[1:])
        ]

    def decode(self, ids):
        return self.tokenizer.decode(list(ids), skip_special_tokens=False)

    def test_plain_text_is_trained_whole_and_closed(self):
        text = self.write("a.txt", "the lazy dog\r\nfoo 12\n")
        self.run_tool("--input", text, "--packing", "false")
        ((whole, trained),) = self.documents()
        self.assertEqual(whole, "the lazy dog\nfoo 12\n<|im_end|>")
        self.assertEqual(whole[len("the") :], trained)

    def test_only_the_assistant_is_trained(self):
        lines = self.write(
            "a.jsonl",
            [
                {
                    "messages": [
                        {"role": "system", "content": "S"},
                        {"role": "user", "content": "one"},
                        {"role": "assistant", "content": "two"},
                        {"role": "user", "content": "three"},
                        {"role": "assistant", "content": "four"},
                    ]
                },
                {
                    "conversations": [
                        {"from": "human", "value": "five"},
                        {"from": "gpt", "value": "six"},
                    ]
                },
                {"instruction": "seven", "input": "eight", "output": "nine"},
            ],
        )
        self.run_tool("--input", lines, "--packing", "false")
        self.assertEqual(
            [trained for _, trained in self.documents()],
            ["two<|im_end|>four<|im_end|>", "six<|im_end|>", "nine<|im_end|>"],
        )
        self.assertIn(
            "seven\n\neight<|im_end|>\n<|im_start|>assistant\nnine", self.documents()[2][0]
        )

    def test_generation_tags_say_what_is_trained(self):
        small_tokenizer.write(self.tokenizer_dir, small_tokenizer.MARKED_TEMPLATE)
        lines = self.write(
            "a.jsonl",
            [
                {
                    "messages": [
                        {"role": "assistant", "content": "zero\0"},
                        {"role": "user", "content": "one"},
                        {"role": "assistant", "content": "two"},
                    ]
                }
            ],
        )
        self.run_tool("--input", lines, "--packing", "false")
        ((whole, trained),) = self.documents()
        self.assertEqual(trained, "zero\0<|im_end|>two<|im_end|>")
        self.assertNotIn("\ufdd0", whole)

    def test_alpaca_words_without_a_chat_template(self):
        small_tokenizer.write(self.tokenizer_dir, chat_template=None, begin_token="<|endoftext|>")
        lines = self.write(
            "a.json",
            json.dumps(
                [
                    {"instruction": "add", "input": "{1}", "output": "2"},
                    {"instruction": "stop", "input": "", "output": "ok"},
                ]
            ),
        )
        self.run_tool("--input", lines, "--packing", "false")
        (first, trained), (second, _) = self.documents()
        self.assertTrue(
            first.startswith("<|endoftext|>Below is an instruction that describes a task, paired")
        )
        self.assertTrue(
            first.endswith("### Instruction:\nadd\n\n### Input:\n{1}\n\n### Response:\n2<|im_end|>")
        )
        self.assertEqual(trained, "2<|im_end|>")
        self.assertNotIn("Input", second)

    def test_a_long_text_is_split_without_losing_a_token(self):
        text = "the quick brown fox " * 200
        self.run_tool("--input", self.write("a.txt", text), "--max_seq_length", 64)
        kept = self.documents()
        self.assertEqual(
            "".join(whole for whole, _ in kept).replace("<|pad|>", ""), text + "<|im_end|>"
        )

    def test_a_long_conversation_is_truncated_or_dropped_with_its_answer(self):
        lines = self.write(
            "a.jsonl",
            [
                {
                    "messages": [
                        {"role": "user", "content": "fox " * 60},
                        {"role": "assistant", "content": "dog"},
                    ]
                },
                {
                    "messages": [
                        {"role": "user", "content": "fox"},
                        {"role": "assistant", "content": "dog " * 60},
                    ]
                },
            ],
        )
        printed, _ = self.run_tool("--input", lines, "--max_seq_length", 32)
        self.assertIn("documents 2, truncated 1, dropped 1", printed)
        whole, trained = self.documents()[0]
        self.assertEqual(len(self.tokenizer.encode(whole).ids), 32)
        self.assertTrue(trained.startswith("dog dog"))

    def test_rows_hold_whole_documents(self):
        generator = random.Random(7)
        texts = ["dog " * generator.randrange(1, 40) for _ in range(400)]
        self.run_tool(
            "--input",
            self.write("a.jsonl", [{"text": text} for text in texts]),
            "--max_seq_length",
            48,
            "--long_documents",
            "truncate",
        )
        kept = [whole for whole, trained in self.documents() if trained]
        self.assertEqual(sorted(kept), sorted(text + "<|im_end|>" for text in texts))
        packed = list(training_rows.rows_of(self.output))
        self.assertEqual({len(row.input_ids) for row in packed}, {48})
        with safe_open(self.output, "np") as file:
            borders = set(file.get_tensor("document_offsets").tolist())
            self.assertEqual(file.metadata()["documents"], "400")
        self.assertTrue(borders.issuperset(range(0, 48 * len(packed), 48)))

    def test_packing_wastes_little(self):
        generator = random.Random(3)
        texts = [{"text": "dog " * generator.randrange(1, 100)} for _ in range(1000)]
        self.run_tool("--input", self.write("a.jsonl", texts), "--max_seq_length", 256)
        with safe_open(self.output, "np") as file:
            padding = int(file.metadata()["padding_tokens"])
            self.assertLess(padding, 0.05 * file.get_slice("input_ids").get_shape()[0])

    def test_the_same_input_gives_the_same_bytes(self):
        lines = self.write("a.jsonl", [{"text": f"tiers {i} " * (i % 90 + 1)} for i in range(700)])
        arguments = [
            "--input",
            lines,
            "--max_seq_length",
            100,
            "--eval_fraction",
            0.1,
            "--eval_output",
            self.folder / "eval.safetensors",
        ]
        contents = []
        for _ in range(2):
            self.run_tool(*arguments)
            contents.append(
                (self.output.read_bytes(), (self.folder / "eval.safetensors").read_bytes())
            )
        self.assertEqual(*contents)

    def test_held_out_documents_are_in_no_training_row(self):
        lines = self.write("a.jsonl", [{"text": f"document {i}"} for i in range(300)])
        self.run_tool(
            "--input",
            lines,
            "--eval_fraction",
            0.2,
            "--eval_output",
            self.folder / "eval.safetensors",
        )
        train = [whole for whole, trained in self.documents() if trained]
        evaluated = [
            whole for whole, trained in self.documents(self.folder / "eval.safetensors") if trained
        ]
        self.assertEqual(len(set(train) | set(evaluated)), 300)
        self.assertEqual(len(train) + len(evaluated), 300)
        self.assertTrue(30 < len(evaluated) < 90)

    def test_text_documents_end_where_they_are_told_to(self):
        text = self.write("a.txt", "one\ntwo\n\n\nthree\n")
        for ends, expected in (
            ("line", ["one", "two", "three"]),
            ("blank_line", ["one\ntwo", "three"]),
            ("file", ["one\ntwo\n\n\nthree\n"]),
        ):
            self.run_tool("--input", text, "--text_documents", ends, "--packing", "false")
            self.assertEqual(
                [whole for whole, _ in self.documents()], [text + "<|im_end|>" for text in expected]
            )

    def test_a_bad_line_is_refused_by_file_and_number(self):
        good = b'{"text": "fine fine"}\n'
        for bad, why in (
            (b"{oops\n", "not JSON"),
            (b'"text"\n', "expected an object"),
            (b'{"text": 3}\n', "int, not a string"),
            (b'{"txet": "a"}\n', "'txet'"),
            (b"\xff\xfe\n", "not UTF-8 at byte 1"),
            (b'{"messages": []}\n', "messages"),
            (b'{"instruction": "a"}\n', "no output"),
            (b'{"messages": [{"role": "user", "content": "a"}]}\n', "assistant"),
        ):
            lines = self.write("a.jsonl", good + b"\n" + bad + good)
            _, said = self.run_tool("--input", lines, expect=2)
            self.assertIn(f"{lines}:3: ", said)
            self.assertIn(why, said)
            self.assertEqual(list(self.output.parent.iterdir()), [])
            printed, said = self.run_tool("--input", lines, "--bad_lines", "skip")
            self.assertIn(f"skipped {lines}:3: ", said)
            self.assertIn("bad lines skipped: 1", printed)
            self.assertIn("documents 2,", printed)
            self.output.unlink()

    def test_nothing_to_train_is_refused(self):
        for content, why in (
            ("", "no document"),
            ("\n\n", "no document"),
            (
                [
                    {
                        "messages": [
                            {"role": "user", "content": "fox " * 60},
                            {"role": "assistant", "content": "dog"},
                        ]
                    }
                ],
                "--max_seq_length 32",
            ),
        ):
            _, said = self.run_tool(
                "--input", self.write("a.jsonl", content), "--max_seq_length", 32, expect=2
            )
            self.assertIn(why, said)
            self.assertEqual(list(self.output.parent.iterdir()), [])
        self.run_tool("--input", self.folder / "absent.txt", expect=2)
        text = self.write("a.txt", "one document")
        _, said = self.run_tool(
            "--input", text, "--eval_fraction", 0.1, "--eval_output", self.folder / "e", expect=2
        )
        self.assertIn("--text_documents", said)

    def test_an_input_is_never_written_over(self):
        text = self.write("a.jsonl", [{"text": "keep this"}])
        for arguments in (
            ["--output", text],
            ["--eval_output", self.output, "--eval_fraction", 0.5],
        ):
            _, said = self.run_tool("--input", text, *arguments, expect=2)
            self.assertIn("written over", said)
        self.assertIn("keep this", text.read_text())

    def test_flags_are_checked_before_anything_is_read(self):
        for arguments in (["--packing", "yes"], ["--max_seq_length", 1], ["--eval_fraction", 0.5]):
            self.run_tool("--input", self.folder / "absent", *arguments, expect=2)

    def test_a_directory_without_a_tokenizer_is_refused(self):
        (self.tokenizer_dir / "tokenizer.json").unlink()
        _, said = self.run_tool("--input", self.write("a.txt", "text"), expect=2)
        self.assertIn("tokenizer.json: no such file", said)
        self.assertFalse(self.output.parent.exists())

    def test_a_failed_run_keeps_the_older_file(self):
        text = self.write("a.jsonl", [{"text": "older text"}])
        self.run_tool("--input", text)
        before = self.output.read_bytes()
        self.run_tool("--input", self.write("b.jsonl", '{"text": "new"}\n{'), expect=2)
        self.assertEqual(self.output.read_bytes(), before)
        self.assertEqual(list(self.output.parent.iterdir()), [self.output])


class SourceTest(unittest.TestCase):
    def read(self, content, **changes):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.json"
            path.write_bytes(content)
            source = documents.Source(path, documents.BadLines("skip"), "file")
            return [
                (document.where.removeprefix(str(path)), "".join(document.parts))
                for document in source.documents(changes.get("kind", "json"))
            ]

    def test_arrays_are_read_item_by_item(self):
        items = [{"text": "x" * (i * 997 % 5000) + 'ü"]},{'} for i in range(400)]
        for indent in (None, 2):
            content = (
                b"\xef\xbb\xbf" + json.dumps(items, indent=indent, ensure_ascii=False).encode()
            )
            self.assertEqual(
                [text for _, text in self.read(content)], [item["text"] for item in items]
            )
        self.assertEqual(
            self.read(b' [\n {"text":"a"} ,\n\n{"text":"b"}]'), [(":2", "a"), (":4", "b")]
        )
        self.assertEqual(self.read(b"[]"), [])

    def test_a_broken_array_is_refused_at_its_line(self):
        for content, where in (
            (b'[{"text":"a"},\n{"text":}]', ":2: "),
            (b'[{"text":"a"}', ":1: "),
            (b'[\n{"text":"a"}\n{"text":"b"}]', ":3: "),
            (b'[{"text":"a"},]', ":1: "),
        ):
            with self.assertRaises(documents.Refused) as refused:
                self.read(content)
            self.assertIn(f"a.json{where}", str(refused.exception))

    def test_parts_of_a_text_depend_on_the_text_alone(self):
        generator = random.Random(1)
        text = "".join(generator.choice("ab \n") for _ in range(3 * documents.PART_CHARACTERS))
        whole = list(documents.text_parts([text]))
        self.assertEqual("".join(whole), text)
        self.assertGreater(len(whole), 2)
        self.assertEqual(
            whole, list(documents.text_parts(text[i : i + 777] for i in range(0, len(text), 777)))
        )


class RowsTest(unittest.TestCase):
    def pieces(self, lengths, length, action):
        counts = rows.Counts()
        cutter = rows.DocumentCutter(length, action, counts)
        found = []
        for index, count in enumerate(lengths):
            ids = np.arange(count, dtype=np.int32)
            half = count // 3
            for part, last in ((ids[:half], False), (ids[half:], True)):
                tokens = type(
                    "Tokens", (), dict(ids=part, labels=part + 1, last=last, conversation=False)
                )
                found += [ids.tolist() for ids, _ in cutter.add(tokens)]
        return found, counts

    def test_every_token_is_kept_or_counted(self):
        for action in ("split", "truncate", "drop"):
            for lengths in ([0, 1, 2, 9, 10, 11, 20, 21, 30, 31, 95], [10], [11]):
                found, counts = self.pieces(lengths, 10, action)
                self.assertEqual(
                    sum(map(len, found)) + counts.cut_tokens, sum(lengths), (action, lengths)
                )
                self.assertEqual(counts.documents, len(lengths))
                self.assertTrue(all(2 <= len(piece) <= 10 for piece in found))
                longer = [count for count in lengths if count > 10]
                if action == "drop":
                    self.assertEqual(
                        counts.dropped, sum(count < 2 for count in lengths) + len(longer)
                    )
                if action == "truncate":
                    self.assertEqual(
                        (counts.truncated, found.count(list(range(10)))),
                        (len(longer), sum(count >= 10 for count in lengths)),
                    )


if __name__ == "__main__":
    unittest.main()
