"""A store that is kept, in use again: unpacked anywhere, read and gone on with by today's `ratchet` and MLflow alone.

Nothing of the library is imported, so what is here outlives any renaming inside it.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_RATCHET = Path(sys.executable).with_name("ratchet")
_PLACES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
"""Where MLflow keeps absolute addresses of artifacts."""
_ONE_ARITHMETIC = {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default"}
"""The same order of additions on every x86-64 processor: by default, MKL adds in another one on Intel's than on AMD's,
and a float32 product of a release of before has other last bits (README.md of ff9b446)."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A folder with `store`, `pipeline` and `data`."""

    root: Path

    @property
    def store(self) -> Path:
        """The store."""
        return self.root / "store"

    def ratchet(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Call `ratchet` on this store, with this data; nothing of the caller's own settings reaches it."""
        ours = ("RATCHET_", "MLFLOW_", "PYTHON")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        ours_now = {"RATCHET_STORE": str(self.store), "RATCHET_DATA": str(self.root / "data")}
        environment = {**inherited, **_ONE_ARITHMETIC, **ours_now}
        command = [str(_RATCHET), *arguments]
        return subprocess.run(command, env=environment, cwd=self.root, capture_output=True, text=True, check=False)

    def run(self, day: str, *more: str) -> subprocess.CompletedProcess[str]:
        """`ratchet run` of a date, stages as processes."""
        return self.ratchet("run", "pipeline", "--runner", "process", "--json", "--date", day, *more)

    def nights(self, pipeline: str) -> list[dict[str, Any]]:
        """What `ratchet nights --json` says."""
        said = self.ratchet("nights", pipeline, "--json")
        assert said.returncode == 0, said.stderr
        found: list[dict[str, Any]] = json.loads(said.stdout)
        return found

    def why(self, target: str) -> list[str]:
        """The lines of `ratchet why`, without their indentation."""
        said = self.ratchet("why", target)
        assert said.returncode == 0, said.stderr
        return [line.strip() for line in said.stdout.splitlines()]

    def summary(self, pipeline: str, run_id: str, stage: str) -> dict[str, Any]:
        """What a stage of a run left on record as its result."""
        outcome = json.loads((self.store / "runs" / pipeline / run_id / f"{stage}.json").read_bytes())
        found: dict[str, Any] = outcome["result"]["summary"]
        return found

    def ledger(self, model: str) -> dict[str, str]:
        """The bytes of each record of a model's ledger, as text, by file name; without the head, which moves."""
        records = sorted((self.store / "ledger" / model).glob("[0-9]*.json"))
        return {path.name: path.read_text(encoding="utf-8") for path in records}

    def score(self, model_uri: str, rows: Sequence[dict[str, Any]]) -> list[float]:
        """The scores of a registered model, by MLflow in a process of its own (see score.py)."""
        empty = self.root / "empty"
        empty.mkdir(exist_ok=True)
        command = [sys.executable, "-I", str(HERE / "score.py"), f"sqlite:///{self.store}/mlflow/mlflow.db", model_uri]
        environment = {**os.environ, **_ONE_ARITHMETIC}
        done = subprocess.run(
            command, cwd=empty, env=environment, input=json.dumps(rows), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        scores: list[float] = json.loads(done.stdout)
        return scores


def unpack(archive: Path, root: Path, *, made_at: str) -> Corpus:
    """Unpack an archive into a folder that is not the one it was made at, and let MLflow's addresses follow."""
    with tarfile.open(archive) as packed:
        packed.extractall(root, filter="data")
    corpus = Corpus(root=root)
    database = sqlite3.connect(corpus.store / "mlflow" / "mlflow.db")
    with database:
        for table, column in _PLACES:
            change = f'UPDATE "{table}" SET "{column}" = replace("{column}", ?, ?)'
            database.execute(change, (f"file://{made_at}/", f"{root.as_uri()}/"))
    database.close()
    return corpus
