"""The rows that a number which is not finite came from, in a few words."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ratchet.contracts.summaries import FeatureDay
from ratchet.model.description import Description
from ratchet.model.networks import Predictor
from tasks.train.body_inputs import numbers_of
from tasks.train.data import Rows


def extremes(
    description: Description, network: Predictor, days: Sequence[FeatureDay], rows: Rows, places: NDArray[np.int64]
) -> str:
    """How many rows, their smallest and largest label, and the value that is farthest from its column's mean.

    rows: of the days, with their numbers. places: of the rows to describe.
    """
    label = rows.label[torch.from_numpy(places)].double()
    text = f"{len(places):,} rows with labels from {float(label.min()):.6g} to {float(label.max()):.6g}"
    numbers = numbers_of(description)
    if not numbers:
        return text
    standard = rows.numeric[torch.from_numpy(places), : len(numbers)]
    far = standard.abs().nan_to_num(nan=0.0, posinf=float("inf")).cpu()
    row, column = divmod(int(far.argmax()), far.shape[1])
    number = int(places[row] if rows.number is None else rows.number[places[row]])
    ends = np.cumsum([day.rows for day in days])
    day = days[int(np.searchsorted(ends, number, side="right"))].day
    return (
        f"{text}; farthest from its mean is {numbers[column][0]} ="
        f" {network.preprocess.value(float(standard[row, column]), column):.6g} on {day},"
        f" by {float(far[row, column]):,.1f} standard deviations"
    )
