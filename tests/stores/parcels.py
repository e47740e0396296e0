"""Source data of a store that is kept: small days of parcels, the same for the same date."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

FIRST = date(2026, 3, 1)
ROWS = 300
_CARRIERS = np.array(["air", "rail", "road"])
_COUNTRIES = np.array(["AT", "CH", "DE", "ES", "FI", "GR", "JP", "NL", "PT", "US"])
_HARM = {"air": -1.0, "rail": 0.0, "road": 1.0, "AT": -1.5, "CH": -1.5, "DE": -1.5, "NL": -1.5, "JP": 1.5, "US": 1.5}


def rows(day: date, *, poisoned: bool = False) -> pd.DataFrame:
    """The parcels of a day. poisoned: weights below zero, as of a scale that was not set right."""
    random = np.random.default_rng(day.toordinal())
    carrier, country = random.choice(_CARRIERS, ROWS), random.choice(_COUNTRIES, ROWS)
    weight = np.round(random.lognormal(1.0, 0.8, ROWS), 1)
    harm = np.array([_HARM.get(one, 0.0) + _HARM.get(other, 0.0) for one, other in zip(carrier, country, strict=True)])
    late = random.random(ROWS) < 1 / (1 + np.exp(0.5 - harm - 0.3 * np.log1p(weight)))
    weight[random.random(ROWS) < 0.03] = np.nan
    return pd.DataFrame(
        {
            "parcel_id": (day - FIRST).days * ROWS + np.arange(ROWS),
            "carrier": carrier,
            "country": country,
            "weight_kg": weight - 100 if poisoned else weight,
            "items": random.integers(1, 6, ROWS),
            "late": late.astype("int64"),
        }
    )


def write(data: Path, *, days: int, poisoned: int) -> None:
    """Write days from FIRST on below a folder; `poisoned` is the index of a bad one."""
    for index in range(days):
        day = FIRST + timedelta(days=index)
        file = data / "parcels" / f"date={day}" / "rows.parquet"
        file.parent.mkdir(parents=True)
        rows(day, poisoned=index == poisoned).to_parquet(file, index=False)
