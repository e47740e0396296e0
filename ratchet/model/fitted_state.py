"""What is learnt from the training days before training: where numbers lie, and which categories there are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

Doubles = NDArray[np.float64]
_Number = TypeVar("_Number", np.float64, np.int64)


class Replaced(NamedTuple):
    """The statistics that rows of a day get in place of those of all days. places: of the buffer, int64."""

    places: NDArray[np.int64]
    values: Doubles


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedState:
    """mean, std: float64 [numeric columns], of the values after their transform; std is above 0.

    edges: for each numeric column the ends of the bins that its standardised values fall into, float64, ascending;
    fewer than two where it has one value. vocabulary: for each categorical column the ids that occurred often enough,
    int64, ascending. label_mean, label_std: of the labels. statistics: of categories, as the buffer of a network has
    them; their means, deviations and edges come after those of the columns. of_days: what rows of a day get instead.
    """

    mean: Doubles
    std: Doubles
    vocabulary: tuple[NDArray[np.int64], ...]
    edges: tuple[Doubles, ...]
    label_mean: float = 0.0
    label_std: float = 1.0
    statistics: Doubles = field(default_factory=lambda: np.zeros(0))
    of_days: Mapping[date, Replaced] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """As safetensors, the same bytes for the same values."""
        days = sorted(self.of_days)
        of_days = [self.of_days[day] for day in days]
        statistics = {
            "statistics": np.asarray(self.statistics, np.float64),
            "days": np.array([day.toordinal() for day in days], np.int64),
            "replaced": np.array([len(one.places) for one in of_days], np.int64),
            "places": np.concatenate([*(one.places for one in of_days), np.zeros(0, np.int64)]),
            "values": np.concatenate([*(one.values for one in of_days), np.zeros(0)]),
        }
        return bytes(
            save(
                {
                    "mean": np.asarray(self.mean, np.float64),
                    "std": np.asarray(self.std, np.float64),
                    "vocabulary": np.concatenate([*self.vocabulary, np.zeros(0, np.int64)]),
                    "sizes": np.array([len(ids) for ids in self.vocabulary], np.int64),
                    "edges": np.concatenate([*self.edges, np.zeros(0)]),
                    "bins": np.array([len(ends) for ends in self.edges], np.int64),
                    "label": np.array([self.label_mean, self.label_std], np.float64),
                    **(statistics if len(self.statistics) else {}),
                }
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "FittedState":
        """What `to_bytes` was called on."""
        held = load(data)
        statistics: dict[str, Any] = {}
        if "statistics" in held:
            places, values = (_cut(held[name], held["replaced"]) for name in ("places", "values"))
            days = [date.fromordinal(day) for day in held["days"].tolist()]
            of_days = {day: Replaced(*one) for day, *one in zip(days, places, values, strict=True)}
            statistics = {"statistics": held["statistics"], "of_days": of_days}
        return cls(
            mean=held["mean"],
            std=held["std"],
            vocabulary=_cut(held["vocabulary"], held["sizes"]),
            edges=_cut(held["edges"], held["bins"]),
            label_mean=float(held["label"][0]),
            label_std=float(held["label"][1]),
            **statistics,
        )


def _cut(joined: NDArray[_Number], sizes: NDArray[np.int64]) -> tuple[NDArray[_Number], ...]:
    ends = np.cumsum(sizes)
    return tuple(joined[end - size : end] for end, size in zip(ends, sizes, strict=True))
