"""Boosted trees as a model: the preprocessing of a network, then LightGBM's trees in place of layers.

The trees are LightGBM's own text, as bytes in a buffer, so they are saved, loaded and checked like weights. Nothing is
unpickled. To have them in LightGBM: `lightgbm.Booster(model_str=...)` of the tensor `body.trees`, as UTF-8.

A change here violates the promise of the project when the score of a row has other bits with other rows beside its row,
or on more threads; or when training gives the trees other inputs than scoring does.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ratchet.model.description import Description
from ratchet.model.networks import Predictor

if TYPE_CHECKING:
    from lightgbm import Booster


class Trees(nn.Module):
    """LightGBM's trees. Buffer: trees, uint8, the bytes of their text; empty before training."""

    trees: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self._classes = classes
        self._booster: Booster | None = None
        self.register_buffer("trees", torch.zeros(0, dtype=torch.uint8))
        self.register_load_state_dict_pre_hook(_make_room)  # type: ignore[no-untyped-call]  # torch has no types here
        self.register_load_state_dict_post_hook(_read)  # type: ignore[no-untyped-call]  # the same

    def fit(self, text: bytes) -> None:
        """Take other trees."""
        self.trees = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self.read()

    def read(self) -> None:
        """Let LightGBM read the text. Raises its error for another text."""
        # Late: no other kind needs it, and it takes a second. torch is loaded before it and brings the OpenMP library
        # that LightGBM needs, which a slim image does not have.
        from lightgbm import Booster

        self._booster = Booster(model_str=self.trees.numpy().tobytes().decode())

    @property
    def leaves(self) -> int:
        """The leaves of all trees."""
        lines = self.trees.numpy().tobytes().decode().splitlines()
        return sum(int(line.partition("=")[2]) for line in lines if line.startswith("num_leaves="))

    def forward(self, inputs: NDArray[np.float64]) -> Tensor:
        """Sums of leaves, float64 [rows], [rows, classes] for multiclass; each row from itself alone."""
        if self._booster is None:
            raise ValueError("the trees are not trained")
        if not len(inputs):
            return torch.zeros((0,) if self._classes == 1 else (0, self._classes), dtype=torch.float64)
        return torch.from_numpy(np.asarray(self._booster.predict(inputs, raw_score=True, num_threads=1)))


class Boosted(Predictor):
    """Trees after the preprocessing."""

    body: Trees

    def __init__(self, description: Description) -> None:
        super().__init__(description)
        self.body = Trees(description.classes)

    def inputs(self, standard: Tensor, places: Tensor) -> NDArray[np.float64]:
        """What the trees read, float64 [rows, numeric and then categorical].

        Numbers are float32 around a value in the middle of their column, see building.fit: two of them are one to the
        trees where they differ by less than a ten millionth of their distance from it. A category is its place in its
        column, from 1. What is missing is NaN, and so is a category that the column does not know.
        """
        own = (places - torch.tensor(self.preprocess.unknown(), dtype=places.dtype)).double()
        own = own.masked_fill(own == 0, torch.nan)
        return torch.cat([standard.double(), own], dim=1).numpy()

    def scores(self, standard: Tensor, places: Tensor, sizes: Tensor | None = None) -> Tensor:
        """See Predictor. sizes: not needed, as each row is scored by itself."""
        del sizes
        raw: Tensor = self.body(self.inputs(standard, places))
        return raw


def _make_room(trees: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """The text has any length."""
    if f"{prefix}trees" in state and isinstance(trees, Trees):
        trees.trees = torch.empty_like(state[f"{prefix}trees"])


def _read(trees: nn.Module, _: object) -> None:
    if isinstance(trees, Trees):
        trees.read()
