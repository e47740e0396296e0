"""List and vector columns of a pipeline file: what is refused, in one line with what to do."""

import pytest
import yaml

from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.loading import loads
from ratchet.contracts.widths import widths

COLUMNS: dict[str, dict[str, object]] = {
    "item": {"role": "categorical", "type": "int64"},
    "history": {"role": "categorical", "type": "list<int64>", "max_length": 20, "share": "item"},
    "tags": {"role": "categorical", "type": "list<string>", "max_length": 10, "keep": "first", "weights": "shares"},
    "shares": {"role": "list_weight", "type": "list<float64>"},
    "text": {"role": "numeric", "type": "list<float64>", "dimension": 64},
    "y": {"role": "label", "type": "int64"},
}


def document(changes: dict[str, dict[str, object]], evaluate: dict[str, object] | None = None) -> str:
    columns = {**{name: {**COLUMNS.get(name, {}), **column} for name, column in {**COLUMNS, **changes}.items()}}
    columns = {
        name: {key: value for key, value in column.items() if value is not None} for name, column in columns.items()
    }
    found = {
        "name": "small",
        "source": {"kind": "files", "uri": "/data/{date}.csv"},
        "columns": columns,
        "train": {"objective": "binary"},
        "evaluate": evaluate or {},
    }
    return yaml.safe_dump(found, sort_keys=False)


def test_lists_and_vectors_are_columns() -> None:
    spec = loads(document({}))
    assert [name for name, column in spec.columns.items() if column.is_list] == ["history", "tags"]
    assert [name for name, column in spec.columns.items() if column.is_vector] == ["text"]
    assert [spec.columns[name].width for name in ("item", "history", "text")] == [1, 20, 64]
    assert [name for name, column in spec.columns.items() if column.is_read] == [
        "item", "history", "tags", "shares", "text",
    ]  # fmt: skip


WRONG: dict[str, tuple[dict[str, dict[str, object]], str]] = {
    "no length": ({"tags": {"max_length": None}}, "columns.tags: a list needs its max_length, as in `max_length: 20`"),
    "too long": ({"tags": {"max_length": 1001}}, "columns.tags.max_length: "),
    "no dimension": ({"text": {"dimension": None}}, "columns.text: a vector needs its dimension, as in"),
    "dimension of a list": ({"tags": {"dimension": 3}}, "columns.tags: dimension is of a vector; it needs role numeric"),
    "length of a value": ({"item": {"max_length": 3}}, "columns.item: max_length is of a list; write `type: list<int64>`"),
    "pool of a vector": ({"text": {"pool": "sum"}}, "columns.text: pool is of a list; it needs role categorical"),
    "list of an id": ({"id": {"role": "id", "type": "list<int64>"}}, "columns.id: a id column cannot be list<int64>"),
    "numbers in a list": ({"tags": {"type": "list<float64>"}}, "columns.tags: a categorical column cannot be list<float64>"),
    "derived": ({"text": {"derived": True}}, "columns.text: a derived column has one value in a row, no list"),
    "transformed": ({"text": {"transform": "log1p"}}, "columns.text: transform is of a number, not of a vector"),
    "bounded": ({"text": {"min": 0}}, "columns.text: min and max need a number, not list<float64>"),
    "allowed": ({"tags": {"in": ["a", 1]}}, "columns.tags: in: 1 is not a list<string>"),
    "weights of nothing": ({"tags": {"weights": None}}, "columns.shares.role: no list has these weights"),
    "unknown weights": ({"tags": {"weights": "share"}}, "columns.tags.weights: share is no column of role list_weight; allowed: shares; did you mean shares?"),
    "weights twice": ({"history": {"weights": "shares"}}, "columns.tags.weights: shares has the weights of history; a list has a column of its own"),
    "shared with itself": ({"tags": {"share": "tags"}}, "columns.tags.share: tags is no categorical column of string with vectors of its own"),
    "shared with another type": ({"tags": {"share": "item"}}, "columns.tags.share: item is no categorical column of string"),
    "statistics": ({"item": {"statistics": ["count"]}}, "columns.item.statistics: statistics do not go together with lists and vectors, such as history"),
    "shared twice": ({"seen": {"role": "categorical", "type": "list<int64>", "max_length": 2, "share": "history"}}, "columns.seen.share: history is no categorical column of int64 with vectors of its own; allowed: item"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), WRONG.values(), ids=WRONG)
def test_a_list_that_cannot_be_is_refused_in_one_line(changes: dict[str, dict[str, object]], said: str) -> None:
    with pytest.raises(PipelineInvalid) as caught:
        loads(document(changes))
    assert any(said in line for line in str(caught.value).splitlines()), caught.value


def test_a_list_is_no_cluster_and_a_slice_asks_only_whether_it_is_missing() -> None:
    loads(document({}, {"slices": [{"where": "history is missing"}]}))
    with pytest.raises(PipelineInvalid, match="tags holds several values in a row"):
        loads(document({}, {"cluster": "tags"}))
    with pytest.raises(PipelineInvalid, match="tags is a list<string>, which can only be asked for `is missing`"):
        loads(document({}, {"slices": [{"where": 'tags == "a"'}]}))
    with pytest.raises(PipelineInvalid, match="makes no slice"):
        loads(document({}, {"slices": ["tags"]}))


def test_a_list_with_an_unknown_key_is_reported_beside_the_others() -> None:
    with pytest.raises(PipelineInvalid) as caught:
        loads(document({"tags": {"rol": 1}, "text": {"dimension": None}}))
    assert "columns.tags.rol: unknown key" in str(caught.value)
    assert "columns.text: a vector needs its dimension" in str(caught.value)


def test_an_estimate_of_memory_counts_the_values_of_lists_and_vectors() -> None:
    assert widths(loads(document({})).columns) == {
        "item": 1, "history": 20, "tags": 10, "shares": 10, "text": 64, "y": 1,
    }  # fmt: skip


def test_boosted_trees_read_no_lists() -> None:
    text = document({}).replace("objective: binary", "objective: binary\n  model: {kind: lightgbm}")
    with pytest.raises(
        PipelineInvalid, match="lightgbm reads no lists and vectors, such as history; to do: take another"
    ):
        loads(text)
