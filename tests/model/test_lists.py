"""Lists and vectors in a model: their arrays, what their values become, and that a row's score is its own."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from ratchet.contracts.errors import DataRejected
from ratchet.model.description import (
    Architecture,
    CategoricalColumn,
    Description,
    ListColumn,
    NumericColumn,
    VectorColumn,
    from_json,
    to_json,
)
from ratchet.model.encoding import category_ids, encode
from ratchet.model.hashing import MISSING, PADDING
from ratchet.model.lists import NOTHING
from ratchet.model.networks import Network
from ratchet.model.scoring import ScoringModel
from tasks.train.optimizer import Optimizers

TEXT = VectorColumn(name="text", dimension=3)
TAGS = ListColumn(
    name="tags", type="string", length=3, keep="first", pool="mean", weights="shares", vocabulary=3, dimension=4
)
SEEN = ListColumn(name="seen", type="int64", length=2, keep="last", pool="sum", share="item", vocabulary=5, dimension=4)
DESCRIBED = Description(
    objective="binary",
    numeric=(NumericColumn(name="price", transform=None),),
    categorical=(CategoricalColumn(name="item", type="int64", vocabulary=5, dimension=4),),
    vectors=(TEXT,),
    lists=(TAGS, SEEN),
    derived={},
    architecture=Architecture(kind="dcn", hidden=(8,), cross_layers=1, dropout=0.0, bins=2, number_dim=2),
)
FRAME = pd.DataFrame(
    {
        "price": [1.0, 2.0, np.nan, 0.5],
        "item": [1, 2, 3, 4],
        "text": [[1.0, 2.0, 3.0], np.array([0.1, 0.2, 0.3]), None, (1, np.inf, 3)],
        "tags": [["a", "b", "c", "d"], [], None, np.array(["b"], object)],
        "shares": [[0.5, 1.5, 0.0, 9.0], None, None, [2.0]],
        "seen": [[1, 2, 3], None, np.array([], np.int64), np.array([4])],
    }
)


def ids(values: list[object], kind: str) -> list[int]:
    return category_ids(pd.Series(values), "string" if kind == "string" else "int64").tolist()


def encoded(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    return encode(frame, numeric=("price",), categorical={"item": "int64"}, vectors=(TEXT,), lists=(TAGS, SEEN))


def network() -> Network:
    torch.manual_seed(0)
    made = Network(DESCRIBED)
    known = [sorted(ids([1, 2, 3, 4, 5], "int64")), sorted(ids(["a", "b", "c"], "string"))]
    made.preprocess.vocabulary.copy_(torch.tensor([*known[0], *known[1]]))
    return made


def test_lists_have_a_fixed_width_and_an_empty_one_is_not_a_missing_one() -> None:
    numbers, found = encoded(FRAME)
    nan = np.nan
    assert np.array_equal(
        numbers[:, 1:4], np.float32([[1, 2, 3], [0.1, 0.2, 0.3], [nan] * 3, [nan] * 3]), equal_nan=True
    )
    assert numbers[:, 4:].tolist() == [[0.5, 1.5, 0.0], [0.0] * 3, [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    a, b, c = ids(["a", "b", "c"], "string")
    assert found[:, 1:4].tolist() == [[a, b, c], [PADDING] * 3, [MISSING, PADDING, PADDING], [b, PADDING, PADDING]]
    two, three, four = ids([2, 3, 4], "int64")
    assert found[:, 4:].tolist() == [[two, three], [MISSING, PADDING], [PADDING] * 2, [four, PADDING]]


WRONG = {
    "another length": ({"text": [[1.0, 2.0]]}, "column text: 1 rows have a vector of another length, such as 2; declared: 3"),
    "text in a vector": ({"text": [["a", "b", "c"]]}, "column text: holds something else where numbers is declared"),
    "no vector": ({"text": [1.0]}, "column text: holds something else where lists is declared"),
    "missing value": ({"tags": [["a", None]]}, "column tags: .* a list of string without missing values"),
    "number in a list": ({"tags": [["a", 1]]}, "column tags: holds .* where strings are declared"),
    "list in a list": ({"seen": [[[1]]]}, "column seen: .* a list of int64 without missing values"),
    "lists in one list alone": ({"seen": [[1, [1]]]}, "column seen: .* a list of int64 without missing values"),
    "object in a list": ({"tags": [["a", {}]]}, "column tags: .* a list of string is declared: unhashable"),
    "vectors in a vector": ({"text": [[[1.0], [2.0], [3.0]]]}, r"column text: .* numbers is declared: \[1.0\] is no number"),
    "time in a vector": ({"text": [[pd.Timestamp(0), 1, 2]]}, "column text: .* numbers is declared: Timestamp"),
    "bool in a vector": ({"text": [[True, 1, 2]]}, "column text: .* numbers is declared: True is no number"),
    "beyond every float": ({"text": [[10**400, 1, 2]]}, "column text: .* numbers is declared: int too large"),
    "no list": ({"seen": ["abc"]}, "column seen: holds something else where lists is declared"),
    "matrix": ({"seen": [np.zeros((2, 2), np.int64)]}, "column seen: holds something else where lists is declared"),
    "fewer weights": ({"shares": [[1.0]]}, "column shares: 1 rows have another number of weights than tags has values, such as 1 for 2"),
    "no weights": ({"shares": [None]}, "such as 0 for 2"),
    "negative weight": ({"shares": [[1.0, -1.0]]}, r"column shares: .* weights from 0 to 1e\+30"),
    "weight that is no number": ({"shares": [[1.0, np.nan]]}, r"column shares: .* weights from 0 to 1e\+30"),
    "weight without a sum": ({"shares": [[3e38, 3e38]]}, r"column shares: .* weights from 0 to 1e\+30"),
    "weight that is text": ({"shares": [np.array(["1", "2"])]}, "column shares: holds something else where numbers"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), WRONG.values(), ids=WRONG)
def test_what_is_no_list_is_refused(changes: dict[str, list[object]], said: str) -> None:
    good = {
        "price": [1.0],
        "item": [1],
        "text": [[1.0, 2.0, 3.0]],
        "tags": [["a", "b"]],
        "shares": [[1.0, 2.0]],
        "seen": [[1]],
    }
    encoded(pd.DataFrame(good))
    with pytest.raises(DataRejected, match=said):
        encoded(pd.DataFrame({**good, **changes}))


def test_the_values_of_a_list_are_pooled_as_declared() -> None:
    made = network().eval()
    numbers, found = (torch.from_numpy(part) for part in encoded(FRAME))
    standard, places = made.preprocess.standardise(numbers), made.preprocess.places(found)
    tables = made.embedding.tables["4"].weight
    given = made._inputs(standard, places)
    tags, seen = given.pooled
    rows = made.preprocess.vocabulary.tolist()
    b = tables[rows[5:].index(ids(["b"], "string")[0]) + 6 + 1]
    assert torch.equal(tags[3], b)  # 2 b / 2
    assert not tags[1].any()
    assert torch.equal(tags[2], tables[6])  # a missing list: training had none, so it is unknown
    a = tables[rows[5:].index(ids(["a"], "string")[0]) + 6 + 1]
    assert torch.allclose(tags[0], (0.5 * a + 1.5 * b) / 2)
    two, three = (tables[rows[:5].index(ids([value], "int64")[0]) + 1] for value in (2, 3))
    assert torch.equal(seen[0], two + three)  # the last two, with the vectors of `item`
    assert not seen[2].any()
    assert torch.equal(given.vectors[1], two)
    assert places[1].tolist()[1:4] == [NOTHING] * 3
    assert [part.shape for part in given.wide] == [(4, 4)]
    assert given.wide[0][:, 3].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("kind", ["linear", "mlp", "dcn", "tabm"])
def test_the_score_of_a_row_has_the_same_bits_alone_and_in_any_batch(tmp_path: Path, kind: str) -> None:
    draw = np.random.default_rng(0)
    count = 300
    tags = [
        draw.choice(list("abcdef"), draw.integers(0, 4)).tolist() if draw.random() > 0.2 else None for _ in range(count)
    ]
    frame = pd.DataFrame(
        {
            "price": draw.normal(size=count),
            "item": draw.integers(0, 7, count),
            "text": list(draw.normal(size=(count, 3))),
            "tags": tags,
            "shares": [None if one is None else draw.random(len(one)).tolist() for one in tags],
            "seen": [draw.integers(0, 7, draw.integers(0, 5)) for _ in range(count)],
        }
    )
    torch.manual_seed(0)
    architecture = Architecture(kind=kind, hidden=(8,), cross_layers=1, dropout=0.0, members=3 if kind == "tabm" else 1)
    described = from_json(to_json(Description(**{**vars_of(DESCRIBED), "architecture": architecture})))
    made = Network(described)
    made.preprocess.vocabulary.copy_(network().preprocess.vocabulary)
    for weight in made.parameters():
        torch.nn.init.normal_(weight)
    model = ScoringModel(described, made, tmp_path, "")
    together = model.score(frame)
    assert len(set(together)) > count / 2
    alone = [model.score(frame.iloc[row : row + 1])[0] for row in range(0, count, 17)]
    assert alone == together[::17].tolist()
    turned = frame.iloc[::-1]
    assert model.score(turned)[::-1].tolist() == together.tolist()


def vars_of(description: Description) -> dict[str, object]:
    return {name: getattr(description, name) for name in description.__dataclass_fields__}


def test_a_step_moves_the_vectors_of_its_values_alone() -> None:
    made = network()
    large = made.embedding.tables["4"]
    optimizers = Optimizers(made, learning_rate=0.1, weight_decay=0.1)
    large.sparse = True
    before = large.weight.detach().clone()
    numbers, found = (torch.from_numpy(part) for part in encoded(FRAME))
    made(numbers, found).sum().backward()
    assert large.weight.grad is not None
    assert large.weight.grad.is_sparse
    touched = set(large.weight.grad.coalesce().indices()[0].tolist())
    nothing = large.num_embeddings - 1
    assert nothing not in touched
    rows = made.preprocess.vocabulary.tolist()
    five = rows[:5].index(ids([5], "int64")[0]) + 1
    assert five not in touched
    large.weight.grad = large.weight.grad.to_dense()
    optimizers.step()
    moved = set((large.weight != before).any(1).nonzero()[:, 0].tolist())
    assert moved <= touched
    assert moved
    assert not large.weight[nothing].any()


OWN = """
from torch import nn


