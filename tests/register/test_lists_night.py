"""A night on rows whose lists and vectors carry the label, from its source to a registered model that is served."""

import json
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import DataRejected
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import Stage
from ratchet.metrics.metrics import Rows, measure
from ratchet.model.files import lay_out
from ratchet.model.scored_rows import write_scored_rows
from ratchet.model.scoring import ScoringModel, load
from ratchet.store.file import FileStore
from ratchet.tracking.mlflow import local_uri
from tasks.ingest.reading import read
from tasks.ingest.schema import arrow_schema
from tasks.ingest.traits import SourceTraits
from tests.mlflow_server import prepare
from tests.world import LAST, World, clicks

COLUMNS: dict[str, dict[str, Any]] = {
    "item": {"role": "categorical", "type": "int64"},
    "history": {"role": "categorical", "type": "list<int64>", "max_length": 4, "share": "item"},
    "tags": {"role": "categorical", "type": "list<string>", "max_length": 3, "keep": "first", "weights": "shares"},
    "shares": {"role": "list_weight", "type": "list<float64>"},
    "text": {"role": "numeric", "type": "list<float64>", "dimension": 4},
    "clicked": {"role": "label", "type": "int64"},
}
PLAIN = {name: COLUMNS[name] for name in ("item", "clicked")}
DAYS = [LAST - timedelta(days=back) for back in range(3)]
ROWS = 700


def rows(day: date) -> dict[str, list[Any]]:
    """The label follows the last items of a history, the first tags by their shares, and two numbers of a vector."""
    draw = np.random.default_rng(day.toordinal())
    history = [draw.integers(0, 10, draw.integers(0, 7)).tolist() if draw.random() > 0.1 else None for _ in range(ROWS)]
    tags = [[f"t{tag}" for tag in draw.permutation(8)[: draw.integers(0, 5)]] for _ in range(ROWS)]
    shares = [(draw.random(len(one)) + 0.01).round(3).tolist() for one in tags]
    text: list[Any] = draw.normal(size=(ROWS, 4)).round(3).tolist()
    text[::50] = [None] * len(text[::50])
    pull = [2.0 * one[0] - 1.5 * one[2] if one else 0.0 for one in text]
    for row, (items, names, weights) in enumerate(zip(history, tags, shares, strict=True)):
        pull[row] += 3.0 * float(np.mean([1 if one % 2 else -1 for one in items[-4:]])) if items else 0.0
        signs = [1 if name < "t4" else -1 for name in names[:3]]
        pull[row] += 3.0 * float(np.average(signs, weights=weights[:3])) if signs else 0.0
    clicked = (draw.random(ROWS) < 1 / (1 + np.exp(-np.array(pull)))).astype(int).tolist()
    item = draw.integers(0, 10, ROWS).tolist()
    return {"item": item, "history": history, "tags": tags, "shares": shares, "text": text, "clicked": clicked}


def as_parquet(world: World) -> World:
    for day in DAYS:
        world.put(day, rows(day))
    return world


def as_lines(world: World) -> World:
    for day in DAYS:
        found = rows(day)
        lines = [json.dumps(dict(zip(found, row, strict=True))) for row in zip(*found.values(), strict=True)]
        path = world.source / f"date={day}" / "part.jsonl"
        path.parent.mkdir()
        path.write_text("\n".join(lines), encoding="utf-8")
    return world


def made(folder: Path, columns: dict[str, dict[str, Any]], store: FileStore | None = None) -> World:
    drift = {"volume": None, "drift": {"psi": 0.25}}
    train = {"objective": "binary", "epochs": 4}
    return clicks(folder, store.uri if store else None, columns=columns, validate=drift, train=train)


def run(world: World, *stages: Stage) -> dict[Stage, PublishedResult]:
    done: dict[Stage, PublishedResult] = {}
    needed: dict[Stage, tuple[Stage, ...]] = {
        "evaluate": ("ingest", "train"),
        "register": ("ingest", "train", "evaluate"),
    }
    for stage in stages:
        given = {name: done[name] for name in needed.get(stage, tuple(done))}
        done[stage] = world.run(stage, inputs=given) if done else world.run(stage)
    return done


