"""What a model is, apart from its weights: enough to build it again and to give it raw rows.

Plain dataclasses and JSON, so that a GPU machine needs nothing but torch, numpy and safetensors.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from ratchet.contracts.kinds import BOOSTED

FORMAT = 1
WEIGHTS, DESCRIPTION, CODE = "weights.safetensors", "description.json", "code"
"""What a model's folder holds: two files, and a folder with the pipeline's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericColumn:
    """A number that the model reads. transform: log1p, or None. of: the category that it is a statistic of, or None."""

    name: str
    transform: str | None
    of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoricalColumn:
    """A category that the model reads.

    type: as declared. vocabulary: how many values it knows. dimension: the length of its vectors.
    """

    name: str
    type: str
    vocabulary: int
    dimension: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorColumn:
    """Numbers that the model reads together. dimension: how many."""

    name: str
    dimension: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListColumn:
    """Several categories in a row that the model reads.

    type: of a value. length: the values that it reads, at most. keep: the end of a longer list that it reads, first or
    last. pool: mean or sum. weights: the column of their weights, or None. share: the column whose vectors they have,
    or None. vocabulary, dimension: as of a category; those of the shared column.
    """

    name: str
    type: str
    length: int
    keep: str
    pool: str
    weights: str | None = None
    share: str | None = None
    vocabulary: int = 0
    dimension: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupColumn:
    """The column whose rows are scored together. type: as declared."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The layers.

    kind: linear, mlp, dcn, set, tabm, lightgbm, or `model.py:Class`. bins: of a number, at most; number_dim: the length
    of the vector that its bins are mapped to; both 0 without such vectors. masked: the share of known categories that
    count as unknown in a step of training. skip: whether a linear layer beside the others adds to their output.
    members: of tabm.
    """

    kind: str
    hidden: tuple[int, ...]
    cross_layers: int
    dropout: float
    bins: int = 0
    number_dim: int = 0
    masked: float = 0.0
    skip: bool = False
    members: int = 1

    @property
    def is_custom(self) -> bool:
        """Whether the layers are a module of the pipeline's own."""
        return ":" in self.kind

    @property
    def is_boosted(self) -> bool:
        """Whether it has trees, and no layers."""
        return self.kind == BOOSTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A model.

    numeric: those that rows have, then statistics of categories. lists: those that share vectors last. derived: type of
    each column that rows do not have. made: how those of them are made that need no features.py, see made_columns.py;
    features.py makes the others. classes: outputs, 1 but for multiclass. group: that of the pipeline, where its
    layers may ask for it; of a model that is saved, where they do. ids: the probe of the hashing that it was trained
    with. code: digest of the pipeline folder that it was trained with, if it is kept beside it. weights: sha256 of the
    weights that belong to it, once known.
    """

    objective: str
    numeric: tuple[NumericColumn, ...]
    categorical: tuple[CategoricalColumn, ...]
    derived: dict[str, str]
    architecture: Architecture
    vectors: tuple[VectorColumn, ...] = ()
    lists: tuple[ListColumn, ...] = ()
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    classes: int = 1
    group: GroupColumn | None = None
    ids: str = ""
    code: str = ""
    weights: str = ""
    format: int = FORMAT

    @property
    def numeric_of_rows(self) -> tuple[str, ...]:
        """The numeric columns that rows have."""
        return tuple(column.name for column in self.numeric if column.of is None)


def to_json(description: Description) -> bytes:
    """The description as JSON, the same bytes for the same description. What it lacks is not named, as before."""
    found = asdict(description)
    kept = {key: value for key, value in found.items() if value or key not in ("vectors", "lists", "made")}
    return json.dumps(kept, sort_keys=True, indent=1).encode()


def from_json(data: bytes) -> Description:
    """Read a description. Raises ValueError for anything else, and for another format.

    In a model of before, the vectors of all columns have one length.
    """
    try:
        found = json.loads(data)
        if found.pop("format") != FORMAT:
            raise ValueError(f"not format {FORMAT}")
        architecture = found.pop("architecture")
        group = found.pop("group", None)
        of_all = {"dimension": architecture.pop("embedding_dim")} if "embedding_dim" in architecture else {}
        return Description(
            **{
                **found,
                "numeric": tuple(NumericColumn(**column) for column in found["numeric"]),
                "categorical": tuple(CategoricalColumn(**{**of_all, **column}) for column in found["categorical"]),
                "vectors": tuple(VectorColumn(**column) for column in found.get("vectors", ())),
                "lists": tuple(ListColumn(**column) for column in found.get("lists", ())),
                "group": GroupColumn(**group) if group else None,
                "architecture": Architecture(**{**architecture, "hidden": tuple(architecture["hidden"])}),
            }
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a model description: {error!r}") from error


def needs_groups(data: bytes) -> bool:
    """Whether a score may depend on the rows of its group: the layers read them, or a made column is of a group."""
    made = json.loads(data).get("made", {})
    return group_of(data) is not None or any(one.get("group") for one in made.values())


def group_of(data: bytes) -> GroupColumn | None:
    """The group column whose rows a model reads together, of a description of any format; None if it reads none."""
    found = json.loads(data).get("group")
    return GroupColumn(**found) if found else None
