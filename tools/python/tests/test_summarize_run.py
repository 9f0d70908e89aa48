"""The summary of a run, from a report and a log in the documented form."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import summarize_run


def log_line(step, loss, trained):
    return {
        "step": step,
        "loss": loss,
        "trained_tokens": trained,
        "tokens": 10,
        "seconds": 2.0,
        "lanes": {
            "compute": {"busy_seconds": 1.5, "bytes": 0},
            "nvme-read": {"busy_seconds": 0.25, "bytes": 8},
        },
        "stall_seconds": {"nvme-read": 0.5, "host-to-device": None},
    }


class SummaryTest(unittest.TestCase):
    def test_memory_losses_and_stalls(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "report.json").write_text(
                json.dumps(
                    {
                        "plan": {"peak_bytes": {"device": 5e8, "host": 0, "nvme": 1.2e9}},
                        "measured": {
                            "peak_bytes": {"device": 5e8, "host": 0, "nvme": 1.2e9},
                            "process_peak_bytes": {"host": 2.1e9},
                        },
                    }
                )
            )
            lines = [log_line(1, 4.0, 1), {"step": 1, "eval_loss": 3.0}, log_line(2, 2.0, 3)]
            (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                self.assertEqual(summarize_run.main([str(folder), str(folder / "log.jsonl")]), 0)
        said = " ".join(printed.getvalue().split())
        self.assertIn(
            "device 500.00 MB 500.00 MB host 0 B 0 B nvme 1.20 GB 1.20 GB process, host - 2.10 GB",
            said,
        )
        self.assertIn("loss 4.000 over the first 1 steps, 2.000 over the last 1, of 2", said)
        self.assertIn("20 tokens in 4.0 s: 5 tokens/s", said)
        self.assertIn("worked: compute 3.0, nvme-read 0.5", said)
        self.assertIn("waited for them: nvme-read 1.0, host-to-device 0.0", said)

    def test_the_mean_loss_weighs_tokens(self):
        self.assertEqual(summarize_run.mean_loss([log_line(1, 4.0, 1), log_line(2, 2.0, 3)]), 2.5)

    def test_a_run_without_a_report_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(summarize_run.main(["/nonexistent", "/nonexistent"]), 2)
        self.assertIn("report.json", said.getvalue())


if __name__ == "__main__":
    unittest.main()
