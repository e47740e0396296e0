"""The days and the rows of a window: enough to train on, and units that resampling can draw."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from ratchet.contracts.columns import LISTS
from ratchet.contracts.misfits import Misfit


def cluster_fits(spec: Any) -> Iterator[Misfit]:
    """The rule for evaluate.cluster: a column of a source, with one value in a row."""
    name = spec.evaluate.cluster
    known = [
        known
        for known, column in spec.columns.items()
        if not getattr(column, "derived", False) and getattr(column, "type", "") not in LISTS
    ]
    if name is not None and name not in known:
        is_list = name in spec.columns and getattr(spec.columns[name], "type", "") in LISTS
        message = f"{name} holds several values in a row" if is_list else f"{name} is not a column of the source"
        yield Misfit(("evaluate", "cluster"), message, ", ".join(known), *get_close_matches(name, known, n=1))


def window_fits(spec: Any) -> Iterator[Misfit]:
    """The rule for source.window_days: some days are left to train on."""
    held, valid, days = spec.evaluate.holdout_days, spec.train.valid_days, spec.source.window_days
    delay = spec.validate_.label_delay_days
    needed = delay + held + valid + 1
    if days < needed:
        late = f"{delay} without all their labels, " if delay else ""
        shares = f"{late}{held} held out, {valid} for validation, 1 to train"
        message = f"window_days {days} leaves no day to train on; at least {needed} are needed: {shares}"
        yield Misfit(("source", "window_days"), message)