class Mine(nn.Module):
    def __init__(self, lists, vector_columns):
        super().__init__()
        self.names = [one.name for one in lists]
        self.head = nn.Linear(lists[0].dimension + vector_columns[0].dimension + 1, 1)

    def forward(self, lists, list_weights, vector_columns, vectors, places):
        import torch

        assert list(lists) == self.names
        assert list(vectors) == ["item", "tags", "seen"]
        assert places["tags"].shape == list_weights["tags"].shape == (4, 3)
        assert places["tags"].min() == -1
        assert places["seen"].max() <= 5
        best = (lists["tags"] * list_weights["tags"].unsqueeze(2)).amax(1)
        return self.head(torch.cat([best, vector_columns["text"]], dim=1)).squeeze(1)
"""


def test_a_module_of_model_py_gets_lists_and_vectors_by_name(tmp_path: Path) -> None:
    from ratchet.model.custom import custom_body

    (tmp_path / "model.py").write_text(OWN, encoding="utf-8")
    architecture = Architecture(kind="model.py:Mine", hidden=(), cross_layers=0, dropout=0.0)
    described = Description(**{**vars_of(DESCRIBED), "architecture": architecture})
    made = Network(described, custom_body(described, tmp_path)).eval()
    assert made(*(torch.from_numpy(part) for part in encoded(FRAME))).shape == (4,)


def test_a_description_without_lists_has_the_bytes_of_before() -> None:
    plain = Description(**{**vars_of(DESCRIBED), "vectors": (), "lists": ()})
    assert b"vectors" not in to_json(plain)
    assert b"lists" not in to_json(plain)
    assert from_json(to_json(plain)) == plain
    assert from_json(to_json(DESCRIBED)) == DESCRIBED
