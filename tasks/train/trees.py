"""LightGBM's data and text, for a training that can be stopped and goes on to the bit.

What LightGBM needs of a training that was stopped are its trees, and their sums for each row: a leaf's value is written
with all its digits, and a row's sum is added up in the order of the trees in both cases.

A change here violates the promise of the project when the trees depend on the number of threads, or a training that
goes on ends with other trees than one that was not stopped.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from lightgbm import Booster, Dataset, Sequence, register_logger
from numpy.typing import NDArray

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.boosted import Boosted
from tasks.train.data import Rows
from tasks.train.losses import TRUNCATION
from tasks.train.tree_labels import gain, gains_of, mean_weight, weight_of_groups

_BLOCK_ROWS = 1 << 16
_SAMPLED_ROWS = 200_000
"""Rows that LightGBM makes its bins of, at most."""
_MOST_RANKED = 10_000
"""Rows of a group, in LightGBM's own code."""
_OBJECTIVES = {
    "binary": ("binary", "binary_logloss"),
    "multiclass": ("multiclass", "multi_logloss"),
    "regression": ("regression", "l2"),
    "ranking": ("lambdarank", "ndcg"),
}
"""LightGBM's names of the loss, and of what is measured of it."""
_NUMBER = re.compile(r"^Tree=\d+", re.MULTILINE)
_END = "end of trees"


class _Silent:
    """LightGBM prints what it warns of; what matters of it is checked before."""

    def info(self, _: str) -> None:
        """Print nothing."""

    def warning(self, _: str) -> None:
        """Print nothing."""


register_logger(_Silent())


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeText:
    """Trees as LightGBM writes them, without what says how they were made. trees: the block of each, in order."""

    header: str = ""
    trees: tuple[str, ...] = ()

    @classmethod
    def of(cls, booster: Booster) -> "TreeText":
        """The trees of a booster."""
        return cls.parse(booster.model_to_string(num_iteration=-1))

    @classmethod
    def parse(cls, text: str) -> "TreeText":
        """Read the text of a booster, or that of `to_bytes`."""
        header, *trees = text.partition(_END)[0].split("\n\nTree=")
        lines = (line for line in header.splitlines() if not line.startswith("tree_sizes="))
        return cls(header="\n".join(lines), trees=tuple(f"Tree={tree.rstrip()}" for tree in trees))

    def __add__(self, later: "TreeText") -> "TreeText":
        """These trees, and then those."""
        return replace(self, trees=(*self.trees, *later.trees)) if self.trees else later

    def first(self, count: int) -> "TreeText":
        """The first of them."""
        return replace(self, trees=self.trees[:count])

    def to_bytes(self) -> bytes:
        """As LightGBM reads it; the same bytes for the same trees."""
        blocks = [_NUMBER.sub(f"Tree={place}", tree) + "\n\n\n" for place, tree in enumerate(self.trees)]
        sizes = " ".join(str(len(block)) for block in blocks)
        return f"{self.header}\ntree_sizes={sizes}\n\n{''.join(blocks)}{_END}\n".encode()

    def sums(self, name: str) -> list[float]:
        """For each tree the sum of the numbers in its line `name`, such as split_gain; 0 without one."""
        found = (re.search(rf"^{name}=(.*)$", tree, re.MULTILINE) for tree in self.trees)
        return [sum(map(float, one[1].split())) if one else 0.0 for one in found]


class _Inputs(Sequence):
    """Rows as the trees read them, block by block: LightGBM keeps their bins alone."""

    batch_size = _BLOCK_ROWS

    def __init__(self, model: Boosted, rows: Rows, alive: Callable[[], None]) -> None:
        self._model, self._rows, self._table, self._alive = model, rows, rows.packed(), alive
        self._sampled: dict[int, NDArray[np.float64]] = {}

    def sample(self, rows: NDArray[np.int64]) -> None:
        """Read rows at once that LightGBM asks for one by one, each of which is a gather of its own."""
        for begin in range(0, len(rows), _BLOCK_ROWS):
            block = rows[begin : begin + _BLOCK_ROWS]
            self._sampled.update(zip(block.tolist(), self._gather(block, block + 1), strict=True))

    def __getitem__(self, place: int | slice | list[int]) -> NDArray[np.float64]:
        """Some rows, or one."""
        if isinstance(place, slice):
            return self._gather(np.array([place.start]), np.array([min(place.stop, len(self))]))
        if not isinstance(place, list) and place in self._sampled:
            return self._sampled.pop(place)
        begins = np.atleast_1d(np.asarray(place, np.int64))
        found = self._gather(begins, begins + 1)
        return found if isinstance(place, list) else found[0]

    def __len__(self) -> int:
        """Rows."""
        return len(self._rows)

    def _gather(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.float64]:
        self._alive()
        columns = self._table.layout.columns(self._table.gather(begins, ends))
        return self._model.inputs(columns.numeric, columns.places)


class _Data(Dataset):
    """LightGBM's data, with the rows that bins are made of read at once."""

    def _create_sample_indices(self, *, total_nrow: int) -> NDArray[np.int32]:
        found: NDArray[np.int32] = super()._create_sample_indices(total_nrow=total_nrow)
        if isinstance(self.data, _Inputs):
            self.data.sample(found.astype(np.int64))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSettings:
    """What LightGBM is asked for. objective: as train.objective. classes: outputs. rate: of a tree, what is added.

    unmeasured: rounds where no metric says how many are best.
    """

    objective: str
    classes: int
    leaves: int
    rate: float
    min_rows: int
    unmeasured: int
    seed: int
    threads: int


