"""Two runs of one date at once: each stage is built by one of them and reused by the other, and one version is made."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.contracts.stages import REGULAR
from ratchet.store.file import FileStore
from ratchet.store.ledger import records
from ratchet.tracking.mlflow import track
from tests.runs.nights import DAY, ROOT, SMALL, sample

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("runs")]


def test_two_runs_of_the_same_date_at_once_make_one_version(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "s")
    command = [sys.executable, "-W", "ignore", "-m", "ratchet.cli.main", "run", "search-ranking", "--date", DAY.isoformat(),
               "--store", store.uri, "--runner", "process", "--json", *SMALL]  # fmt: skip
    environment = {**os.environ, "RATCHET_DATA": str(sample(tmp_path / "data"))}
    both = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=400) for process in both]
    assert [process.returncode for process in both] == [0, 0], said

    ended = [json.loads(out) for out, _ in said]
    for stage, one, other in zip(REGULAR, *(run["stages"] for run in ended), strict=True):
        assert one["name"] == other["name"] == stage
        assert sorted((one["cached"], other["cached"])) == [False, True], stage
    assert ended[0]["model"] == ended[1]["model"] == {"name": "search-ranking", "version": "1"}
    assert ended[0]["metrics"] == ended[1]["metrics"]

    named = "name = 'search-ranking'"
    assert len(track(store, None, tmp_path, lambda tracker: tracker.client.search_model_versions(named))) == 1
    assert len(records(store, "search-ranking")) == 1
    manifests = [entry.key for entry in store.list("published/search-ranking/train")]
    assert len([key for key in manifests if key.endswith("/manifest.json")]) == 1
