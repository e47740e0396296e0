"""A file whose rules leave nothing to learn from is refused before a day is read."""

import json

import pytest
import yaml

from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.loading import loads
from ratchet.contracts.pipeline import PipelineSpec


def document(objective: str, label: dict[str, object], **columns: dict[str, object]) -> str:
    return yaml.safe_dump(
        {
            "name": "small",
            "source": {"kind": "files", "uri": "/data/{date}.csv"},
            "columns": {
                "q": {"role": "group", "type": "int64"},
                "x": {"role": "numeric", "type": "float64"},
                "y": {"role": "label", "type": "int64", **label},
                **columns,
            },
            "train": {"objective": objective},
        },
        sort_keys=False,
    )


WRONG = [
    ("binary", {"in": [1, 2]}, "y.in: a binary label is never 2; allowed: 0, 1"),
    ("binary", {"in": [1]}, "y.in: every label would be the same; allowed: 0 and 1"),
    ("binary", {"type": "bool", "in": [False]}, "y.in: every label would be the same; allowed: 0 and 1"),
    ("binary", {"max": 0}, "y.max: every label would be the same"),
    ("binary", {"min": 1}, "y.min: every label would be the same"),
    ("binary", {"in": [0, 1], "min": 1}, "y.in: every label would be the same"),
    ("ranking", {"in": [-1, 0, 1]}, "y.in: a ranking label is never -1; allowed: relevance from 0 up"),
    ("ranking", {"in": [0]}, "y.in: no label could be positive"),
    ("ranking", {"type": "float64", "max": 0}, "y.max: no label could be positive"),
    ("multiclass", {"in": [0]}, "y.in: every label would be the same; allowed: two classes or more"),
    ("regression", {"type": "float64", "in": [5.5]}, "y.in: every label would be the same; allowed: two labels"),
    ("regression", {"min": 3, "max": 3}, "y.max: every label would be the same"),
]


@pytest.mark.parametrize(("objective", "label", "said"), WRONG)
def test_labels_that_cannot_differ_are_refused(objective: str, label: dict[str, object], said: str) -> None:
    with pytest.raises(PipelineInvalid) as raised:
        loads(document(objective, label))
    assert f"columns.{said}" in str(raised.value)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"role": "weight", "type": "float64", "max": 0}, "columns.z.max: every weight would be 0"),
        ({"role": "weight", "type": "float64", "in": [0]}, "columns.z.in: every weight would be 0"),
        ({"role": "weight", "type": "float64", "in": [-0.5, 1]}, "columns.z.in: a weight is never -0.5"),
        (
            {"role": "numeric", "type": "int64", "min": 0.2, "max": 0.8},
            "columns.z: no whole number lies between min 0.2 and max 0.8",
        ),
    ],
)
def test_columns_without_a_value_that_counts_are_refused(column: dict[str, object], said: str) -> None:
    with pytest.raises(PipelineInvalid) as raised:
        loads(document("binary", {}, z=column))
    assert said in str(raised.value)


FINE = [
    ("binary", {}), ("binary", {"in": [0, 1]}), ("binary", {"min": 0, "max": 1}), ("binary", {"type": "bool"}),
    ("binary", {"type": "bool", "in": [True, False]}), ("ranking", {"in": [0, 1, 2, 3, 4]}), ("ranking", {"min": 0}),
    ("ranking", {"type": "bool", "in": [True]}), ("ranking", {"type": "float64", "max": 0.5}),
    ("multiclass", {"in": [0, 1]}), ("regression", {"type": "float64", "max": -3}), ("regression", {"in": [1, 5]}),
]  # fmt: skip


@pytest.mark.parametrize(("objective", "label"), FINE)
def test_labels_that_differ_are_fine(objective: str, label: dict[str, object]) -> None:
    weights: list[dict[str, object]] = [{}, {"max": 1}, {"min": 0, "max": 0.1}, {"in": [0, 2]}, {"min": -1}]
    for rules in weights:
        assert loads(document(objective, label, z={"role": "weight", "type": "float64", **rules}))


def test_a_stored_document_with_such_rules_still_reads() -> None:
    stored = loads(document("binary", {"in": [0, 1]})).model_dump(mode="json", by_alias=True)
    stored["columns"]["y"]["in"] = [1, 2]
    assert PipelineSpec.model_validate_json(json.dumps(stored)).columns["y"].allowed == (1, 2)
