"""What a parcel's row does not say as such: how far away its country is."""

import pandas as pd
from mapping import zone_of


def derive(df: pd.DataFrame) -> pd.DataFrame:
    """Add zone (near, far or beyond) of country."""
    return df.assign(zone=df["country"].map(zone_of).astype("string"))
