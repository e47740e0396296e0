"""The split of the days: for training, for early stopping, and for the holdout."""

from collections.abc import Sequence
from datetime import date

from ratchet.contracts.errors import DataRejected
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Split


def split(spec: PipelineSpec, data_date: date, available: Sequence[date]) -> Split:
    """Split the days: the newest calendar days for the holdout, then available days for validation, then for training.

    Raises DataRejected if there is no day for training, or none for the holdout.
    """
    last = set(spec.holdout_window(data_date))
    holdout = tuple(sorted(day for day in available if day in last))
    before = sorted(day for day in available if day < min(last))
    kept = len(before) - spec.train.valid_days
    if not holdout or kept < 1:
        lack = "is no day to hold out" if not holdout else "is no day left to train on"
        raise DataRejected(
            f"{data_date}: of the window's {spec.source.window_days} days {len(available)} can be used, and with"
            f" {spec.evaluate.holdout_days} held out and {spec.train.valid_days} for validation there {lack}",
            remedy="deliver more days, check the days that validate excluded, or lower train.valid_days",
        )
    return Split(train=tuple(before[:kept]), valid=tuple(before[kept:]), holdout=holdout)


def refit_days(spec: PipelineSpec, data_date: date, parts: Split) -> tuple[date, ...]:
    """The days of a refit: all but those that a later night holds out too, to compare its candidate with this refit.

    A change here violates the promise of the project when the model in production has seen a day on which the next
    night compares it with its candidate. See docs/adr/031.
    """
    newest = spec.holdout_window(data_date)[0]
    return tuple(day for day in (*parts.train, *parts.valid, *parts.holdout) if day <= newest)
