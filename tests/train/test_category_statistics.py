"""Statistics of categories in a training: they tell no row its label, and serving gives the very same numbers."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from safetensors.torch import load as load_tensors

from ratchet.contracts import summaries
from ratchet.contracts.result import PublishedResult
from ratchet.model.description import from_json
from ratchet.model.encoding import category_ids
from ratchet.model.fitted_state import FittedState
from ratchet.model.inputs import Embeddings
from ratchet.model.networks import Network, load_weights
from ratchet.store.artifacts import read_bytes
from tasks.features import category_statistics
from tasks.train import boosted_stage, stage
from tasks.train import days as reading
from tests.features.encoding import validated
from tests.train.test_parent import parent_of, request, train
from tests.train.test_stage import COLUMNS, LABELS, METRIC, ROWS, Trainings, day_rows, weights
from tests.world import LAST, clicks

BOTH = ["count", "target_mean"]
WINDOW = [LAST - timedelta(days=back) for back in range(5, -1, -1)]


def with_statistics(
    folder: Path, objective: str = "binary", item: Callable[[np.random.Generator], Any] | None = None, **train: Any
) -> Trainings:
    """Six days up to features. item: makes the items of a day, which then have nothing to do with the label."""
    nights = clicks(
        folder,
        source={"window_days": len(WINDOW)},
        columns={
            **COLUMNS,
            "item": {**COLUMNS["item"], "statistics": BOTH},
            "clicked": {**COLUMNS["clicked"], **LABELS[objective]},
        },
        train={"objective": objective, "epochs": 4, "batch_size": 256, "learning_rate": 0.01, "steps": 400, **train},
        evaluate={"metric": METRIC[objective]},
        resources={"train": {"cpus": 1}},
    )
    for day in WINDOW:
        draw = np.random.default_rng(day.toordinal())
        made = day_rows(day, objective)
        if item is not None:
            chance = draw.random() * 0.6 + 0.2  # days differ much, so that what tells the day tells much
            made |= {"item": item(draw), "clicked": (draw.random(ROWS) < chance).astype(np.int64)}
        nights.put(day, made)
    ingest = nights.run("ingest")
    validate = validated(nights, ingest)
    features = nights.run("features", inputs={"ingest": ingest, "validate": validate})
    return Trainings(nights, {"ingest": ingest, "validate": validate, "features": features})


def network(trainings: Trainings, published: PublishedResult) -> Network:
    store, outputs = trainings.nights.store, published.result.outputs
    made = Network(from_json(read_bytes(store, outputs["description"])))
    load_weights(made, load_tensors(read_bytes(store, outputs["weights"])))
    return made


NETWORK = {"model": {"kind": "mlp", "masked": 0.0, "dropout": 0.0, "hidden": [32], "min_count": 1}}


@pytest.mark.parametrize(
    "items",
    [
        pytest.param(lambda draw: [f"u{one}" for one in draw.integers(0, 2**62, ROWS)], id="one for each row"),
        pytest.param(lambda draw: [f"i{one}" for one in draw.integers(0, 2000, ROWS)], id="a row or two a day"),
    ],
)
def test_items_without_meaning_stay_without_meaning(
    tmp_path: Path, items: Callable[[np.random.Generator], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not because so little is believed of them: here a mean is believed after one row. All items have one vector."""
    monkeypatch.setattr(category_statistics, "_credibility", lambda *_: 1.0)
    vectors = Embeddings.forward
    monkeypatch.setattr(Embeddings, "forward", lambda self, places: vectors(self, self.first.expand_as(places)))
    trainings = with_statistics(tmp_path, item=items, **NETWORK)
    honest = trainings.train()
    rows, scores = trainings.scores(honest, tmp_path / "honest")
    first, *_, last = summaries.trained(honest.result).evaluations
    assert last.loss > 0.97 * first.loss
    ranks = pd.Series(scores).rank()
    positive = rows["clicked"].to_numpy() == 1
    auc = (ranks[positive].mean() - (positive.sum() + 1) / 2) / (~positive).sum()
    assert auc == pytest.approx(0.5, abs=0.06)

    def with_own_labels(*given: Any, of_days: Any, **others: Any) -> Any:
        assert of_days
        return reading.read(*given, **others)

    monkeypatch.setattr(stage, "read", with_own_labels)
    leaking = summaries.trained(trainings.train(run="leaking").result).evaluations
    assert leaking[-1].loss < 0.97 * first.loss


