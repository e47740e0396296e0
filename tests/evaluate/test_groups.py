"""Nights of models whose layers read groups, and of one with members: trained, judged, asked as served, registered."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ratchet.contracts.loading import load
from ratchet.contracts.request import Outcome
from ratchet.contracts.summaries import snapshot
from ratchet.contracts.summaries import trained as trained_model
from ratchet.model import package
from ratchet.model.files import lay_out
from ratchet.model.holdout import read
from ratchet.model.packing import pack
from ratchet.model.process import ModelProcess
from ratchet.model.service import score
from ratchet.store.opening import open_store
from tests.evaluate.nights import FIRST, Nights, judgement, registration, scores
from tests.evaluate.nights import rows as day_rows
from tests.world import PINS

COLUMNS: dict[str, Any] = {
    "query": {"role": "group", "type": "string"},
    "shop": {"role": "categorical", "type": "string"},
    "price": {"role": "numeric", "type": "float64"},
    "weight": {"role": "numeric", "type": "float64"},
    "cheap": {"role": "label", "type": "int64"},
}
OWN = """
import torch
from torch import nn


class Mine(nn.Module):
    def __init__(self, inputs, numeric, categorical):
        super().__init__()
        self.price = [column.name for column in numeric].index("price")
        self.shops = nn.Embedding(categorical[0].vocabulary + 1, 4)
        self.head = nn.Linear(inputs + 5, 1)

    def forward(self, x, numbers, places, groups):
        price = numbers[:, self.price]
        total = torch.zeros_like(price).index_add(0, groups, price)[groups]
        relative = price - total / torch.bincount(groups)[groups]
        return self.head(torch.cat([x, relative[:, None], self.shops(places["shop"])], dim=1))

    def parameter_groups(self):
        return [{"params": [self.shops.weight], "factor": 3.0, "weight_decay": 0.0}]
"""


def ranked(table: pa.Table) -> pa.Table:
    """Queries with the same names on every day; in each, the cheapest of its items is the right one."""
    frame = table.to_pandas()
    draw = np.random.default_rng(len(frame))
    query = np.arange(len(frame)) // 8
    price = frame["price"] + 4 * draw.normal(size=query.max() + 1)[query]
    cheap = price == price.groupby(query).transform("min")
    frame = frame.assign(query=[f"q{number}" for number in query], price=price, cheap=cheap.astype(int))
    return pa.Table.from_pandas(frame[list(COLUMNS)], preserve_index=False)


def night(folder: Path, kind: str, **sections: Any) -> tuple[Nights, dict[Any, Outcome]]:
    nights = Nights(
        folder=folder,
        store=open_store((folder / "store").as_uri()),  # type: ignore[arg-type]  # a folder
        columns=COLUMNS,
        sections={
            "train": {"objective": "ranking", "epochs": 12, "learning_rate": 0.01, "model": {"kind": kind, "hidden": [16], "members": 4}},
            **sections,
        },
        code={"model.py": OWN} if ":" in kind else {},
        name="cheapest",
    )  # fmt: skip
    nights.store.prepare()
    nights.deliver(FIRST, ranked)
    return nights, nights.run()


@pytest.mark.parametrize("kind", ["set", "model.py:Mine"])
def test_a_model_that_reads_groups_is_scored_by_day_asked_by_group_and_registered(tmp_path: Path, kind: str) -> None:
    nights, found = night(tmp_path, kind, evaluate={"holdout_days": 2})
    judged = judgement(found)
    assert (judged.verdict, judged.reason) == ("promote", "first-model")
    assert judged.service is not None
    assert (judged.service.unit, judged.service.rows >= 200) == ("group", True)
    assert registration(found).version == "1"
    trained = found["train"].result
    assert trained is not None
    served = pd.DataFrame(scores(nights, found).to_pandas())
    served = served[served["day"] == served["day"].max()]
    folder = lay_out(nights.store, trained, tmp_path / "trained", tmp_path)
    scoring = package.unpack(package.pack(), tmp_path / "scoring")
    pack(load(tmp_path / "pipeline-1"), folder, scoring, tmp_path / "packed", pins=PINS, tags={"ratchet.model_digest": trained.content})  # fmt: skip
    if kind == "set":
        in_days_all_the_same(nights, found, scoring, folder, tmp_path)
    model = mlflow.pyfunc.load_model(str(tmp_path / "packed"))
    rows = ranked(raw(nights, served["day"].iloc[0])).to_pandas().drop(columns="cheap")
    predicted = model.predict(rows)
    np.testing.assert_allclose(predicted[served["row"]], served["candidate"], rtol=1e-5, atol=1e-6)
    first = rows["query"] == "q0"
    np.testing.assert_allclose(model.predict(rows[first]), predicted[first], rtol=1e-5, atol=1e-6)
    with pytest.raises(mlflow.MlflowException, match=r"missing inputs.*query"):
        model.predict(rows.drop(columns="query"))


def in_days_all_the_same(
    nights: Nights, found: dict[Any, Outcome], scoring: Path, folder: Path, tmp_path: Path
) -> None:
    """A pipeline that knows of no groups scores days by themselves, too: its champion may read some."""
    results = [outcome.result for outcome in (found["ingest"], found["train"]) if outcome.result is not None]
    days = trained_model(results[1]).split.holdout
    held = read(nights.store, load(tmp_path / "pipeline-1"), snapshot(results[0]), days, tmp_path)
    assert len(held.days) == 2
    with ModelProcess(scoring, folder, tmp_path) as process:
        grouped = score(process, held.frame, held)
        ungrouped = replace(held, rows=replace(held.rows, offsets=None))
        np.testing.assert_array_equal(score(process, held.frame, ungrouped), grouped)
        assert not np.allclose(process.score(held.frame), grouped)


def raw(nights: Nights, day: pd.Timestamp) -> pa.Table:
    return day_rows(pd.Timestamp(day).date())


def test_a_model_with_members_is_served_as_it_was_measured(tmp_path: Path) -> None:
    _, found = night(tmp_path, "tabm")
    judged = judgement(found)
    assert judged.service is not None
    assert judged.service.unit == "row"
    assert judged.reason not in {"not-as-served", "candidate-unreadable"}
    assert registration(found).version == ("1" if judged.verdict == "promote" else None)
