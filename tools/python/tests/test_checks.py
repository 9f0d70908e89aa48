"""The parts of the comparison with transformers that need no PyTorch, and the demo's text."""

import gzip
import json
import math
import pathlib
import tempfile
import unittest

import numpy as np

import check_transformers
import demo_text
import training_rows


class ComparisonTest(unittest.TestCase):
    def test_equal_logits_differ_by_nothing(self):
        logits = np.random.default_rng(0).normal(size=(100, 7)).astype(np.float32)
        found = check_transformers.compare_logits(logits, logits)
        self.assertEqual(
            (found["largest_difference"], found["mean_kl"], found["argmax_equal"]), (0.0, 0.0, 1.0)
        )

    def test_differences_are_what_the_formulas_say(self):
        theirs = np.array([[0.0, math.log(3)], [-8.0, 0.0]], np.float32)
        ours = np.array([[0.0, 0.0], [-8.0, 0.0]], np.float32)
        found = check_transformers.compare_logits(ours, theirs)
        self.assertAlmostEqual(found["relative_difference"], math.log(3) / 8, 6)
        self.assertAlmostEqual(
            found["mean_kl"], (0.25 * math.log(0.5) + 0.75 * math.log(1.5)) / 2, 6
        )
        self.assertEqual(found["argmax_equal"], 0.5)

    def test_a_step_that_the_log_lacks_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log.jsonl"
            log.write_text('{"step": 1, "loss": 2.02, "grad_norm": 5.0}\n')
            steps = [{"step": 1, "loss": 2.0, "grad_norm": 4.0}]
            found = check_transformers.compare_steps(steps, log)
            self.assertAlmostEqual(found["loss"], 0.01)
            self.assertAlmostEqual(found["grad_norm"], 0.25)
            with self.assertRaisesRegex(training_rows.BadRow, r"steps \[2\]"):
                check_transformers.compare_steps(
                    steps + [{"step": 2, "loss": 1.0, "grad_norm": 1.0}], log
                )


class TrainingRowsTest(unittest.TestCase):
    def rows(self, *values):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.jsonl"
            path.write_text("".join(json.dumps(value) + "\n" for value in values))
            return list(training_rows.rows_of(path))

    def test_no_target_crosses_a_document(self):
        (row,) = self.rows({"input_ids": [1, 2, 3, 4, 5], "document_lengths": [2, 3]})
        self.assertEqual(row.targets().tolist(), [2, -100, 4, 5, -100])
        (row,) = self.rows({"input_ids": [1, 2, 3], "labels": [-100, -100, 3]})
        self.assertEqual(row.targets().tolist(), [-100, 3, -100])

    def test_a_row_that_does_not_fit_together_is_named(self):
        for bad in (
            {"labels": [1]},
            {"input_ids": [1, 2], "labels": [1]},
            {"input_ids": [1, 2], "document_lengths": [1]},
        ):
            with self.assertRaisesRegex(training_rows.BadRow, "a.jsonl:2: "):
                self.rows({"input_ids": [1, 2]}, bad)


class DemoTextTest(unittest.TestCase):
    def test_entries_of_the_jargon_file(self):
        text = (
            "Chapter 1\n\n   foo\n\n   :foo: /foo/\n\n   1. interj. Term of disgust,\n   as in {bar}. Long enough to stay.\n\n"
            "   ┌──┐\n   │  │\n   └──┘\n\n   :bar: /bar/ n. The second metasyntactic variable of them all.\n\n"
            "   Part\u00a0III. Appendices\n\n   Contents\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "jargon.txt.gz"
            path.write_bytes(gzip.compress(text.encode()))
            found = [
                [message["content"] for message in entry["messages"]]
                for entry in demo_text.jargon_entries(path)
            ]
        self.assertEqual(
            found,
            [
                [
                    "What does “foo” mean?",
                    "foo: /foo/\n\n1. interj. Term of disgust, as in bar. Long enough to stay.",
                ],
                [
                    "What does “bar” mean?",
                    "bar: /bar/ n. The second metasyntactic variable of them all.",
                ],
            ],
        )

    def test_questions_of_the_perl_faq(self):
        text = (
            '=head1 DESCRIPTION\n\nnone\n\n=head2 Why C<int()>\nis broken?\n\nSee L<perlop/"I<x>">, E<lt>.\n\n'
            "    print  1;\n\n=over 4\n\n=item * one\n\n=back\n\n=head1 Next\n\nno\n\n=head1 AUTHOR\n\n=head2 Me?\n\nno\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "5.36" / "pod").mkdir(parents=True)
            (pathlib.Path(folder) / "5.36" / "pod" / "perlfaq1.pod").write_text(text)
            (pathlib.Path(folder) / "5").symlink_to("5.36")
            found = [
                [message["content"] for message in entry["messages"]]
                for entry in demo_text.perl_questions(pathlib.Path(folder))
            ]
        self.assertEqual(
            found, [["Why int() is broken?", 'See perlop/"x", <.\n\n    print  1;\n\n* one']]
        )

    def test_a_missing_package_is_named(self):
        with self.assertRaisesRegex(demo_text.NotInstalled, "jargon-text"):
            list(demo_text.jargon_entries(pathlib.Path("/nonexistent")))


if __name__ == "__main__":
    unittest.main()
