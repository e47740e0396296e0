"""What a payment's row does not say as such: at which hour of the day it was made."""

import pandas as pd


def derive(df: pd.DataFrame) -> pd.DataFrame:
    """Add hour (0-23) of paid_at, in the source's zone."""
    return df.assign(hour=df["paid_at"].dt.hour.astype("Int64"))
