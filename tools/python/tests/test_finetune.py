import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import finetune
from tests import small_tokenizer

TELLS = """#!/usr/bin/env python3
import json, sys
open(sys.argv[0] + ".called", "w").write(json.dumps(sys.argv[1:]))
"""
ALPACA = [
    {"instruction": "name an animal", "input": "", "output": "the quick brown fox"},
    {"instruction": "continue", "input": "the lazy", "output": "dog"},
] * 20


class FinetuneTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)
        self.model = self.directory / "model"
        self.model.mkdir()
        small_tokenizer.write(self.model)
        self.data = self.directory / "alpaca.json"
        self.data.write_text(json.dumps(ALPACA))
        self.program = self.directory / "tiertrain"
        self.program.write_text(TELLS)
        self.program.chmod(0o755)
        self.output = self.directory / "output"

    def run_main(self, *arguments):
        """(exit code, standard error)"""
        out, errors = io.StringIO(), io.StringIO()
        given = ["--model_name_or_path", str(self.model), "--output_dir", str(self.output)]
        given += ["--tiertrain", str(self.program), *arguments]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                code = finetune.main(given)
            except SystemExit as exit_:
                code = exit_.code
        return code, errors.getvalue()

    def called(self):
        return json.loads(pathlib.Path(str(self.program) + ".called").read_text())

    def test_the_command_that_people_know_trains_on_prepared_data(self):
        code, errors = self.run_main(
            *("--data_path", str(self.data), "--per_device_train_batch_size", "8"),
            *("--learning_rate", "2e-5", "--bf16", "True", "--tf32", "True"),
            *("--evaluation_strategy", "no", "--model_max_length", "64"),
        )
        self.assertEqual(code, 0, errors)
        called = self.called()
        train = pathlib.Path(called[called.index("--train_file") + 1])
        self.assertTrue(train.is_file())
        for flag in ("--learning_rate", "--bf16", "--per_device_train_batch_size"):
            self.assertIn(flag, called)
        self.assertEqual(called[called.index("--max_seq_length") + 1], "64")
        self.assertNotIn("--tf32", called)
        self.assertIn("--tf32 True: passed over", errors)
        # Nothing of ours makes the output directory before tiertrain has taken the run on.
        self.assertFalse(self.output.exists())

    def test_the_same_data_are_prepared_once(self):
        arguments = ("--data_path", str(self.data), "--max_seq_length", "64")
        self.assertEqual(self.run_main(*arguments)[0], 0)
        _, errors = self.run_main(*arguments)
        self.assertIn("used again", errors)
        _, errors = self.run_main("--data_path", str(self.data), "--max_seq_length", "32")
        self.assertNotIn("used again", errors)

    def test_held_out_documents_are_evaluated(self):
        code, errors = self.run_main("--data_path", str(self.data), "--eval_fraction", "0.3")
        self.assertEqual(code, 0, errors)
        called = self.called()
        self.assertTrue(pathlib.Path(called[called.index("--eval_file") + 1]).is_file())

    def test_what_cannot_be_done_is_refused_by_name(self):
        for arguments, names in (
            (("--data_path", "absent.json"), "absent.json"),
            (("--data_path", str(self.data), "--optim", "adafactor"), "--optim adafactor"),
            (("--data_path", str(self.data), "--report_to", "wandb"), "--report_to wandb"),
            ((), "--data_path"),
            (("--data_path", str(self.data), "--train_file", "a.safetensors"), "a.safetensors"),
        ):
            code, errors = self.run_main(*arguments)
            self.assertIn(names, errors)
            self.assertEqual(code, 2)
            self.assertFalse(pathlib.Path(str(self.program) + ".called").exists())


if __name__ == "__main__":
    unittest.main()
