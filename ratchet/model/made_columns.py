"""Columns that are made from others of the same row: `columns.NAME.make` of the pipeline file.

A day's features, the held-out rows and the rows of a served model get them from this code and from no other.

A change here violates the promise of the project when a value depends on the rows beside its row, or, of a number from
its group, on anything but the rows of the group; or when a row of before gets another value.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.made_columns import MadeColumn
from ratchet.contracts.make import Bucketize, Clip, DatePart, DaysSince, Hash, InGroup
from ratchet.model.encoding import Floats, category_ids, plain_numbers
from ratchet.model.hashing import MISSING

_SECONDS_OF_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class MadeDerive:
    """Adds columns to rows that need no code of the pipeline's own."""

    made: tuple[MadeColumn, ...]

    def __call__(self, df: pd.DataFrame) -> pd.DataFrame:
        """The rows with the columns. Raises ConfigurationError for a column that they need and rows do not have."""
        return df.assign(**{one.name: _make(df, one) for one in self.made}) if self.made else df

    @property
    def inputs(self) -> list[str]:
        """The columns that they read."""
        return list(dict.fromkeys(name for one in self.made for name in (*one.inputs, one.group) if name))

    @property
    def of_groups(self) -> bool:
        """Whether one of them needs whole groups."""
        return any(one.group for one in self.made)


def _make(df: pd.DataFrame, made: MadeColumn) -> pd.Series:
    for name in (*made.inputs, *([made.group] if made.group else [])):
        if name not in df.columns:
            raise ConfigurationError(
                f"the rows have no column {name}, which {made.name} is made from",
                remedy=f"give it; these rows have {', '.join(map(str, df.columns))}",
            )
    found = _MAKERS[made.make.kind](df, made, getattr(made.make, made.make.kind))
    return pd.Series(found, index=df.index, name=made.name)


def _ratio(df: pd.DataFrame, made: MadeColumn, _: object) -> Floats:
    above, below = _numbers(df, made)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(below == 0, np.nan, above / below)


def _difference(df: pd.DataFrame, made: MadeColumn, _: object) -> Floats:
    one, other = _numbers(df, made)
    return one - other


def _cross(df: pd.DataFrame, made: MadeColumn, _: object) -> NDArray[np.object_]:
    """The values with bars between them; a bar and a backslash in a value have a backslash before them."""
    columns = [_texts(df[name], kind) for name, kind in made.inputs.items()]
    found = np.empty(len(df), object)
    for row, values in enumerate(zip(*columns, strict=True)):
        found[row] = None if None in values else "|".join(values)
    return found


def _texts(values: pd.Series, kind: ColumnType) -> list[str | None]:
    """Each value as text, each different one once."""
    category_ids(values, kind)  # refuses what is of another type
    codes, unique = pd.factorize(values)
    plain = {"int64": int, "bool": bool}.get(kind, str)
    shown = [str(plain(one)) for one in unique]
    texts = [(text.lower() if kind == "bool" else text).replace("\\", "\\\\").replace("|", "\\|") for text in shown]
    return [None if code < 0 else texts[code] for code in codes]


def _clip(df: pd.DataFrame, made: MadeColumn, rule: Clip) -> Floats:
    (values,) = _numbers(df, made)
    return np.clip(values, rule.low, rule.high)


def _bucketize(df: pd.DataFrame, made: MadeColumn, rule: Bucketize) -> Any:
    (values,) = _numbers(df, made)
    return _whole(np.searchsorted(np.array(rule.at), values, side="right"), np.isnan(values))


def _hash(df: pd.DataFrame, made: MadeColumn, rule: Hash) -> Any:
    ((name, kind),) = made.inputs.items()
    ids = category_ids(df[name], kind)
    return _whole((ids.view(np.uint64) % np.uint64(rule.buckets)).astype(np.int64), ids == MISSING)


