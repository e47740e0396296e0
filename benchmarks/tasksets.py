"""The sets of rows that `quality` compares models on: real days, our samples, and functions whose truth is known.

Each is split by day. The days before the last ones are for training, its newest for early stopping.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.metrics.metrics import Rows, measure
from ratchet.samples.clicks import day_clicks
from ratchet.samples.payments import day_payments

SHARED = Path(__file__).parents[2] / "shared" / "data"
"""The folder with flights/ and obd/, beside the checkout; their sets are left out where it is absent."""
_MEDIAN_OF_CHI_SQUARE = 9.34  # with 10 degrees of freedom
_LAST = 6
"""The last day, from 0, of a made-up set that is not tested."""
_FIRST = date(2026, 3, 1)
_normal = np.vectorize(NormalDist().inv_cdf)
Columns = dict[str, dict[str, object]]


@dataclass(frozen=True, kw_only=True)
class TaskSet:
    """Days of rows and what to predict. tested: how many of the last days are for testing."""

    name: str
    objective: str
    metric: str
    columns: Columns
    days: tuple[pd.DataFrame, ...] = field(repr=False)
    tested: int = 1

    @property
    def label(self) -> str:
        """The column to predict."""
        return next(name for name, column in self.columns.items() if column["role"] == "label")

    @property
    def group(self) -> str | None:
        """The column of the group, of a ranking."""
        return next((name for name, column in self.columns.items() if column["role"] == "group"), None)

    def measure(
        self, label: NDArray[np.float64], offsets: NDArray[np.int64] | None, scores: NDArray[np.float64]
    ) -> float | None:
        """The metric of scores; None where it has no value."""
        found = measure(self.metric, Rows(label=label, offsets=offsets), scores)
        return None if found is None else float(found.value)

    def features(self, role: str) -> list[str]:
        """The columns that a model reads, numeric or categorical."""
        return [name for name, column in self.columns.items() if column["role"] == role]


def _numbers(count: int) -> Columns:
    return {f"x{place}": {"role": "numeric", "type": "float64"} for place in range(count)}


_OF_NUMBERS: Columns = {"y": {"role": "label", "type": "float64"}}
_OF_CLASSES: Columns = {"y": {"role": "label", "type": "int64"}}


def _made_up(
    make: Callable[[np.random.Generator, int], tuple[NDArray[np.float64], NDArray[np.float64]]],
    *,
    days: int = 9,
    rows: int = 2000,
    tested: int = 2,
) -> tuple[pd.DataFrame, ...]:
    """`days` days of rows from one function; the rows of the tested days are three times as many."""
    found = []
    for day in range(days):
        values, label = make(np.random.default_rng((7, day)), rows * (3 if day >= days - tested else 1))
        frame = pd.DataFrame(values, columns=[f"x{place}" for place in range(values.shape[1])])
        found.append(frame.assign(y=label))
    return tuple(found)


def _friedman1(draw: np.random.Generator, rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Friedman 1991, example 1, on the ranks of columns that are lognormal; the noise is 1."""
    u = draw.random((rows, 10))
    label = 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2 + 10 * u[:, 3] + 5 * u[:, 4]
    return np.exp(2 * _normal(u.clip(1e-12, 1 - 1e-12))), label + draw.normal(size=rows)


