"""`ratchet scores` and `ratchet model`: what a run judged, taken out of the store, also after the store has moved."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ratchet.cli.main import main
from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.runs.judged_scores import newest_judged
from ratchet.store.file import FileStore
from ratchet.store.ledger import champion
from ratchet.tracking.mlflow import local_uri, track
from tasks.keeping.purge import purge
from tests.evaluate.nights import COLUMNS, FIRST, Nights, judgement, registration, scores
from tests.mlflow_server import prepare

NEXT = FIRST + timedelta(days=1)
LOADED = """
import json, sys
import mlflow, numpy, pandas
uri, model, rows = json.loads(sys.argv[1])
mlflow.set_tracking_uri(uri)
print(json.dumps(mlflow.pyfunc.load_model(model).predict(pandas.read_parquet(rows)).tolist()))
"""


@dataclass(frozen=True)
class Two:
    """A champion, and a candidate of the next night that was rejected; then the store's folder was renamed."""

    nights: Nights
    expected: dict[str, np.ndarray]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Two:
    folder = tmp_path_factory.mktemp("two")
    nights = Nights(
        folder=folder,
        store=prepare(FileStore(folder / "store"), mlflow_database),  # type: ignore[arg-type] # it is this store
    )
    nights.deliver(FIRST)
    assert registration(nights.run()).promoted
    nights.deliver(NEXT)
    nights.columns = {
        name: {**column, "role": "ignore"} if name == "price" else column for name, column in COLUMNS.items()
    }
    rejected = nights.run(NEXT)
    assert judgement(rejected).verdict == "reject"
    table = scores(nights, rejected)
    expected = {
        who: np.column_stack([table[f"{who}_{place}"].to_numpy() for place in range(3)])
        for who in ("candidate", "baseline")
    }
    (folder / "store").rename(folder / "moved")
    return Two(replace(nights, store=FileStore(folder / "moved")), expected)


def exported(two: Two, out: Path) -> Path:
    assert main(["scores", "grades/run-2", "--store", str(two.nights.store.root), "--out", str(out)]) == 0
    return out


def predicted(uri: str, model: str, rows: Path, folder: Path) -> np.ndarray:
    """In a process that knows nothing of ours."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOADED, json.dumps([uri, model, str(rows)])],
        check=True, stdout=subprocess.PIPE, cwd=folder, env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"},
    )  # fmt: skip
    return np.array(json.loads(done.stdout.splitlines()[-1]))


def test_scores_are_the_raw_held_out_rows_with_the_scores_of_both_models(two: Two, tmp_path: Path) -> None:
    table = pq.read_table(exported(two, tmp_path / "new" / "rows.parquet"))
    raw = pq.read_table(two.nights.folder / "source" / f"{NEXT}.parquet")
    assert table.select(list(COLUMNS)).equals(raw.take(table["row"]))
    assert set(table["day"].to_pylist()) == {NEXT}
    assert sorted(table["row"].to_pylist()) == list(range(raw.num_rows))
    for who, expected in two.expected.items():
        for place in range(3):
            np.testing.assert_array_equal(table[f"{who}_{place}"].to_numpy(), expected[:, place])


def test_scores_as_csv_are_the_same_rows(two: Two, tmp_path: Path) -> None:
    table = pyarrow.csv.read_csv(exported(two, tmp_path / "rows.csv"))
    assert table.column_names == pq.read_table(exported(two, tmp_path / "rows.parquet")).column_names
    np.testing.assert_allclose(table["candidate_1"].to_numpy(), two.expected["candidate"][:, 1])


def test_a_rejected_candidate_is_loaded_as_a_registered_model_is_and_scores_as_it_was_measured(
    two: Two, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    assert main(["model", "grades/run-2", "--store", str(two.nights.store.root), "--out", str(out)]) == 0
    rows = exported(two, tmp_path / "rows.parquet")
    found = predicted("sqlite://", str(out), rows, tmp_path)
    np.testing.assert_array_equal(found, two.expected["candidate"])
    assert "ratchet.verdict: reject" in (out / "MLmodel").read_text()


def test_the_champion_of_a_store_that_has_moved_is_loaded_by_its_alias_and_scores_as_it_was_measured(
    two: Two, tmp_path: Path
) -> None:
    """Any work with MLflow writes the new addresses; without it MLflow looks in the folder that is gone."""
    store = two.nights.store
    live = champion(store, "grades")
    assert live is not None
    track(store, None, tmp_path, lambda tracker: None)
    rows = exported(two, tmp_path / "rows.parquet")
    found = predicted(local_uri(store), "models:/grades@champion", rows, tmp_path)
    np.testing.assert_array_equal(found, two.expected["baseline"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scores", "grades/run-2", "--out", "rows.xlsx"], "allowed: .parquet, .csv"),
        (["scores", "grades/none", "--out", "rows.csv"], "newest: grades/run-1, grades/run-2"),
        (["scores", "nothing/run-1", "--out", "rows.csv"], "none of this pipeline"),
        (["model", "grades", "--out", "m"], "no run 'grades'"),
        (["model", "grades/run-1", "--out", "."], "exists"),
    ],
)
def test_what_cannot_be_written_is_named(
    two: Two, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main([*arguments, "--store", str(two.nights.store.root)]) == 64
    assert said in capsys.readouterr().err


def test_a_run_without_a_verdict_is_named(two: Two, capsys: pytest.CaptureFixture[str]) -> None:
    store = two.nights.store
    store.create(paths.plan("grades", "run-3"), store.read(paths.plan("grades", "run-1")).replace(b"run-1", b"run-3"))
    assert main(["scores", "grades/run-3", "--store", str(store.root), "--out", "rows.csv"]) == 64
    assert "the run grades/run-3 has no verdict" in capsys.readouterr().err


def test_a_run_whose_rows_were_purged_is_said_to_be_so(
    two: Two, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(two.nights.store.root, tmp_path / "store")
    store = FileStore(tmp_path / "store")
    purge(store, "grades", "shop", ["north"], by="Ada", because="a request", do=True)
    assert main(["scores", "grades/run-1", "--store", str(store.root), "--out", str(tmp_path / "rows.csv")]) == 64
    said = r"rows of 20\d\d-\d\d-\d\d and \d+ more days were purged on 20\d\d-\d\d-\d\d by Ada because a request"
    assert re.search(rf"grades/run-1: {said}; to do: name a run", capsys.readouterr().err)
    with pytest.raises(ConfigurationError, match=rf"run run-2 of grades has no scored rows any more: {said}"):
        newest_judged(store, "grades", run_id=None, day=None)
