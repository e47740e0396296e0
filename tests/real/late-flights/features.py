"""What is known of a flight before it leaves, beyond its row: when in the day it is due.

The table's own `hour` and `minute` are those of the actual departure, so they would tell the answer.
"""

import pandas as pd


def derive(df: pd.DataFrame) -> pd.DataFrame:
    """Add hour (0-23) and minute_of_day (0-1439) of the scheduled departure."""
    due = df["sched_dep_ts"].dt
    return df.assign(hour=due.hour.astype("Int64"), minute_of_day=(due.hour * 60 + due.minute).astype("float64"))
