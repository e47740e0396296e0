"""A search log: the items shown for each query, and the clicks on them.

The quality of each item changes slowly, so that recent clicks predict better than old ones, and every day adds items.
A day depends only on the seed, its date and rows_per_day: a further day never changes the days before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ratchet.samples.days import generator, moments, volume, write_days

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

COUNTRIES = ("DE", "FR", "US")
COUNTRY_SHARES = (0.25, 0.15, 0.60)
EPOCH = date(2025, 1, 1)  # the first day with a new item; earlier days have only the old items
_OLD_ITEMS = 150
_NEW_A_DAY = 10
_LAUNCH = 4.0  # impressions of a new item, relative to an old one
_HALF_LIFE = 6.0  # days
_FLOOR = 0.002  # the smallest impressions of an item, relative to an old one
_NULL_PRICES = 0.005
_SHORTEST, _LONGEST = 8, 16  # rows of a query; an item with a share below 1 / _LONGEST appears once in a query
_PERIODS = np.array([20.0, 45.0, 110.0])  # days
_AMPLITUDES = np.array([0.6, 0.9, 0.9])


@dataclass(frozen=True)
class Catalogue:
    """The items of one day: arrays [items], or [items, countries] for taste."""

    share: Floats
    quality: Floats
    taste: Floats
    price: Floats
    rating: Floats


def write(out: Path, *, days: int, rows_per_day: int, end: date, seed: int) -> Iterator[Path]:
    """Write `<out>/clicks/date=YYYY-MM-DD/part-0.parquet` for the last `days` days, `end` included. Yields each path.

    rows_per_day: give or take 4%. Raises ConfigurationError if days or rows_per_day is below 1.
    """
    make = partial(day_clicks, seed=seed, rows_per_day=rows_per_day)
    return write_days(out / "clicks", days=days, end=end, table=make)


def day_clicks(day: date, *, seed: int, rows_per_day: int) -> pa.Table:
    """One day's rows, by query in order of time, and by position within a query."""
    items, rng = day_catalogue(day, seed=seed), generator(seed, "clicks", day)
    rows = volume(seed, day, rows_per_day)
    sizes = rng.integers(_SHORTEST, _LONGEST + 1, size=rows // _SHORTEST + 1)
    query = np.repeat(np.arange(len(sizes)), sizes)[:rows]
    slot = np.arange(rows) - np.searchsorted(query, query)
    # evenly spaced points on the items' shares: an item appears by its share, and once in a query
    order = rng.permutation(len(items.share))
    point = (rng.random(len(sizes))[query] + slot) / sizes[query]
    item = order[np.minimum(np.searchsorted(np.cumsum(items.share[order]), point), len(order) - 1)]
    # the old ranker hardly knows the quality, so that a model can learn much
    score = 0.3 * items.quality[item] + rng.normal(size=rows)
    item = item[np.lexsort((-score, query))]

    country = rng.choice(len(COUNTRIES), p=COUNTRY_SHARES, size=len(sizes))[query]
    price = items.price[item] * np.array([1.05, 1.0, 0.95])[country]
    rating = np.clip(items.rating[item] + rng.normal(0, 0.05, size=rows), 0, 5)
    appeal = (
        -1.75
        + 1.1 * items.quality[item]
        + items.taste[item, country]
        - np.array([0.4, 0.3, 0.15])[country] * np.log(price / 40)
        + 0.3 * (rating - 3.7)
    )
    seen = (slot + 1.0) ** -0.5
    clicked = rng.random(rows) < seen / (1 + np.exp(-appeal))
    start = np.sort(rng.beta(2.5, 2.0, size=len(sizes))) * 86_399
    return pa.table(
        {
            "query_id": pa.array(day.toordinal() * 10_000_000 + query, type=pa.int64()),
            "shown_at": moments(day, start[query]),
            "item_id": pa.array(np.char.add("item-", np.char.zfill(item.astype(str), 5)), type=pa.string()),
            "country": pa.array(np.array(COUNTRIES)[country], type=pa.string()),
            "price": pa.array(price.round(2), mask=rng.permutation(rows) + 1 <= _NULL_PRICES * rows),
            "rating": pa.array(rating.round(2)),
            "position": pa.array(slot + 1, type=pa.int64()),
            "clicked": pa.array(clicked.astype(np.int64)),
        }
    )


def day_catalogue(day: date, *, seed: int) -> Catalogue:
    """The items of a day. Random numbers are drawn item by item, so that later items never change earlier ones."""
    age = max(0, (day - EPOCH).days)
    count = _OLD_ITEMS + _NEW_A_DAY * age
    draws = generator(seed, "items").normal(size=(count, 16))
    phases = generator(seed, "phases").random((count, 2 * len(_PERIODS)))
    number = np.arange(count)
    days_old = age - 1 - (number - _OLD_ITEMS) // _NEW_A_DAY
    new = _LAUNCH * 0.5 ** (days_old / _HALF_LIFE) + _FLOOR
    weight = np.where(number < _OLD_ITEMS, 1.0, new) * np.exp(0.5 * np.clip(draws[:, 0], -2, 2))

    walk = _PERIODS * (0.8 + 0.4 * phases[:, : len(_PERIODS)])
    angle = 2 * np.pi * ((day - EPOCH).days / walk + phases[:, len(_PERIODS) :])
    quality = 0.5 * draws[:, 1] + np.sin(angle) @ _AMPLITUDES
    return Catalogue(
        share=weight / weight.sum(),
        quality=quality,
        taste=0.5 * draws[:, 2 : 2 + len(COUNTRIES)],
        price=40 * np.exp(0.8 * draws[:, 5] + 0.05 * np.sin(angle[:, 2])),
        rating=3.7 + 0.2 * quality + 0.4 * draws[:, 6],
    )
