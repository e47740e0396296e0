"""Rules between the columns of a pipeline file and its slices, guards and floors."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from ratchet.contracts.expressions import GRAMMAR, columns_of, misuse, parse
from ratchet.contracts.gate import DECISIVE, DEFAULT_METRIC, METRICS, family, own_metric
from ratchet.contracts.misfits import Misfit, Rule
from ratchet.contracts.slices import Slice, read_slice
from ratchet.contracts.yaml_lines import KeyPath

_VALUES = frozenset({"string", "int64", "bool", "date"})
_NUMBERS = frozenset({"int64", "float64"})
_OUTCOMES = frozenset({"label", "weight"})
"""A slice by the label would choose rows by what is to be predicted, and a model is served without a weight."""


def _slices_fit(spec: Any) -> Iterator[Misfit]:
    for index, given in enumerate(spec.evaluate.slices):
        one = read_slice(given)  # of a part of a spec, a list is as the file has it
        yield from (_where_fits if one.where else _column_fits)(spec, one, ("evaluate", "slices", index))


def _where_fits(spec: Any, one: Slice, key: KeyPath) -> Iterator[Misfit]:
    found = parse(one.where)
    allowed = _columns(spec)
    for name in sorted(columns_of(found) - set(allowed)):
        yield _unknown(spec, name, key, list(allowed))
        return
    if wrong := misuse(found, {name: column.type for name, column in allowed.items()}):
        yield Misfit(key, f"{one.where!r}: {wrong}", GRAMMAR)


def _column_fits(spec: Any, one: Slice, key: KeyPath) -> Iterator[Misfit]:
    types = _NUMBERS if one.bins is not None else _VALUES
    allowed = [name for name, column in _columns(spec).items() if column.type in types and column.role != "group"]
    if one.column in allowed:
        return
    column = spec.columns.get(one.column)
    kind = getattr(column, "type", None)
    if column is not None and kind is None:  # its own problem is reported already
        return
    if kind == "float64" and one.bins is None and one.column in _columns(spec):
        remedy = f"write {{column: {one.column}, bins: 4}}"
        yield Misfit(key, f"{one.column} is a number, and its values are too many to be slices", remedy=remedy)
    elif kind is not None and one.bins is not None and kind not in _NUMBERS:
        yield Misfit(key, f"bins are of numbers, and {one.column} is {kind}", ", ".join(allowed))
    else:
        yield _unknown(spec, one.column, key, allowed)


def _unknown(spec: Any, name: str, key: KeyPath, allowed: list[str]) -> Misfit:
    column = spec.columns.get(name)
    message = f"{name} has role {column.role}, which makes no slice" if column else f"there is no column {name}"
    near = get_close_matches(name, allowed, n=1)
    return Misfit(key, message, ", ".join(allowed) or "none, as no column fits", *near)


def _columns(spec: Any) -> dict[str, Any]:
    """The columns that a slice may read. A column with a problem of its own has no role or no type."""
    return {
        name: column
        for name, column in spec.columns.items()
        if getattr(column, "type", None) and getattr(column, "role", "label") not in _OUTCOMES
    }


def _guards_fit(spec: Any) -> Iterator[Misfit]:
    objective = spec.train.objective
    decisive = spec.evaluate.metric or DEFAULT_METRIC[objective]
    for section in ("guards", "floors"):
        for metric in getattr(spec.gate, section):
            key = ("gate", section, metric)
            ours = family(metric) in METRICS[objective] and (objective, metric) != ("ranking", "logloss")
            if not ours and not own_metric(metric):
                shown = [*dict.fromkeys((*DECISIVE[objective], *METRICS[objective]))]
                yield Misfit(key, f"{metric} does not measure a {objective} model", ", ".join(shown))
            elif section == "guards" and metric == decisive:
                remedy = "guard another metric, or set gate.min_gain"
                yield Misfit(key, f"{metric} decides already, by gate.min_gain", remedy=remedy)


GATE_RULES: tuple[Rule, ...] = (_slices_fit, _guards_fit)
"""The rules of evaluate.slices, gate.guards and gate.floors."""
