"""A night of boosted trees through the whole chain: trained, refitted, judged, registered, served."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ratchet.contracts import summaries
from ratchet.contracts.loading import load
from ratchet.contracts.stages import Stage
from ratchet.model.files import lay_out
from ratchet.model.scoring import load as load_model
from ratchet.runs.history import runs_of
from ratchet.runs.outcomes import outcomes
from ratchet.runs.parents import find_parent
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from tests.runs.nights import ratchet

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("boosted")]
DAY = date(2026, 3, 20)
PIPELINE = """
name: boosted
source: {{kind: files, uri: "{data}/date={{date}}/*.parquet", window_days: 5}}
columns:
  x: {{role: numeric, type: float64}}
  kind: {{role: categorical, type: string}}
  bought: {{role: label, type: int64}}
validate: {{volume: null}}
train: {{objective: binary, refit: true, model: {{kind: lightgbm}}}}
resources: {{train: {{cpus: 1}}}}
"""


def day_rows(day: date, count: int = 1500) -> pd.DataFrame:
    """What is bought depends on a number, of which some are missing, and a kind."""
    draw = np.random.default_rng(day.toordinal())
    x, kind = draw.normal(size=count), draw.integers(0, 8, count)
    chance = 1 / (1 + np.exp(-(2 * np.abs(x) - 2 + kind % 4)))
    seen = np.where(draw.random(count) < 0.1, np.nan, x)
    label = (draw.random(count) < chance).astype(np.int64)
    return pd.DataFrame({"x": seen, "kind": [f"k{one}" for one in kind], "bought": label})


class Night:
    """A pipeline, its store, and what its night printed."""

    def __init__(self, folder: Path) -> None:
        for back in range(5):
            day = DAY - timedelta(days=back)
            (folder / "data" / f"date={day}").mkdir(parents=True)
            day_rows(day).to_parquet(folder / "data" / f"date={day}" / "rows.parquet")
        (folder / "boosted").mkdir()
        (folder / "boosted" / "pipeline.yaml").write_text(PIPELINE.format(data=folder / "data"), encoding="utf-8")
        self.folder = folder
        self.store: Store = open_store((folder / "store").as_uri())
        ended = ratchet(
            "run",
            str(folder / "boosted"),
            "--date",
            f"{DAY}",
            "--store",
            self.store.uri,
            "--runner",
            "process",
            "--json",
        )
        assert ended.code == 0, ended.err
        self.verdict = ended.json["verdict"]
        (self.run,) = runs_of(self.store, "boosted", DAY)

    def result(self, stage: Stage) -> Any:
        found = outcomes(self.store, "boosted", self.run)[stage].result
        assert found is not None
        return found


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    return Night(tmp_path_factory.mktemp("boosted"))


def test_it_is_registered_and_its_refit_has_as_many_rounds(night: Night) -> None:
    trained, refit = summaries.trained(night.result("train")), summaries.trained(night.result("refit"))
    assert night.verdict == "promote"
    assert refit.trees == refit.fall == trained.level == trained.trees
    assert refit.refit is not None
    assert refit.refit.refused == ""
    assert summaries.registration(night.result("register")).version == "1"


def test_it_is_served_by_lightgbm_of_the_run(night: Night, tmp_path: Path) -> None:
    out = tmp_path / "model"
    ended = ratchet("model", f"boosted/{night.run}", "--out", str(out), "--store", night.store.uri)
    assert ended.code == 0, ended.err
    needed = (out / "requirements.txt").read_text(encoding="utf-8").split()
    assert [one for one in needed if one.startswith("lightgbm==")]


def test_a_row_scores_the_same_alone_and_with_unknown_values_beside_it(night: Night, tmp_path: Path) -> None:
    laid = lay_out(night.store, night.result("refit"), tmp_path / "model", tmp_path)
    model, rows = load_model(laid), day_rows(DAY).drop(columns="bought")
    odd = pd.DataFrame({"x": [None, 1e40], "kind": [None, "never seen"]}).astype({"x": "float64"})
    scores = model.score(pd.concat([rows, odd], ignore_index=True))
    assert np.array_equal(scores[:20], [model.score(rows.iloc[[row]])[0] for row in range(20)])
    assert scores[-2] == scores[-1], "what is not known is missing"


def test_a_network_that_asks_for_it_as_champion_begins_fresh(night: Night) -> None:
    spec = load(night.folder / "boosted", {"train.model.kind": "mlp", "train.init": "champion"})
    parent, why = find_parent(night.store, spec, DAY + timedelta(days=1), "local")
    assert parent is None
    assert why == "version 1 of boosted is of boosted trees, which have no weights to begin with"
