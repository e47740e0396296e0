"""One day's rows as arrays and statistics. The result is cached by day, so it depends only on the inputs."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts.category_statistics import statistics_of
from ratchet.contracts.columns import ColumnType, Statistic
from ratchet.contracts.errors import DataRejected
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Check
from ratchet.model.derivation import Derive, OwnDerive
from ratchet.model.encoding import LARGEST
from ratchet.model.independence import Reads, refuse_dependence
from ratchet.model.list_columns import lists, vectors
from ratchet.model.rows import read_rows
from tasks.features.category_statistics import label_sums
from tasks.features.derived_rules import check_derived
from tasks.features.lists import count_all
from tasks.features.quantiles import summarise
from tasks.features.refusals import refuse_blurred
from tasks.features.statistics import Moments, moments

Array = NDArray[np.generic]


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedDay:
    """An encoded day.

    arrays: those of summaries.FeatureDay, `categories` of lists.count_all, `quantiles` of quantiles.summarise, and
    `label_sums` of category_statistics.label_sums where a column declares statistics. numeric: moments of each number
    that is standardised. checks: the rules that its derived columns break.
    """

    rows: int
    unlabelled: int
    arrays: dict[str, Array]
    numeric: tuple[Moments, ...]
    label: Moments
    checks: tuple[Check, ...] = ()


def numeric(spec: PipelineSpec) -> tuple[str, ...]:
    """The numeric columns, in the order of their array."""
    return tuple(name for name in spec.with_role("numeric") if not spec.columns[name].is_vector)


def categorical(spec: PipelineSpec) -> dict[str, ColumnType]:
    """The categorical columns, in the order of their array, with their types."""
    plain = (name for name in spec.with_role("categorical") if not spec.columns[name].is_list)
    return {name: spec.columns[name].type for name in plain}


def statistical(spec: PipelineSpec) -> tuple[tuple[int, Statistic], ...]:
    """The statistics of categories: of which column of the categorical array, and which one."""
    places = {name: place for place, name in enumerate(categorical(spec))}
    return tuple((places[name], statistic) for name, statistic in statistics_of(spec))


def reads(spec: PipelineSpec) -> Reads:
    """What the model reads, and what a value of it may depend on: its row, in a ranking its group."""
    return Reads(
        numeric=numeric(spec),
        categorical=categorical(spec),
        group=spec.group if spec.train.objective == "ranking" else None,
        vectors=vectors(spec),
        lists=lists(spec),
    )


def encode_day(path: Path, spec: PipelineSpec, derive: Derive, *, day: date, where: str = "") -> EncodedDay:
    """Encode a day's Parquet file: drop rows without a label, and sort the others by group.

    derive gets neither label nor weight, because a served model has none. where: of the rows, for
    messages, if not the day. Raises DataRejected and ConfigurationError.
    """
    where = where or f"{day}"
    df = read_rows(path, spec.columns)
    labelled = df[spec.label].notna().to_numpy()
    unlabelled = int(len(df) - labelled.sum())
    if unlabelled:
        df = df[labelled].reset_index(drop=True)
    arrays: dict[str, Array] = {"label": _label(df[spec.label], spec, where)}
    hidden = [spec.label, *spec.with_role("weight")]
    for name in spec.with_role("weight"):
        arrays["weight"] = _weight(df[name], where)
    given = df.drop(columns=hidden)
    derived = derive(given)
    if isinstance(derive, OwnDerive):
        refuse_dependence(derive, given, derived, reads(spec))
    checks = check_derived(day, derived, spec)
    arrays["numeric"], arrays["categorical"] = reads(spec).encode(derived)
    for name in numeric(spec):
        refuse_blurred(derived[name], where)
    if spec.group is not None:
        codes = _group_codes(df[spec.group], where, alone=spec.train.objective != "ranking")
        del df, given, derived
        order = np.argsort(codes, kind="stable")
        arrays = {name: array[order] for name, array in arrays.items()}
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        arrays["group"] = np.append(starts, len(codes)).astype(np.int64)
    numbers = arrays["numeric"].astype(np.float64, copy=False)
    arrays["numeric"] = _narrow(numbers)
    arrays["categories"] = count_all(arrays["categorical"].astype(np.int64, copy=False), spec)
    if declared := statistical(spec):
        columns = sorted({place for place, _ in declared})
        arrays["label_sums"] = label_sums(arrays["categorical"], arrays["label"], arrays.get("weight"), columns)
    transforms = [spec.columns[name].transform for name in numeric(spec)]
    arrays["quantiles"] = summarise(numbers, transforms)
    standardised = [*transforms, *(None for one in vectors(spec) for _ in range(one.dimension))]
    return EncodedDay(
        rows=len(arrays["label"]),
        unlabelled=unlabelled,
        arrays=arrays,
        numeric=tuple(moments(numbers[:, place], transform) for place, transform in enumerate(standardised)),
        label=moments(arrays["label"].astype(np.float64), weight=_floats(arrays.get("weight"))),
        checks=checks,
    )


def _narrow(numbers: NDArray[np.float64]) -> Array:
    """As float32 where it holds every value exactly, which takes half the space."""
    with np.errstate(under="ignore"):
        narrow = numbers.astype(np.float32)
    return narrow if np.array_equal(narrow, numbers, equal_nan=True) else numbers


def _floats(weight: Array | None) -> NDArray[np.float64] | None:
    return None if weight is None else weight.astype(np.float64)


def _label(values: pd.Series, spec: PipelineSpec, where: str) -> Array:
    wide = values.to_numpy(np.float64)
    held = np.abs(wide) <= LARGEST
    objective = spec.train.objective
    if objective == "multiclass":
        classes = len(spec.columns[spec.label].allowed or ())
        bad, allowed = ~np.isin(wide, np.arange(classes)), f"whole numbers from 0 to {classes - 1}"
    elif objective == "binary":
        bad, allowed = ~np.isin(wide, (0, 1)), "0 and 1"
    elif objective == "ranking":
        bad, allowed = ~(held & (wide >= 0)), f"relevance from 0 up to {LARGEST:.1e}"
    else:
        bad, allowed = ~held, f"numbers up to {LARGEST:.1e}, above or below 0"
        refuse_blurred(values, where)
    _refuse(values, bad, f"a {objective} label", allowed, where)
    return wide.astype({"multiclass": np.int64, "regression": np.float64}.get(objective, np.float32))


def _weight(values: pd.Series, where: str) -> Array:
    wide = values.to_numpy(np.float64, na_value=np.nan)
    held = np.abs(wide) <= LARGEST
    _refuse(values, ~(held & (wide >= 0)), "a weight", f"numbers from 0 up to {LARGEST:.1e}", where)
    return wide.astype(np.float32)


def _refuse(values: pd.Series, bad: NDArray[np.bool_], role: str, allowed: str, where: str) -> None:
    if bad.any():
        raise DataRejected(
            f"{where}: column {values.name}: {int(bad.sum())} rows have values that {role} cannot have,"
            f" such as {values[bad].iloc[0]}; allowed: {allowed}",
            remedy=f"correct the source, or set a rule in columns.{values.name}, so that validate excludes such days",
        )


def _group_codes(values: pd.Series, where: str, *, alone: bool) -> NDArray[np.int64]:
    """The rank of each row's group in the day. alone: a row without a group is its own group; else it is refused."""
    codes, unique = pd.factorize(values, sort=True)
    missing = codes < 0
    if missing.any() and not alone:
        raise DataRejected(
            f"{where}: column {values.name}: {int(missing.sum())} rows have no group, so they cannot be ranked",
            remedy=f"correct the source, or set columns.{values.name}.max_null: 0% so that validate excludes such days",
        )
    codes = codes.astype(np.int64)
    codes[missing] = len(unique) + np.arange(missing.sum())
    return codes
