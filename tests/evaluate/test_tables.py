from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts.fingerprint import digest
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.result import Artifact
from ratchet.contracts.snapshot import Snapshot, SnapshotDay
from ratchet.metrics.metrics import Rows
from ratchet.model.holdout import Holdout
from ratchet.store.base import Store
from ratchet.store.memory import MemoryStore
from tasks.evaluate.tables import tables
from tests.shop import SPEC
from tests.world import LAST

BEFORE = LAST - timedelta(days=1)


def snapshot(store: Store, **columns: Any) -> Snapshot:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    data = sink.getvalue().to_pybytes()
    store.create("day.parquet", data)
    file = Artifact(key="day.parquet", sha256=digest(data), bytes=len(data), rows=4)
    return Snapshot(table="t", version=0, days=(SnapshotDay(day=BEFORE, file=file, source=digest(b"")),))


def spec(**changes: Any) -> PipelineSpec:
    columns = {
        "country": {"role": "categorical", "type": "string"},
        "item": {"role": "id", "type": "int64"},
        "x": {"role": "numeric", "type": "float64"},
        "y": {"role": "label", "type": "float64"},
    }
    document: dict[str, Any] = {**SPEC, "evaluate": {}, "columns": {**columns, **changes.pop("columns", {})}, **changes}
    return PipelineSpec.model_validate(document)


HELD = Holdout(
    frame=pd.DataFrame({"country": ["DE", "XX", None], "item": pd.array([1, 2, 3], dtype="Int64")}),
    rows=Rows(label=np.zeros(3), offsets=None),
    days=(LAST,),
)


def means(made: PipelineSpec, folder: Path, **columns: Any) -> dict[str, Any]:
    store = MemoryStore(uuid4().hex)
    found = tables(store, made, snapshot(store, **columns), [BEFORE], HELD, folder)
    return {one.column: one.scores.tolist() for one in found}


def test_a_value_has_its_mean_label_drawn_to_the_common_mean(tmp_path: Path) -> None:
    made = spec(train={"objective": "regression"})
    columns = {"country": ["DE"] * 30 + [None] * 10, "item": [1] * 20 + [9] * 20, "y": [1.0] * 30 + [3.0] * 10}
    found = means(made, tmp_path, **columns)
    common = 1.5
    assert found["country"] == pytest.approx([(30 + 10 * common) / 40, common, (30 + 10 * common) / 20])
    assert found["item"] == pytest.approx([(20 + 10 * common) / 30, common, common])


def test_classes_have_a_share_each(tmp_path: Path) -> None:
    made = spec(train={"objective": "multiclass"}, columns={"y": {"role": "label", "type": "int64", "in": [0, 1, 2]}})
    found = means(made, tmp_path, country=["DE"] * 4, item=[1] * 4, y=[0, 0, 1, 1])
    assert found["country"][0] == pytest.approx([0.5, 0.5, 0.0])


def test_rows_count_by_their_weight_and_only_with_a_label(tmp_path: Path) -> None:
    made = spec(train={"objective": "regression"}, columns={"w": {"role": "weight", "type": "float64"}})
    found = means(made, tmp_path, country=["DE", "DE", "XX"], item=[1, 1, 1], y=[0.0, 4.0, None], w=[3.0, 1.0, 9.0])
    assert found["country"][1] == pytest.approx(1.0)
    assert means(made, tmp_path, country=["DE"], item=[1], y=[1.0], w=[0.0]) == {}


@pytest.mark.parametrize(("metric", "share"), [("mae", 0.5), ("pinball@0.9", 0.9)])
@pytest.mark.parametrize("weighted", [False, True])
def test_for_an_absolute_error_a_value_has_its_quantile(
    metric: str, share: float, weighted: bool, tmp_path: Path
) -> None:
    draw = np.random.default_rng(0)
    y = np.exp(draw.normal(size=600))
    country = np.where(np.arange(600) < 400, "DE", "FR")
    weight = draw.integers(0, 4, 600).astype(float) if weighted else np.ones(600)
    columns = {"w": {"role": "weight", "type": "float64"}} if weighted else {}
    made = spec(train={"objective": "regression"}, columns=columns, evaluate={"metric": metric})
    given = {"country": country, "item": np.arange(600), "y": y, **({"w": weight} if weighted else {})}
    german = np.quantile(np.repeat(y[:400], weight[:400].astype(int)), share, method="averaged_inverted_cdf")
    common = np.quantile(np.repeat(y, weight.astype(int)), share, method="averaged_inverted_cdf")
    count = weight[:400].sum()
    found = means(made, tmp_path, **given)["country"]
    assert found == pytest.approx([(count * german + 10 * common) / (count + 10), common, common])


def test_the_table_of_the_median_has_less_absolute_error_than_the_means(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    y = np.exp(2 * draw.normal(size=1000))
    given = {"country": ["DE"] * 1000, "item": [1] * 1000, "y": y}
    error = {
        metric: np.abs(y - means(made, tmp_path, **given)["country"][0]).mean()
        for metric in ("mae", "rmse")
        if (made := spec(train={"objective": "regression"}, evaluate={"metric": metric}))
    }
    assert error["mae"] < error["rmse"]


def test_without_a_column_or_a_day_there_is_no_table(tmp_path: Path) -> None:
    store = MemoryStore(uuid4().hex)
    found = snapshot(store, country=["DE"], item=[1], y=[1.0])
    made = spec(train={"objective": "regression"})
    assert list(tables(store, made, found, [LAST], HELD, tmp_path)) == []
    assert list(tables(store, made, replace_days(found), [BEFORE], HELD, tmp_path)) == []


def replace_days(found: Snapshot) -> Snapshot:
    return found.model_copy(update={"days": ()})


def test_the_hold_out_is_left_as_it_is(tmp_path: Path) -> None:
    before = replace(HELD).frame.copy()
    means(spec(train={"objective": "regression"}), tmp_path, country=["DE"], item=[1], y=[1.0])
    pd.testing.assert_frame_equal(HELD.frame, before)