def _date_part(df: pd.DataFrame, made: MadeColumn, rule: DatePart) -> Any:
    times = _input(df, made, rule.of)
    if made.inputs[rule.of] == "timestamp":
        times = times.dt.tz_localize("UTC").dt.tz_convert(ZoneInfo(rule.timezone))
    return _whole(_part(times, rule), times.isna().to_numpy())


def _part(times: pd.Series, rule: DatePart) -> NDArray[np.int64]:
    if rule.part == "week":
        of = times.dt.isocalendar().week
    else:
        of = times.dt.day_of_week if rule.part == "weekday" else getattr(times.dt, rule.part)
    found: NDArray[np.int64] = of.fillna(0).to_numpy(np.int64)
    return found


def _days_since(df: pd.DataFrame, made: MadeColumn, rule: DaysSince) -> Any:
    return (_input(df, made, rule.until) - _input(df, made, rule.of)).dt.total_seconds() / _SECONDS_OF_A_DAY


def _input(df: pd.DataFrame, made: MadeColumn, name: str) -> pd.Series:
    """The times of a column; a declared date begins at midnight, whatever time of day a caller gives."""
    times = _times(df[name])
    return times.dt.normalize() if made.inputs[name] == "date" else times


def _in_group(df: pd.DataFrame, made: MadeColumn, rule: InGroup) -> Floats:
    """Sums are over the ascending numbers of a group: they do not depend on the order of its rows."""
    (values,) = _numbers(df, made)
    there = ~np.isnan(values)
    codes, names = pd.factorize(df[made.group])
    codes[codes < 0] = len(names) + np.arange(int((codes < 0).sum()))
    found = np.full(len(values), np.nan)
    if there.any():
        found[there] = _of_groups(values[there], codes[there], rule.statistic)
    return found


def _of_groups(values: Floats, codes: NDArray[np.intp], statistic: str) -> Floats:
    order = np.lexsort((values, codes))
    ordered, starts = values[order], np.flatnonzero(np.diff(codes[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    if statistic == "rank":  # 1 + how many of the group are greater
        ends = np.repeat(starts + sizes, sizes)
        last = np.append(np.flatnonzero((np.diff(ordered) != 0) | (np.diff(codes[order]) != 0)), len(order) - 1)
        of_row = ends - 1 - last[np.searchsorted(last, np.arange(len(order)))] + 1.0
    else:
        sums = np.add.reduceat(ordered, starts)
        each = {
            "mean": sums / sizes,
            "difference": sums / sizes,
            "share": sums,
            "min": ordered[starts],
            "max": ordered[starts + sizes - 1],
            "count": sizes.astype(np.float64),
        }[statistic]
        of_row = np.repeat(each, sizes)
    found = np.empty(len(values))
    found[order] = of_row
    if statistic == "difference":
        return values - found
    if statistic == "share":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(found == 0, np.nan, values / found)
    return found


def _numbers(df: pd.DataFrame, made: MadeColumn) -> list[Floats]:
    return [plain_numbers(df[name]) for name in made.make.inputs]


def _times(values: pd.Series) -> pd.Series:
    """Times without a zone, in UTC. Text is read as ISO 8601; without a zone it is in UTC."""
    try:
        times = pd.to_datetime(values, format="ISO8601", utc=True)
    except (ValueError, TypeError) as error:
        why = str(error).partition("\n")[0].partition(". You might")[0]
        raise ConfigurationError(
            f"column {values.name}: holds {values.dtype} where times are declared: {why}",
            remedy=f"convert {values.name} before",
        ) from error
    return times.dt.tz_localize(None)


def _whole(values: NDArray[np.signedinteger], missing: NDArray[np.bool_]) -> Any:
    """Whole numbers, of which some may be missing."""
    return pd.arrays.IntegerArray(values.astype(np.int64), missing)


_MAKERS: Mapping[str, Callable[..., Any]] = {
    "ratio": _ratio,
    "difference": _difference,
    "cross": _cross,
    "clip": _clip,
    "bucketize": _bucketize,
    "hash": _hash,
    "date_part": _date_part,
    "days_since": _days_since,
    "in_group": _in_group,
}