def auc(world: World, done: dict[Stage, PublishedResult], folder: Path) -> tuple[float, ScoringModel]:
    """Of the held-out day."""
    folder.mkdir()
    model = load(lay_out(world.store, done["train"].result, folder / "model", folder))
    frame = pd.DataFrame(rows(LAST))
    scores = model.score(frame.drop(columns="clicked"))
    found = measure("auc", Rows(label=frame["clicked"].to_numpy(np.float64), offsets=None), scores)
    assert found is not None
    return found.value, model


def test_lists_and_vectors_are_learnt_and_served_to_the_bit(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path / "store")
    world = as_parquet(made(tmp_path / "a", COLUMNS, store))
    prepare(world.store, mlflow_database)
    done = run(world, "ingest", "validate", "features", "train", "evaluate", "register")
    lines = as_lines(made(tmp_path / "b", COLUMNS))
    assert run(lines, "ingest")["ingest"].result.content == done["ingest"].result.content

    with_lists, model = auc(world, done, tmp_path / "model")
    plain = as_parquet(made(tmp_path / "c", PLAIN))
    without, _ = auc(plain, run(plain, "ingest", "validate", "features", "train"), tmp_path / "plain")
    assert without < 0.6  # the item of a row tells nothing
    assert with_lists > without + 0.2

    frame = pd.DataFrame(rows(LAST)).drop(columns="clicked")
    scores = model.score(frame)
    kept = pq.read_table(store.local(done["evaluate"].result.outputs["scores"].key))
    np.testing.assert_array_equal(kept["candidate"].to_numpy(), scores)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", local_uri(store))  # of this test alone
    served = mlflow.pyfunc.load_model(f"models:/{world.spec.model_name}/1")
    np.testing.assert_array_equal(served.predict(frame), scores)
    sent = json.loads(json.dumps({"dataframe_records": pa.Table.from_pandas(frame).slice(0, 90).to_pylist()}))
    received = import_module("mlflow.pyfunc.scoring_server").infer_and_parse_data(
        sent, served.metadata.get_input_schema()
    )
    np.testing.assert_array_equal(served.predict(received), scores[:90])
    alone = [served.predict(frame.iloc[row : row + 1])[0] for row in range(0, ROWS, 60)]
    assert alone == scores[::60].tolist()
    for column, value in (("tags", ["t1", None]), ("tags", [1, 2]), ("history", ["1"]), ("shares", None)):
        with pytest.raises(Exception, match=f"column (shares|{column})"):
            served.predict(frame[1:3].assign(**{column: [value, value]}))

    checks = summaries.validation(done["validate"].result)
    assert {"history", "history[]", "tags", "tags[]", "text"} <= set(checks.psi)
    out = tmp_path / "scored.csv"
    assert write_scored_rows(store, done["ingest"].result, done["evaluate"].result, out, tmp_path) == ROWS
    columns = {name: column.type for name, column in world.spec.columns.items()}
    read_back = read(out, day=LAST, name=out.name, columns=columns, traits=SourceTraits())
    assert pa.Table.from_batches(read_back, arrow_schema(columns)).to_pydict() == rows(LAST)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("text", [1.0], "1 row of another length"),
        ("text", [1.0, float("nan"), 0.0, 0.0], "1 row infinite"),
        ("shares", [0.5] * 9, "1 row with another number"),
        ("shares", None, "1 row with another number"),
        ("shares", [-0.5], "least -0.5"),
    ],
)
def test_validate_refuses_a_day_with_a_list_of_another_shape(
    tmp_path: Path, column: str, value: object, said: str
) -> None:
    world = as_parquet(made(tmp_path, COLUMNS))
    found = rows(LAST)
    row = next(row for row, tags in enumerate(found["tags"]) if len(tags) == 1)
    found[column][row] = value
    pq.write_table(pa.table(found), world.source / f"date={LAST}" / "part-0.parquet")
    with pytest.raises(DataRejected, match=said):
        run(world, "ingest", "validate")
