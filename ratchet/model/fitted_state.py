"""What is learnt from the training days before training: where numbers lie, and which categories there are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

Doubles = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedState:
    """mean, std: float64 [numeric columns], of the values after their transform; std is above 0.

    vocabulary: for each categorical column the ids that occurred often enough, int64, ascending. label_mean, label_std:
    of the labels.
    """

    mean: Doubles
    std: Doubles
    vocabulary: tuple[NDArray[np.int64], ...]
    label_mean: float = 0.0
    label_std: float = 1.0

    def to_bytes(self) -> bytes:
        """As safetensors, the same bytes for the same values."""
        sizes = [len(ids) for ids in self.vocabulary]
        return bytes(
            save(
                {
                    "mean": np.asarray(self.mean, np.float64),
                    "std": np.asarray(self.std, np.float64),
                    "vocabulary": np.concatenate([*self.vocabulary, np.zeros(0, np.int64)]),
                    "sizes": np.array(sizes, np.int64),
                    "label": np.array([self.label_mean, self.label_std], np.float64),
                }
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "FittedState":
        """What `to_bytes` was called on."""
        held = load(data)
        ends = np.cumsum(held["sizes"])
        return cls(
            mean=held["mean"],
            std=held["std"],
            vocabulary=tuple(
                held["vocabulary"][end - size : end] for end, size in zip(ends, held["sizes"], strict=True)
            ),
            label_mean=float(held["label"][0]),
            label_std=float(held["label"][1]),
        )
