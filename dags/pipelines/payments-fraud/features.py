"""The column that the rows of payments lack: the hour of the day."""

import pandas as pd


def derive(df: pd.DataFrame) -> pd.DataFrame:
    """Add the hour (0-23) of paid_at in the source's time zone."""
    return df.assign(hour=df["paid_at"].dt.hour.astype("Int64"))
