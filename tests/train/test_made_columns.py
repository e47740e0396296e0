"""A model of columns that the pipeline file makes: trained on them, it makes them from raw rows by itself."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ratchet.contracts import summaries
from ratchet.metrics.metrics import measure
from ratchet.metrics.rows import Rows
from ratchet.model.scoring import load
from tests.features.encoding import validated
from tests.train.test_stage import DAYS, Trainings
from tests.world import clicks

GROUPS, SIZE = 150, 8
COLUMNS: dict[str, Any] = {
    "query": {"role": "group", "type": "int64"},
    "shown_at": {"role": "time", "type": "timestamp"},
    "price": {"role": "ignore", "type": "float64"},
    "nights": {"role": "ignore", "type": "int64"},
    "country": {"role": "ignore", "type": "string"},
    "cheap": {"role": "numeric", "type": "float64", "make": {"ratio": ["price", "nights"]}},
    "place": {"role": "numeric", "type": "float64", "make": {"in_group": {"of": "price", "statistic": "rank"}}},
    "hour": {"role": "categorical", "type": "int64", "make": {"date_part": {"of": "shown_at", "part": "hour"}}},
    "both": {"role": "categorical", "type": "string", "make": {"cross": ["country", "nights"]}},
    "clicked": {"role": "label", "type": "int64"},
}


def test_a_served_model_makes_the_columns_that_it_was_trained_on(tmp_path: Path) -> None:
    nights = clicks(
        tmp_path,
        source={"window_days": 4},
        columns=COLUMNS,
        train={
            "objective": "ranking",
            "epochs": 4,
            "batch_size": 128,
            "learning_rate": 0.01,
            "model": {"hidden": [16]},
        },
        resources={"train": {"cpus": 1}},
    )
    for day in DAYS:
        draw, count = np.random.default_rng(day.toordinal()), GROUPS * SIZE
        price, stay = draw.lognormal(4, 1, (GROUPS, SIZE)), draw.integers(1, 9, (GROUPS, SIZE))
        best = np.argmin(price / stay, axis=1)  # which only the ratio shows
        noon = datetime(day.year, day.month, day.day, 12)
        rows = {
            "query": np.repeat(np.arange(GROUPS), SIZE),
            "shown_at": [noon + timedelta(minutes=int(minute)) for minute in draw.integers(0, 600, count)],
            "price": price.ravel(),
            "nights": stay.ravel(),
            "country": [("DE", "FR")[place % 2] for place in range(count)],
            "clicked": (np.arange(SIZE) == best[:, None]).astype(np.int64).ravel(),
        }
        nights.put(day, rows)
    ingest = nights.run("ingest")
    validate = validated(nights, ingest)
    features = nights.run("features", inputs={"ingest": ingest, "validate": validate})
    assert set(summaries.features(features.result).numeric) == {"cheap", "place"}
    trainings = Trainings(nights, {"ingest": ingest, "validate": validate, "features": features})
    trained = trainings.train()
    df, scores = trainings.scores(trained, tmp_path / "model")
    rows = Rows(label=df["clicked"].to_numpy(np.float64), offsets=np.arange(0, len(df) + 1, SIZE))
    found = measure("ndcg@10", rows, scores)
    assert found is not None
    assert found.value > 0.85  # 0.51 at random
    model = load(tmp_path / "model")
    assert set(model.columns) == {"price", "nights", "shown_at", "country", "query"}
    evaluated = nights.run("evaluate", inputs={**trainings.inputs, "train": trained})
    judged = summaries.judgement(evaluated.result)
    assert (judged.verdict, judged.service.unit if judged.service else "") == ("promote", "group")
    last = df.iloc[-SIZE:].drop(columns="clicked")
    np.testing.assert_array_equal(model.score(last), scores[-SIZE:])
