import contextlib
import io
import pathlib
import tempfile
import unittest

import generate
from tests import small_tokenizer

# Answers each prompt with the prompt itself, and tells how it was called.
ECHO = """#!/usr/bin/env python3
import json, sys
open(sys.argv[0] + ".called", "w").write(json.dumps(sys.argv[1:]))
for line in open(sys.argv[sys.argv.index("--generate") + 1]):
    ids = json.loads(line)["input_ids"]
    print(json.dumps({"input_ids": ids, "output_ids": ids}))
"""
REFUSING = """#!/usr/bin/env python3
import sys
print("error: it does not fit", file=sys.stderr)
sys.exit(2)
"""


class GenerateTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)
        self.model = self.directory / "model"
        self.model.mkdir()

    def program(self, text):
        path = self.directory / "tiertrain"
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def run_main(self, *arguments):
        """(exit code, standard output, standard error)"""
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                code = generate.main([str(self.model), *arguments])
            except SystemExit as exit_:
                code = exit_.code
        return code, out.getvalue(), errors.getvalue()

    def test_prompts_go_through_the_chat_template(self):
        small_tokenizer.write(self.model)
        code, out, _ = self.run_main(
            "--tiertrain", self.program(ECHO), "--system", "be quick", "--prompt", "the fox"
        )
        self.assertEqual(code, 0)
        # Special tokens are not shown.
        self.assertIn("> system\nbe quick\nuser\nthe fox\nassistant", out)

    def test_a_plain_text_is_continued_as_it_stands(self):
        small_tokenizer.write(self.model)
        prompts = self.directory / "prompts.txt"
        prompts.write_text("the lazy dog\n\ntiers hold rows\n")
        code, out, _ = self.run_main(
            "--tiertrain", self.program(ECHO), "--chat", "false", "--prompt_file", str(prompts)
        )
        self.assertEqual(code, 0)
        self.assertEqual(
            out, "the lazy dog\n> the lazy dog\n\ntiers hold rows\n> tiers hold rows\n\n"
        )

    def test_what_stands_behind_two_dashes_goes_to_tiertrain(self):
        small_tokenizer.write(self.model)
        program = self.program(ECHO)
        self.run_main(
            "--tiertrain", program, "--prompt", "x", "--max_new_tokens", "7", "--", "--bf16"
        )
        called = pathlib.Path(program + ".called").read_text()
        self.assertIn('"--max_new_tokens", "7"', called)
        self.assertTrue(called.endswith('"--bf16"]'), called)

    def test_a_refusal_is_passed_on(self):
        small_tokenizer.write(self.model)
        code, _, errors = self.run_main("--tiertrain", self.program(REFUSING), "--prompt", "x")
        self.assertEqual(code, 2)
        self.assertIn("it does not fit", errors)

    def test_a_template_that_is_wanted_and_not_there_is_named(self):
        small_tokenizer.write(self.model, chat_template=None)
        code, _, errors = self.run_main(
            "--tiertrain", self.program(ECHO), "--chat", "true", "--prompt", "x"
        )
        self.assertEqual(code, 2)
        self.assertIn("no chat template", errors)


if __name__ == "__main__":
    unittest.main()