@pytest.mark.parametrize("objective", ["binary", "ranking", "regression"])
def test_training_validation_and_serving_have_the_statistics_of_their_days(tmp_path: Path, objective: str) -> None:
    trainings = with_statistics(tmp_path, objective, epochs=1)
    published = trainings.train()
    made = network(trainings, published)
    features = summaries.features(trainings.inputs["features"].result)
    state = FittedState.from_bytes(
        read_bytes(trainings.nights.store, trainings.inputs["features"].result.outputs["fitted"])
    )
    assert sorted(state.of_days) == [*features.split.train, *features.split.valid]
    assert [one.name for one in from_json(read_bytes(trainings.nights.store, published.result.outputs["description"])).numeric] == [
        "price", "count of item", "target_mean of item",
    ]  # fmt: skip
    frames = {day: pd.DataFrame(day_rows(day, objective)) for day in WINDOW}
    known = frames[WINDOW[0]]["item"].unique()
    places = made.preprocess.places(torch.from_numpy(category_ids(pd.Series([*known, "new", None]), "string")[:, None]))
    served = made.preprocess.with_statistics(torch.zeros(len(places), 1), places)
    fitted = pd.concat([frames[day] for day in WINDOW[:-1]])
    mean = pd.concat([frames[day] for day in features.split.train])["clicked"].mean()
    counts = fitted.groupby("item")["clicked"].count()[known].to_numpy()
    np.testing.assert_allclose(torch.expm1(served[:-2, 1]).numpy(), counts)
    np.testing.assert_allclose(served[-2:, 1:].numpy(), [[0, mean]] * 2)
    labels = fitted.groupby("item")["clicked"].mean()[known].to_numpy()
    assert np.corrcoef(served[:-2, 2].numpy(), labels)[0, 1] > 0.99
    assert (np.abs(served[:-2, 2].numpy() - mean) <= np.abs(labels - fitted["clicked"].mean()) + 1e-9).all()


def test_a_row_scores_alike_alone_in_another_order_and_with_others(tmp_path: Path) -> None:
    trainings = with_statistics(tmp_path, epochs=1)
    published = trainings.train()
    rows, scores = trainings.scores(published, tmp_path / "model")
    again = trainings.scores(published, tmp_path / "again")[1]
    assert_array_equal(again, scores)
    made = network(trainings, published)
    ids = torch.from_numpy(category_ids(rows["item"], "string")[:, None])
    numbers = torch.tensor(rows[["price"]].to_numpy())
    with torch.inference_mode():
        raw = torch.sigmoid(made.eval()(numbers, ids)).numpy()
    np.testing.assert_allclose(scores, raw, atol=1e-4)


def test_where_the_table_is_changes_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = with_statistics(tmp_path, epochs=1)
    memory = trainings.train(run="memory")
    monkeypatch.setattr(reading, "_is_memory", lambda _: False)
    monkeypatch.setattr(reading, "IN_MEMORY", 1e-6)
    monkeypatch.setattr(reading, "_BLOCK_ROWS", 500)
    assert weights(trainings, trainings.train(run="disk")) == weights(trainings, memory)


def test_a_warm_start_takes_over_what_reads_statistics_and_not_the_statistics(tmp_path: Path) -> None:
    trainings = with_statistics(tmp_path, epochs=1)
    fresh = trainings.train()
    parent = parent_of(fresh).model_copy(update={"since": WINDOW[0], "until": WINDOW[-2], "epochs": 1.0})
    made = train(trainings, request(trainings, parent, run="1"))
    begun = summaries.trained(made.result).warm_start
    assert begun is not None
    assert (begun.parameters, begun.rows) == (begun.of_parameters, begun.of_rows)
    mine, theirs = network(trainings, made).preprocess, network(trainings, fresh).preprocess
    assert_array_equal(mine.statistics, theirs.statistics)


@pytest.mark.parametrize(
    ("kind", "module", "engine"),
    [("mlp", stage, "Loop"), ("lightgbm", boosted_stage, "Boosting")],
)
def test_the_statistics_of_days_are_freed_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, module: Any, engine: str
) -> None:
    trainings = with_statistics(tmp_path, epochs=1, model={"kind": kind})
    held, alive, read, made = list[Any](), list[bool](), module.read, getattr(module, engine)

    def reads(*given: Any, of_days: Any, **others: Any) -> Any:
        held.extend(ref(one.values) for one in of_days.values())
        return read(*given, of_days=of_days, **others)

    def makes(*given: Any, **others: Any) -> Any:
        alive.extend(one() is not None for one in held)
        return made(*given, **others)

    monkeypatch.setattr(module, "read", reads)
    monkeypatch.setattr(module, engine, makes)
    trainings.train()
    assert alive
    assert not any(alive)


def test_a_day_is_encoded_once_whichever_statistics_are_declared(tmp_path: Path) -> None:
    nights = with_statistics(tmp_path).nights
    ingest = nights.run("ingest")
    inputs = {"ingest": ingest, "validate": validated(nights, ingest)}
    counts = []
    for statistics in (["count"], []):
        nights.document["columns"]["item"]["statistics"] = statistics
        nights.log.truncate(0)
        nights.run("features", inputs=inputs, parts={"of": str(statistics)})
        counts.append(nights.log.getvalue().count("encoded"))
    assert counts == [0, len(WINDOW)]
