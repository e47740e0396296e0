"""A module of model.py asks for what it needs by the names of its parameters, and gets no less and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.custom import custom_body
from ratchet.model.description import Architecture, CategoricalColumn, Description, GroupColumn, NumericColumn
from ratchet.model.networks import Network

DESCRIBED = Description(
    objective="binary",
    numeric=(NumericColumn(name="price", transform="log1p"), NumericColumn(name="rating", transform=None)),
    categorical=(
        CategoricalColumn(name="shop", type="string", vocabulary=3, dimension=4),
        CategoricalColumn(name="kind", type="int64", vocabulary=2, dimension=2),
    ),
    derived={},
    architecture=Architecture(kind="model.py:Mine", hidden=(), cross_layers=1, dropout=0),
    group=GroupColumn(name="query", type="int64"),
)
INPUTS = 2 * 2 + 4 + 2
ALL = """
import torch
from torch import nn


class Mine(nn.Module):
    def __init__(self, objective, inputs, *, numeric, categorical, classes, width=7):
        super().__init__()
        self.told = (objective, inputs, numeric, categorical, classes, width)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x, numbers, missing, vectors, *, places, groups, sizes, more=None):
        self.given = (x, numbers, missing, vectors, places, groups, sizes, more)
        return self.head(x)
"""


def network(folder: Path, code: str, description: Description = DESCRIBED) -> Network:
    (folder / "model.py").write_text(code, encoding="utf-8")
    torch.manual_seed(0)
    return Network(description, custom_body(description, folder))


def test_a_module_gets_what_it_asks_for_by_name(tmp_path: Path) -> None:
    made = network(tmp_path, ALL)
    assert made.body.told == ("binary", INPUTS, DESCRIBED.numeric, DESCRIBED.categorical, 1, 7)
    assert made.reads_groups
    standard = torch.tensor([[1.0, torch.nan], [20.0, -1.0], [0.5, 0.25]])
    places = torch.tensor([[0, 4], [3, 6], [1, 5]])  # the second column begins after the first one's 3 and its unknown
    out = made.scores(standard, places, torch.tensor([2, 1]))
    x, numbers, missing, vectors, place, groups, sizes, more = made.body.given
    assert out.shape == (3,)
    assert torch.equal(numbers, torch.tensor([[1.0, 0], [10, -1], [0.5, 0.25]]))
    assert torch.equal(missing, torch.tensor([[0.0, 1], [0, 0], [0, 0]]))
    assert {name: tuple(one.shape) for name, one in vectors.items()} == {"shop": (3, 4), "kind": (3, 2)}
    assert torch.equal(x, torch.cat([numbers, missing, vectors["kind"], vectors["shop"]], dim=1))
    assert torch.equal(vectors["shop"], made.embedding.tables["4"].weight[[0, 3, 1]])
    assert {name: one.tolist() for name, one in place.items()} == {"shop": [0, 3, 1], "kind": [0, 2, 1]}
    assert (groups.tolist(), sizes.tolist(), more) == ([0, 0, 1], [2, 1], None)
    with pytest.raises(ValueError, match="need the sizes"):
        made.scores(standard, places)


@pytest.mark.parametrize(
    "code",
    [
        "class Mine(nn.Module):\n    def __init__(self, inputs):\n        super().__init__()\n        self.head = nn.Linear(inputs, 1)\n\n    def forward(self, x):\n        return self.head(x)\n",
        "class Mine(nn.Module):\n    def __init__(self, width, classes=9):\n        super().__init__()\n        assert classes == 9\n        self.head = nn.Linear(width, 1)\n\n    def forward(self, rows, groups=None):\n        assert groups is None\n        return self.head(rows)[:, 0]\n",
        "def Mine(n, /):\n    return Flat(n)\n\nclass Flat(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.head = nn.Linear(n, 1)\n\n    def forward(self, *given):\n        return self.head(*given)\n",
    ],
    ids=["documented", "defaults", "by place"],
)
def test_a_module_of_before_there_were_names_has_the_same_bits(tmp_path: Path, code: str) -> None:
    made = network(tmp_path, f"from torch import nn\n\n{code}")
    assert not made.reads_groups
    standard, places = torch.randn(5, 2), torch.tensor([[0, 4]] * 5)
    x = torch.cat([made.preprocess.numbers(standard), made.embedding(places)[0]], dim=1)
    expected = torch.nn.functional.linear(x, made.body.head.weight, made.body.head.bias)[:, 0]  # type: ignore[union-attr,arg-type]
    assert torch.equal(made.scores(standard, places), expected)


MISTAKES = {
    "unknown": ("__init__(self, inputs)", "__init__(self, inputs, depth)", r"model\.py:6: Mine asks for depth; allowed: inputs, numeric, categorical, classes, objective, vector_columns, lists; to do: take depth out, or give it a default"),
    "nothing": ("__init__(self, inputs)", "__init__(self)", r"model\.py:6: Mine asks for nothing; allowed: inputs, .*; to do: ask for inputs"),
    "forward": ("forward(self, x)", "forward(self, x, group)", r"model\.py:10: forward asks for group; allowed: x, numbers, missing, vectors, places, groups, sizes, vector_columns, lists, list_weights; to do: take group out"),
    "called": ("Linear(inputs, 1)", "Linear(inputs, 1) if inputs[0] else None", r"model\.py:8: TypeError: .*; to do: correct Mine; it is called as Mine\(inputs\)"),
}  # fmt: skip
SMALL = """
from torch import nn


class Mine(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.head = nn.Linear(inputs, 1)

    def forward(self, x):
        return self.head(x)
"""


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_module_that_asks_for_what_does_not_exist_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in SMALL
    with pytest.raises(ConfigurationError) as caught:
        network(tmp_path, SMALL.replace(old, new))
    assert caught.match(said.partition("; to do")[0])
    assert str(caught.value).partition("; to do: ")[2].startswith(said.partition("; to do: ")[2].replace("\\", ""))


def test_a_module_that_asks_for_groups_is_refused_where_there_are_none(tmp_path: Path) -> None:
    code = SMALL.replace("forward(self, x)", "forward(self, x, sizes)")
    assert network(tmp_path, code).reads_groups
    with pytest.raises(ConfigurationError, match=r"^model\.py:10: forward asks for sizes, and no column has the role"):
        network(tmp_path, code, replace(DESCRIBED, group=None))


def test_a_module_of_torch_is_called_by_place(tmp_path: Path) -> None:
    made = network(tmp_path, "from torch import nn\n\ndef Mine(inputs):\n    return nn.Linear(inputs, 1)\n")
    assert made.scores(torch.randn(4, 2), torch.tensor([[0, 4]] * 4)).shape == (4,)
    with pytest.raises(ConfigurationError, match=r"^model\.py:3: forward asks for query, key, value; allowed: x, "):
        network(tmp_path, "from torch import nn\n\ndef Mine(inputs):\n    return nn.MultiheadAttention(inputs, 1)\n")
