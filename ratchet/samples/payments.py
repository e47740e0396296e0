"""Card payments. About one in fifty is fraud.

The signs of fraud change slowly: after some months it prefers other merchants and countries. A day depends only on the
seed, its date and rows_per_day.
"""

from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ratchet.samples.days import generator, moments, volume, write_days

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

MERCHANTS = (
    *("airline", "bakery", "books", "clothing", "cosmetics", "crypto", "electronics", "fuel", "furniture", "gambling"),
    *("gift_cards", "grocery", "hotel", "jewellery", "pharmacy", "restaurant", "streaming", "taxi", "telecom", "toys"),
)
COUNTRIES = ("BR", "DE", "ES", "FR", "GB", "NL", "PL", "US")
CHANNELS = ("chip", "contactless", "online")
_CHANNEL_SHARES = (0.25, 0.40, 0.35)
_NULL_SECONDS = 0.03
_FRAUDS = 0.024  # 0.02 after the limit of 0.9 for the risk of a payment
_DAY = 86_400


def write(out: Path, *, days: int, rows_per_day: int, end: date, seed: int) -> Iterator[Path]:
    """Write `<out>/payments/date=YYYY-MM-DD/part-0.parquet` for the last `days` days, `end` included. Yields each path.

    rows_per_day: give or take 4%. Raises ConfigurationError if days or rows_per_day is below 1.
    """
    make = partial(day_payments, seed=seed, rows_per_day=rows_per_day)
    return write_days(out / "payments", days=days, end=end, table=make)


def day_payments(day: date, *, seed: int, rows_per_day: int) -> pa.Table:
    """One day's payments in order of time."""
    rng, rows = generator(seed, "payments", day), volume(seed, day, rows_per_day)
    start = np.sort(rng.beta(2.5, 2.0, size=rows)) * (_DAY - 1)
    merchant_shares = 1.0 / np.arange(2, len(MERCHANTS) + 2)
    merchant_shares = generator(seed, "merchants").permutation(merchant_shares / merchant_shares.sum())
    merchant = rng.choice(len(MERCHANTS), p=merchant_shares, size=rows)
    country = rng.choice(len(COUNTRIES), p=[0.06, 0.2, 0.09, 0.14, 0.15, 0.08, 0.08, 0.2], size=rows)
    channel = rng.choice(len(CHANNELS), p=_CHANNEL_SHARES, size=rows)
    typical = 3.2 + 0.6 * generator(seed, "amounts").normal(size=len(MERCHANTS))
    amount = np.exp(typical[merchant] + 0.9 * rng.normal(size=rows))
    since = rng.exponential(1.0, size=rows) ** 2 * 20_000  # most payments are hours apart, some seconds
    night = start < 6 * 3600
    online = channel == CHANNELS.index("online")
    suspicion = (
        1.4 * _taste(seed, "fraud merchants", day, len(MERCHANTS))[merchant]
        + 0.9 * _taste(seed, "fraud countries", day, len(COUNTRIES))[country]
        + np.array([-0.8, -0.4, 0.8])[channel]
        + 0.7 * (np.log(amount) - 3.2) * (0.5 + online)
        + 1.8 * np.exp(-since / 1_500)
        + 1.5 * night
    )
    risk = np.exp(suspicion)
    fraud = rng.random(rows) < np.minimum(0.9, _FRAUDS * risk / risk.mean())
    return pa.table(
        {
            "payment_id": pa.array(day.toordinal() * 1_000_000_000 + np.arange(rows), type=pa.int64()),
            "paid_at": moments(day, start),
            "merchant_category": pa.array(np.array(MERCHANTS)[merchant], type=pa.string()),
            "card_country": pa.array(np.array(COUNTRIES)[country], type=pa.string()),
            "channel": pa.array(np.array(CHANNELS)[channel], type=pa.string()),
            "amount": pa.array(amount.round(2)),
            "seconds_since_last": pa.array(since.round(), mask=rng.permutation(rows) + 1 <= _NULL_SECONDS * rows),
            "fraud": pa.array(fraud.astype(np.int64)),
        }
    )


def _taste(seed: int, purpose: str, day: date, size: int) -> Floats:
    """The preference of fraud for each of `size` values on a day: waves of 100 to 200 days, mean 0, variance near 1."""
    draws = generator(seed, purpose).random((size, 2))
    waves: Floats = np.sqrt(2) * np.sin(2 * np.pi * (day.toordinal() / (100 + 100 * draws[:, 0]) + draws[:, 1]))
    waves -= waves.mean()
    return waves
