"""A service loads versions of different ages into one process. Each scores as it was evaluated; the service stays whole."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import summaries
from ratchet.contracts.result import PublishedResult
from ratchet.model import holdout
from ratchet.model.files import lay_out
from ratchet.model.scoring import load
from ratchet.store.file import FileStore
from ratchet.store.publishing import read_manifest
from ratchet.tracking.mlflow import local_uri
from tests.mlflow_server import prepare
from tests.register.night import evaluate, register
from tests.shop import Shop

ROOT = Path(__file__).resolve().parents[2]
FEATURES = "import mapping\n\ndef derive(df):\n    from helpers import SHIFT\n    return mapping.shifted(df, SHIFT)\n"
FIRST = {
    "mapping.py": "def shifted(df, by):\n    return df.assign(x=df.x.fillna(0.25) + by)\n",
    "helpers.py": "SHIFT = 0.125\n",
}
SECOND = {
    "mapping.py": "def shifted(df, by):\n    return df.assign(x=2 * df.x.fillna(-0.5) - by)\n",
    "helpers.py": "SHIFT = 0.375\n",
}
CHANGED = ("ratchet/model/preprocess.py", "_FAR = 10.0\n", "_FAR = 0.75\n")
OWN = ("tasks", "ratchet", "features", "mapping", "helpers", "model")

SERVICE = """
import json, os, sys, traceback
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
import mlflow, numpy, pandas, torch

given = json.loads(sys.argv[1])
frame = pandas.read_pickle(given["rows"])
expected = numpy.load(given["expected"])
mlflow.set_tracking_uri(given["uri"])


def load(version):
    return mlflow.pyfunc.load_model(f"models:/shop/{version}")


def score(version, model):
    numpy.testing.assert_array_equal(model.predict(frame), expected[version])


def serve(order, imported):
    own = {name: import_module(name) for name in imported}
    path = list(sys.path)
    models = {version: load(version) for version in order}
    for _ in range(2):
        for version in order:
            score(version, models[version])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda version: score(version, models[version]), [*order] * 10))
        again = list(pool.map(lambda version: (version, load(version)), [*order] * 4))
    for version, model in again:
        score(version, model)
    assert sys.path == path, sys.path
    assert set(given["own"]) & set(sys.modules) == set(imported), sorted(set(given["own"]) & set(sys.modules))
    for name in given["own"]:
        module = import_module(name)
        assert module.OWNER == "the service", module
        assert own.get(name, module) is module


for order in (["1", "2"], ["2", "1"]):
    for imported in ([], given["own"]):
        if not (child := os.fork()):
            try:
                serve(order, imported)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"versions {order}, {imported or 'nothing'} imported before")
"""


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Two versions in production one after the other: their trainings and evaluations, and the held-out rows."""

    store: FileStore
    scratch: Path
    trainings: tuple[PublishedResult, PublishedResult]
    evaluated: tuple[PublishedResult, PublishedResult]

    def scores(self, of: int, column: str) -> np.ndarray:
        """Scores as an evaluation published them."""
        path = self.store.local(self.evaluated[of].result.outputs["scores"].key)
        return pq.read_table(path)[column].to_numpy()


def another_checkout(folder: Path) -> Path:
    """Our code with one constant of scoring changed."""
    for name in ("ratchet", "tasks", "docker/stage.txt", "tests/world.py", "tests/shop.py", "tests/register/night.py"):
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    file, before, after = CHANGED
    text = (folder / file).read_text()
    assert before in text
    (folder / file).write_text(text.replace(before, after))
    return folder


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Versions:
    folder = tmp_path_factory.mktemp("versions")
    store = FileStore(folder / "store")
    shop = Shop.make(prepare(store, mlflow_database), folder / "scratch")
    first = shop.train(0.3, 1.0, code=FEATURES, helpers=FIRST)
    judged = evaluate(shop, first)
    assert register(shop, first, judged).promoted
    asked = {"store": str(store.root), "scratch": str(folder / "scratch"), "weights": [1.0, 0.1], "code": FEATURES}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.register.night", json.dumps({**asked, "helpers": SECOND})],
        check=True,
        stdout=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(another_checkout(folder / "another"))},
    )
    answer = json.loads(done.stdout)
    assert answer["version"] == "2"
    second, judged_second = (read_manifest(store, answer[name]) for name in ("training", "evaluated"))
    return Versions(store=store, scratch=folder, trainings=(first, second), evaluated=(judged, judged_second))


def test_a_service_with_modules_of_the_same_names_loads_both_and_each_scores_as_it_was_evaluated(
    versions: Versions, tmp_path: Path
) -> None:
    shop = Shop.make(versions.store, versions.scratch / "rows")
    held = holdout.read(shop.store, shop.spec, summaries.snapshot(shop.ingest.result), (shop.data_date,), tmp_path)
    held.frame.to_pickle(tmp_path / "rows.pkl")
    np.savez(tmp_path / "expected.npz", **{str(of + 1): versions.scores(of, "candidate") for of in (0, 1)})
    service = tmp_path / "service"
    service.mkdir()
    for name in OWN:
        (service / f"{name}.py").write_text("OWNER = 'the service'\n")
    given = {"rows": str(tmp_path / "rows.pkl"), "expected": str(tmp_path / "expected.npz"), "own": OWN}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SERVICE, json.dumps({**given, "uri": local_uri(versions.store)})],
        check=True,
        cwd=service,
        env={**os.environ, "PYTHONPATH": "", "MLFLOW_DISABLE_TELEMETRY": "true"},
    )


def test_evaluate_scores_the_champion_as_it_was_evaluated_itself_by_its_own_code(versions: Versions) -> None:
    np.testing.assert_array_equal(versions.scores(1, "baseline"), versions.scores(0, "candidate"))


def test_the_two_were_made_by_code_that_scores_differently(versions: Versions, tmp_path: Path) -> None:
    second, scoring = versions.trainings[1].result, [one.result.outputs["scoring"].sha256 for one in versions.evaluated]
    assert scoring[0] != scoring[1]
    shop = Shop.make(versions.store, tmp_path / "rows")
    held = holdout.read(shop.store, shop.spec, summaries.snapshot(shop.ingest.result), (shop.data_date,), tmp_path)
    here = load(lay_out(versions.store, second, tmp_path / "second", tmp_path)).score(held.frame)
    assert not np.array_equal(here, versions.scores(1, "candidate"))
