"""The profile of the days that a model was trained on, without the rows of a key: drift is still compared with it."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import polars as pl
import pyarrow as pa

from tasks.validate.profile import ColumnProfile, Profile, column_of, value_key


def without(profile: Profile, rows: pa.Table, key: Collection[str]) -> Profile:
    """A profile without rows that it counts. key: the names of its column, whose sketches are emptied.

    Histograms, whose bins are 3 % wide, stay as they are, but for that of the key's column.
    """
    frame = pl.DataFrame(pl.from_arrow(rows))
    columns = {
        name: _column(found, frame[column_of(name)], is_key=column_of(name) in key)
        for name, found in profile.columns.items()
        if column_of(name) in frame.columns
    }
    keys = {name: found for name, found in profile.keys.items() if not {*key} & {*name.split(", ")}}
    change = {
        "rows": max(profile.rows - frame.height, 0),
        "labelled": min(profile.labelled, max(profile.rows - frame.height, 0)),
        "columns": {**profile.columns, **columns},
        "keys": keys,
        "hashes": (),
    }
    return profile.model_copy(update=change)


def _column(found: ColumnProfile, series: pl.Series, *, is_key: bool) -> ColumnProfile:
    flat = series.explode() if series.dtype == pl.List else series
    gone = Counter(map(value_key, flat.drop_nulls().to_list()))
    ends = {*gone}
    change: dict[str, object] = {
        "rows": max(found.rows - len(series), 0),
        "missing": max(found.missing - series.null_count(), 0),
        "values": _less(found.values, gone),
        "forbidden": _less(found.forbidden, gone),
        "low": None if _is_of(found.low, ends) else found.low,
        "high": None if _is_of(found.high, ends) else found.high,
        "hashes": (),
    }
    if is_key:
        change |= {"histogram": {}, "low": None, "high": None}
    return found.model_copy(update=change)


def _less(counts: Mapping[str, int], gone: Mapping[str, int]) -> dict[str, int]:
    return {value: left for value, number in counts.items() if (left := number - gone.get(value, 0)) > 0}


def _is_of(end: object, values: Iterable[str]) -> bool:
    return end is not None and value_key(end) in values