class Grower:
    """Makes LightGBM's data and boosters of a model's rows. rows: all of the training, whose labels it gets to know.

    Raises ConfigurationError for a group of more rows than LightGBM ranks.
    """

    def __init__(self, model: Boosted, settings: TreeSettings, rows: Rows) -> None:
        self._model, self._settings = model, settings
        self._gains = gains_of(rows) if settings.objective == "ranking" else None
        self._mean_weight = mean_weight(self._raw_weight(rows))
        largest = 0 if rows.sizes is None or self._gains is None else int(rows.sizes.max())
        if largest > _MOST_RANKED:
            raise ConfigurationError(
                f"a group has {largest:,} rows, and lightgbm ranks {_MOST_RANKED:,} at most",
                remedy="take another kind, such as dcn, or a column of role group with smaller groups",
            )

    def begin(
        self, rows: Rows, valid: Rows | None, begun: TreeText, alive: Callable[[], None] = lambda: None
    ) -> Booster:
        """A booster that goes on from some trees, of its own rows; none for a fresh one. It holds the later trees.

        alive: called before each block of rows that is read.
        """
        data = self._dataset(_Inputs(self._model, rows, alive), rows, begun, None)
        booster = Booster(self._parameters(), data)
        if valid is None:
            return booster
        return booster.add_valid(self._dataset(_Inputs(self._model, valid, alive), valid, begun, data), "valid")

    def _dataset(self, inputs: _Inputs, rows: Rows, begun: TreeText, reference: Dataset | None) -> Dataset:
        numeric, categorical = rows.numeric.shape[1], rows.places.shape[1]
        label, weight = self._labels(rows)
        made = _Data(
            inputs,
            label=label,
            weight=weight,
            group=None if self._gains is None or rows.sizes is None else rows.sizes.numpy(),
            init_score=self._sums(inputs, begun) if begun.trees else None,
            categorical_feature=list(range(numeric, numeric + categorical)),
            params=self._parameters(),
            reference=reference,
        )
        return made.construct()

    def _sums(self, inputs: _Inputs, begun: TreeText) -> NDArray[np.float64]:
        """The raw outputs of some trees, one class after the other."""
        booster = Booster(model_str=begun.to_bytes().decode())
        parts = [
            booster.predict(inputs[begin : begin + _BLOCK_ROWS], raw_score=True, num_threads=self._settings.threads)
            for begin in range(0, len(inputs), _BLOCK_ROWS)
        ]
        return np.concatenate([np.asarray(part, np.float64) for part in parts]).ravel(order="F")

    def _labels(self, rows: Rows) -> tuple[NDArray[np.generic], NDArray[np.float32] | None]:
        """Labels and weights as LightGBM takes them.

        Of a ranking the label is the number of the row's gain, and the weight of a row is that of its group, both as in
        losses.lambda_ndcg. Weights are multiples of the mean of all rows: LightGBM's least sum of a leaf is absolute.
        """
        raw = self._raw_weight(rows)
        weight = None if raw is None else np.nan_to_num(raw / self._mean_weight, nan=1.0).astype(np.float32)
        if self._gains is not None:
            known = self._gains
            return np.searchsorted((known[1:] + known[:-1]) / 2, gain(rows)).astype(np.float32), weight
        if self._settings.objective == "regression":
            label = (rows.label.double() - self._model.label_mean) / self._model.label_scale
            return label.float().numpy(), weight
        return np.ascontiguousarray(rows.label.numpy()), weight

    def _raw_weight(self, rows: Rows) -> NDArray[np.float64] | None:
        """As in the rows, or that of the group; NaN in a group without a positive label."""
        if rows.weight is None:
            return None
        weight: NDArray[np.float64] = rows.weight.double().numpy()
        return weight if self._gains is None else weight_of_groups(rows, weight)

    def _parameters(self) -> dict[str, object]:
        """The rest is as LightGBM has it."""
        asked = self._settings
        objective, metric = _OBJECTIVES[asked.objective]
        found: dict[str, object] = {
            "objective": objective,
            "metric": metric,
            "num_leaves": asked.leaves,
            "learning_rate": asked.rate,
            "min_data_in_leaf": asked.min_rows,
            "seed": asked.seed,
            "num_threads": asked.threads,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
        if asked.objective == "multiclass":
            found["num_class"] = asked.classes
        if self._gains is not None:
            found["label_gain"] = ",".join(map(str, self._gains.tolist()))
            found["eval_at"] = TRUNCATION
        return found


def loss_of(measured: Iterable[tuple[Any, ...]]) -> float:
    """The loss of what a booster measured of itself, the loss first: lower is better."""
    _, _, value, higher_is_better, *_ = next(iter(measured))
    return float(1 - value if higher_is_better else value)


def needed_bytes(model: Boosted, settings: TreeSettings, rows: int) -> int:
    """Memory that LightGBM takes for rows beside the rows themselves, about.

    A byte for the bin of a number, four for that of a category; of each row label, weight and place, and for each class
    its sum and two gradients; of each leaf the histograms of all bins; and what is there for a while: three copies of
    the rows that bins are made of, or of a block.
    """
    numeric, categories = len(model.preprocess.mean), model.preprocess.sizes
    of_row = numeric + 4 * len(categories) + 16 + 16 * settings.classes
    bins = 255 * numeric + sum(categories) + len(categories)
    copies = 3 * 8 * (numeric + len(categories)) * (min(rows, _SAMPLED_ROWS) + min(rows, _BLOCK_ROWS))
    return rows * of_row + settings.leaves * bins * 16 + copies
