"""tiertrain on the real SmolLM2, for tests: through tiers that it does not fit in."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Runner:
    def __init__(self, tiertrain, work, rows):
        """Fetches the model into `work` once; rows of 128 tokens are trained in order."""
        self._tiertrain, self.work, self._rows = tiertrain, pathlib.Path(work), rows
        self.work.mkdir(parents=True, exist_ok=True)
        self._model = self.work / "smollm2"
        fetch = ROOT / "tools/python/fetch_demo_model.py"
        subprocess.run([sys.executable, fetch, self._model], check=True)

    def tiertrain(self, *arguments, budgets=("--device_memory", "700MB", "--host_memory", "2GB")):
        """Its standard output; an error if it fails."""
        command = [self._tiertrain, "--model_name_or_path", self._model, "--device", "cpu",
                   "--nvme_path", f"{self.work / 'swap'}:4GB", *budgets, *arguments]
        done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE)
        return done.stdout

    def train(self, name, *arguments, **more):
        """The lines of the log."""
        log = self.work / f"{name}.jsonl"
        self.tiertrain("--train_file", self._rows, "--shuffle=false",
                       "--per_device_train_batch_size=1", "--log_file", log, *arguments, **more)
        return [json.loads(line) for line in log.read_text().splitlines()]
