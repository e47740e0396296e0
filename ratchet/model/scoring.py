"""A trained model that scores raw rows: the one piece of code by which evaluation and serving score.

A folder with `weights.safetensors`, `description.json` and `code/`, the pipeline's own files. Nothing is unpickled.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.made_columns import MadeColumn
from ratchet.model.derivation import load_derive
from ratchet.model.description import CODE, DESCRIPTION, WEIGHTS, Description, from_json
from ratchet.model.encoding import category_ids, encode
from ratchet.model.hashing import MISSING, Ids, probe
from ratchet.model.kinds import make_model
from ratchet.model.made_columns import MadeDerive
from ratchet.model.networks import Predictor, finish, load_weights
from ratchet.model.products import make_exact
from ratchet.model.saving import code_digest, digest_of_model

_BLOCK = 256
"""Rows that go through a function of a library at once, always as many, a multiple of its vectors: it treats the values
that are left over in another way. The layers of our own networks need no such care; see ratchet.model.products."""
_BLOCK_OF_BEFORE = 65_536
_ROWS_OF_GROUPS = 4_096
"""Rows of whole groups whose layers are computed at once, about."""


class ScoringModel:
    """A model as it is served. `score` takes raw rows, as the source has them.

    A change here violates the promise of the project when the score of one of our own networks has other bits with
    other rows beside its row, in another place, or on more threads; or when a model of before scores otherwise than by
    the code that was registered with it. The pipeline's own module gets whole blocks, and may round the last bits by
    the place of a row.
    """

    def __init__(self, description: Description, network: Predictor, folder: Path, identity: str) -> None:
        self.description = description
        self.digest = identity
        self._network = network.eval()
        self._is_of_before = network.computes_in is torch.float32
        self._is_exact = not description.architecture.is_custom and not self._is_of_before
        self._group = description.group if network.reads_groups else None
        if self._is_exact:
            make_exact(network)
        self._made = MadeDerive(tuple(MadeColumn.model_validate(one) for one in description.made.values()))
        self._derive = load_derive(folder, cast("dict[str, ColumnType]", description.derived), self._made.made)

    def score(self, df: pd.DataFrame) -> NDArray[np.float64]:
        """Scores of raw rows, float64 [rows], [rows, classes] for multiclass; rows go through in blocks of one size.

        What a ranking sorts by, a probability (binary, multiclass), or a value (regression). Where the layers read
        groups, rows with the same value in the group column are one, wherever they are; a row without one is alone.
        Raises ConfigurationError if a column is missing, or derive fails.
        """
        if missing := [name for name in self.columns if name not in df.columns]:
            reads = ", ".join(self.columns)
            raise ConfigurationError(f"the rows have no column {missing[0]}", remedy=f"the model reads {reads}")
        numeric = self.description.numeric_of_rows
        kinds = {column.name: cast("ColumnType", column.type) for column in self.description.categorical}
        groups = None
        if self._group is not None:
            groups = category_ids(df[self._group.name], cast("ColumnType", self._group.type))
        vectors, lists = self.description.vectors, self.description.lists
        encoded = encode(self._derive(df), numeric=numeric, categorical=kinds, vectors=vectors, lists=lists)
        return self.score_arrays(*encoded, groups)

    def derive(self, df: pd.DataFrame) -> pd.DataFrame:
        """Raw rows with the columns that the pipeline's own code adds. Raises ConfigurationError with file and line."""
        return self._derive(df)

    def score_arrays(
        self, numeric: NDArray[np.floating], categorical: Ids, groups: Ids | None = None
    ) -> NDArray[np.float64]:
        """The same for rows that are encoded already: floats [rows, numbers], int64 [rows, ids].

        groups: the id of each row's group, where the layers read groups.
        """
        with torch.inference_mode():
            if self._group is None or groups is None:
                found = list(self._in_blocks(numeric, categorical))
                return np.concatenate(found) if found else self._nothing()
            order, sizes = _by_group(groups)
            parts = list(self._in_groups(numeric[order], categorical[order], sizes))
        scores = np.concatenate([self._nothing(), *parts])
        scores[order] = scores.copy()
        return scores

    def _nothing(self) -> NDArray[np.float64]:
        return np.empty((0,) if self.description.classes == 1 else (0, self.description.classes))

    def _in_blocks(self, numeric: NDArray[np.floating], categorical: Ids) -> Iterator[NDArray[np.float64]]:
        """Scores of rows, each from itself alone."""
        size = _BLOCK_OF_BEFORE if self._is_of_before else _BLOCK
        for begin in range(0, len(numeric), size):
            some = slice(begin, begin + size)
            rows = len(numeric[some])
            standard, places = self._prepared(numeric[some], categorical[some], rows if self._is_of_before else size)
            if self._is_exact:
                raw = _whole(self._network.scores(standard[:rows], places[:rows]))
            else:
                raw = self._network.scores(standard, places)
            yield finish(self._network, self.description.objective, raw).double().numpy()[:rows]

    def _in_groups(
        self, numeric: NDArray[np.floating], categorical: Ids, sizes: NDArray[np.int64]
    ) -> Iterator[NDArray[np.float64]]:
        """Scores of rows, whole groups together. sizes: of the groups, one after the other."""
        for rows, some in _together(sizes):
            blocks = [slice(begin, min(begin + _BLOCK, rows.stop)) for begin in range(rows.start, rows.stop, _BLOCK)]
            prepared = [self._prepared(numeric[block], categorical[block], _BLOCK) for block in blocks]
            count = rows.stop - rows.start
            standard, places = (torch.cat(tensors)[:count] for tensors in zip(*prepared, strict=True))
            for raw in torch.split(self._network.scores(standard, places, torch.from_numpy(some)), _BLOCK):
                final = finish(self._network, self.description.objective, _whole(raw))
                yield final.double().numpy()[: len(raw)]

    def _prepared(
        self, numeric: NDArray[np.floating], categorical: Ids, size: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Some rows as a whole block, standardised and looked up."""
        preprocess = self._network.preprocess
        places = preprocess.places(_block(categorical, size))
        return preprocess.standardise(preprocess.with_statistics(_block(numeric, size), places)), places

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of raw rows that the model itself reads, or makes others from; derive may read more."""
        features = (
            *self.description.numeric_of_rows,
            *(column.name for column in self.description.categorical),
            *(column.name for column in self.description.vectors),
            *(name for column in self.description.lists for name in (column.name, column.weights) if name),
            *([self._group.name] if self._group else []),
            *self._made.inputs,
        )
        return tuple(dict.fromkeys(name for name in features if name not in self.description.derived))


def _by_group(groups: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(the rows by group, in their order inside one; the rows of each). A row without a group is one of its own."""
    order = np.argsort(groups, kind="stable")
    ids = groups[order]
    starts = np.flatnonzero((np.diff(ids, prepend=MISSING) != 0) | (ids == MISSING))
    return order, np.diff(starts, append=len(ids))


def _together(sizes: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """(rows, sizes) of groups that are computed at once."""
    ends = np.cumsum(sizes)
    parts = np.unique(ends // _ROWS_OF_GROUPS, return_index=True)[1]
    for first, last in zip(parts, np.append(parts, len(sizes))[1:], strict=True):
        yield slice(int(ends[first] - sizes[first]), int(ends[last - 1])), sizes[first:last]


def _whole(raw: torch.Tensor) -> torch.Tensor:
    """Raw outputs as a whole block: those of the rows beside them are zeros."""
    whole = raw.new_zeros((_BLOCK, *raw.shape[1:]), dtype=torch.float32)
    whole[: len(raw)] = raw
    return whole


def _block(rows: NDArray[np.generic], size: int) -> torch.Tensor:
    """Some rows as a whole block: the rows beside them are zeros."""
    block = np.zeros((size, rows.shape[1]), rows.dtype)
    block[: len(rows)] = rows
    return torch.from_numpy(block)


def load(folder: Path) -> ScoringModel:
    """Load a model. Raises CorruptArtifact if its files are damaged, or do not belong together."""
    try:
        weights, text = (folder / WEIGHTS).read_bytes(), (folder / DESCRIPTION).read_bytes()
        description = from_json(text)
    except (FileNotFoundError, ValueError) as error:
        raise CorruptArtifact(f"{folder}: no model can be read: {error}", remedy="train again") from error
    if hashlib.sha256(weights).hexdigest() != description.weights:
        raise CorruptArtifact(
            f"{folder / WEIGHTS} is not what {DESCRIPTION} describes", remedy="restore both from the same training"
        )
    if description.ids != probe():
        raise CorruptArtifact(
            f"{folder}: the model knows categories by other ids than this version makes",
            remedy="score it with the version that trained it, or train again",
        )
    if description.code and description.code != code_digest(folder / CODE):
        raise CorruptArtifact(
            f"{folder / CODE} is not the code that the model was trained with", remedy="restore it, or train again"
        )
    network = make_model(description, folder / CODE)
    try:
        load_weights(network, load_tensors(weights))
    except (RuntimeError, SafetensorError) as error:
        raise CorruptArtifact(f"{folder / WEIGHTS}: {error}", remedy="restore it, or train again") from error
    return ScoringModel(description, network, folder / CODE, digest_of_model(weights, text))