def _heavy(draw: np.random.Generator, rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Heavy tails in columns and label."""
    x = draw.standard_t(2, (rows, 12))
    signal = (
        np.sign(x[:, 0]) * np.log1p(np.abs(x[:, 0])) + np.tanh(x[:, 1] * x[:, 2]) + (x[:, 3] > 1) * x[:, 4].clip(-2, 2)
    )
    return x, np.exp(0.5 * signal) + 0.3 * draw.standard_t(3, rows)


def _steps(draw: np.random.Generator, rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Random trees: what boosting is made for."""
    x = draw.normal(size=(rows, 10))
    trees = np.random.default_rng(5)
    label = np.zeros(rows)
    for _ in range(30):
        leaf = np.zeros(rows, np.int64)
        for _depth in range(3):
            leaf = leaf * 2 + (x[:, trees.integers(10)] > trees.normal())
        label += trees.normal(size=8)[leaf]
    return x, label + draw.normal(size=rows)


def _hastie(draw: np.random.Generator, rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Hastie et al. 2009, example 10.2: whether a sum of squares is large."""
    x = draw.normal(size=(rows, 10))
    return x, (np.square(x).sum(1) > _MEDIAN_OF_CHI_SQUARE).astype(np.float64)


def _missing(draw: np.random.Generator, rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values that are missing more often where they are large."""
    x = draw.normal(size=(rows, 15))
    pull = x[:, 0] + x[:, 1] * x[:, 2] + np.maximum(x[:, 3], 0) - 1
    label = (draw.random(rows) < 1 / (1 + np.exp(-1.5 * pull))).astype(np.float64)
    x[draw.random(x.shape) < 0.1 + 0.3 * (x > 1)] = np.nan
    return x, label


def _wide(draw: np.random.Generator, rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A hundred columns of which eight matter."""
    x = draw.normal(size=(rows, 100))
    pull = x[:, :4].sum(1) / 2 + x[:, 4] * x[:, 5] + np.abs(x[:, 6]) - np.abs(x[:, 7])
    return x, (draw.random(rows) < 1 / (1 + np.exp(-pull))).astype(np.float64)


def _ctr() -> TaskSet:
    """Clicks of ids with a long tail: the truth is a sum of their effects and of a product of two of them."""
    world = np.random.default_rng(11)
    effect, other = world.normal(size=2000), world.normal(size=50)
    pair_a, pair_b = world.normal(size=(2000, 3)), world.normal(size=(50, 3))
    found = []
    for day in range(9):
        draw = np.random.default_rng((13, day))
        rows = 4000 * (3 if day > _LAST else 1)
        item = np.minimum(draw.zipf(1.3, rows) - 1, 1999)
        place = draw.integers(0, 50, rows)
        age = draw.normal(size=rows)
        pull = effect[item] + 0.5 * other[place] + 0.4 * (pair_a[item] * pair_b[place]).sum(1) + 0.3 * age - 1
        found.append(
            pd.DataFrame({
                "item": [f"i{one}" for one in item], "place": [f"p{one}" for one in place], "age": age,
                "y": (draw.random(rows) < 1 / (1 + np.exp(-pull))).astype(int),
            })
        )  # fmt: skip
    columns: Columns = {
        "item": {"role": "categorical", "type": "string"}, "place": {"role": "categorical", "type": "string"},
        "age": {"role": "numeric", "type": "float64"}, **_OF_CLASSES,
    }  # fmt: skip
    return TaskSet(name="ctr", objective="binary", metric="auc", columns=columns, days=tuple(found), tested=2)


def _relative() -> TaskSet:
    """A ranking in which only differences within a query count."""
    found = []
    for day in range(9):
        draw = np.random.default_rng((17, day))
        queries = 300 * (3 if day > _LAST else 1)
        query = np.repeat(np.arange(queries), 10)
        x = draw.normal(size=(len(query), 8))
        x[:, :3] += np.repeat(3 * draw.normal(size=(queries, 3)), 10, axis=0)
        inside = x - np.repeat(x.reshape(queries, 10, 8).mean(1), 10, axis=0)
        worth = inside[:, 0] + inside[:, 1] * x[:, 4] + 0.5 * np.abs(x[:, 5]) + 0.7 * draw.normal(size=len(query))
        frame = pd.DataFrame(x, columns=[f"x{place}" for place in range(8)])
        found.append(frame.assign(query=day * 10_000 + query, y=np.digitize(worth, [0.5, 1.5, 2.5, 3.5]).astype(float)))
    columns: Columns = {"query": {"role": "group", "type": "int64"}, **_numbers(8), **_OF_NUMBERS}
    return TaskSet(name="relative", objective="ranking", metric="ndcg@10", columns=columns, days=tuple(found), tested=2)


def _clicks() -> TaskSet:
    days = tuple(day_clicks(_FIRST + timedelta(days=day), seed=3, rows_per_day=8_000).to_pandas() for day in range(21))
    columns: Columns = {
        "query_id": {"role": "group", "type": "int64"},
        "item_id": {"role": "categorical", "type": "string"},
        "country": {"role": "categorical", "type": "string"},
        "price": {"role": "numeric", "type": "float64", "min": 0, "transform": "log1p"},
        "rating": {"role": "numeric", "type": "float64"},
        "clicked": {"role": "label", "type": "int64"},
    }
    return TaskSet(name="clicks", objective="ranking", metric="ndcg@10", columns=columns, days=days, tested=3)


def _payments() -> TaskSet:
    days = tuple(
        day_payments(_FIRST + timedelta(days=day), seed=3, rows_per_day=3_000)
        .to_pandas()
        .assign(hour=lambda df: df["paid_at"].dt.hour.astype("int64"))
        for day in range(14)
    )
    columns: Columns = {
        "merchant_category": {"role": "categorical", "type": "string"},
        "card_country": {"role": "categorical", "type": "string"},
        "channel": {"role": "categorical", "type": "string"},
        "amount": {"role": "numeric", "type": "float64", "min": 0, "transform": "log1p"},
        "seconds_since_last": {"role": "numeric", "type": "float64", "min": 0, "transform": "log1p"},
        "hour": {"role": "categorical", "type": "int64"},
        "fraud": {"role": "label", "type": "int64"},
    }
    return TaskSet(name="payments", objective="binary", metric="auc", columns=columns, days=days, tested=3)


def _flights(last: date) -> TaskSet:
    """The month before a day, which is the one to predict."""
    days = []
    for back in range(30, -1, -1):
        day = last - timedelta(days=back)
        df = pd.read_parquet(SHARED / "flights" / f"date={day}" / "part-0.parquet")
        df = df[df["sched_dep_ts"].notna() & df["label_arr_delay_gt15"].notna()]
        due = df["sched_dep_ts"].dt
        df = df.assign(
            sched_hour=due.hour.astype("int64"), minute_of_day=(due.hour * 60 + due.minute).astype("float64")
        )
        days.append(df)
    columns: Columns = {
        "carrier": {"role": "categorical", "type": "string"},
        "origin": {"role": "categorical", "type": "string"},
        "dest": {"role": "categorical", "type": "string"},
        "flight": {"role": "categorical", "type": "int64"},
        "distance": {"role": "numeric", "type": "int64", "min": 0, "transform": "log1p"},
        "sched_hour": {"role": "categorical", "type": "int64"},
        "minute_of_day": {"role": "numeric", "type": "float64"},
        "label_arr_delay_gt15": {"role": "label", "type": "int64"},
    }
    name = f"flights {last:%m-%d}"
    return TaskSet(name=name, objective="binary", metric="auc", columns=columns, days=tuple(days))


def _obd() -> TaskSet:
    days = tuple(pd.read_parquet(path / "part-0.parquet") for path in sorted((SHARED / "obd").glob("date=*")))
    columns: Columns = {
        **{
            name: {"role": "categorical", "type": "string"}
            for name in ("campaign", "policy", *(f"user_feature_{place}" for place in range(4)))
        },
        "item_id": {"role": "categorical", "type": "int64"},
        "position": {"role": "categorical", "type": "int64"},
        **{
            name: {"role": "numeric", "type": "float64"}
            for name in ("affinity", "affinity_sum", "affinity_max", "item_feature_0")
        },
        "clicked": {"role": "label", "type": "int64"},
    }
    return TaskSet(name="obd", objective="binary", metric="auc", columns=columns, days=days, tested=2)


def _function(
    name: str, objective: str, make: Callable[..., tuple[NDArray[np.float64], NDArray[np.float64]]]
) -> TaskSet:
    days = _made_up(make)
    metric, label = ("rmse", _OF_NUMBERS) if objective == "regression" else ("auc", _OF_CLASSES)
    if objective == "binary":
        days = tuple(day.astype({"y": "int64"}) for day in days)
    columns: Columns = {**_numbers(days[0].shape[1] - 1), **label}
    return TaskSet(name=name, objective=objective, metric=metric, columns=columns, days=days, tested=2)


_FUNCTIONS = {
    "friedman1": ("regression", _friedman1),
    "heavy": ("regression", _heavy),
    "steps": ("regression", _steps),
    "hastie": ("binary", _hastie),
    "missing": ("binary", _missing),
    "wide": ("binary", _wide),
}
_OTHERS: dict[str, Callable[[], TaskSet]] = {
    "clicks": _clicks, "payments": _payments, "ctr": _ctr, "relative": _relative, "obd": _obd,
}  # fmt: skip
FLIGHTS = ("flights 02-20", "flights 04-17", "flights 06-12", "flights 07-30", "flights 09-25", "flights 11-21")


def names() -> tuple[str, ...]:
    """The sets that this machine has."""
    real = SHARED.is_dir()
    return (*_FUNCTIONS, *(name for name in _OTHERS if real or name != "obd"), *(FLIGHTS if real else ()))


@cache
def task_set(name: str) -> TaskSet:
    """A set by its name."""
    if name in _FUNCTIONS:
        return _function(name, *_FUNCTIONS[name])
    if name in _OTHERS:
        return _OTHERS[name]()
    return _flights(date(2013, *map(int, name.split()[1].split("-"))))
