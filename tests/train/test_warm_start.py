"""What a warm start copies: the function of the parent, by names of columns and ids of categories."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn
from ratchet.model.layers import Layers
from ratchet.model.networks import Network
from tasks.train.warm_start import Copied, warm_start

ARCHITECTURE = Architecture(
    kind="dcn", hidden=(16, 8), cross_layers=2, dropout=0.1, bins=4, number_dim=3, masked=0.01, skip=True
)
IDS = {"c": (3, 5, 9), "d": (2, 4)}


def numeric(*names: str) -> tuple[NumericColumn, ...]:
    return tuple(NumericColumn(name=name, transform=None) for name in names)


def categorical(*names: str, ids: dict[str, Sequence[int]] = IDS, **dimensions: int) -> tuple[CategoricalColumn, ...]:
    return tuple(
        CategoricalColumn(name=name, type="int64", vocabulary=len(ids[name]), dimension=dimensions.get(name, 4))
        for name in names
    )


def described(**changes: Any) -> Description:
    given: dict[str, Any] = {
        "objective": "binary", "numeric": numeric("a", "b"), "categorical": categorical("c", "d"), "derived": {},
        "architecture": ARCHITECTURE, **changes,
    }  # fmt: skip
    return Description(**given)


def made(
    description: Description,
    *,
    seed: int,
    ids: dict[str, Sequence[int]] = IDS,
    means: dict[str, float] | None = None,
    scales: dict[str, float] | None = None,
    body: nn.Module | None = None,
    asks: tuple[str, ...] | None = None,
) -> Network:
    """A network with random weights, fitted."""
    torch.manual_seed(seed)
    network = Network(description, (lambda _: Layers(body, asks)) if body else None)
    for weight in network.parameters():
        nn.init.normal_(weight, std=0.3)
    known = [torch.tensor(ids[one.name]) for one in description.categorical]
    network.preprocess.vocabulary.copy_(torch.cat([*known, torch.zeros(0, dtype=torch.int64)]))
    for place, one in enumerate(description.numeric):
        network.preprocess.mean[place] = (means or {}).get(one.name, 1.0)
        network.preprocess.scale[place] = (scales or {}).get(one.name, 2.0)
    if network.numbers is not None:
        network.numbers.fit((torch.linspace(-2 - 0.1 * seed, 2, 5, dtype=torch.float64),) * len(description.numeric))
    return network.eval()


def start(child: Network, description: Description, parent: Network, of_parent: Description) -> Copied:
    return warm_start(child, description, parent.state_dict(), of_parent)


def scores(network: Network, description: Description, *, ids: dict[str, Sequence[int]] = IDS) -> Tensor:
    """Of forty rows with the same values for columns of the same name."""
    values, kinds = {}, {}
    for name in "abxy":
        draw = torch.Generator().manual_seed(ord(name))
        values[name] = 1 + 2 * torch.randn(40, generator=draw, dtype=torch.float64)
        values[name][::7] = torch.nan
    for name in "cd":
        draw = torch.Generator().manual_seed(ord(name))
        kinds[name] = torch.tensor([*ids[name], 77])[torch.randint(0, len(ids[name]) + 1, (40,), generator=draw)]
    with torch.inference_mode():
        return network(
            torch.stack([values[one.name] for one in description.numeric], dim=1),
            torch.stack([kinds[one.name] for one in description.categorical], dim=1),
            torch.tensor([10, 20, 10]),
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["dcn", "mlp", "linear", "set", "tabm"])
@pytest.mark.parametrize("hidden", [(), (16, 8)])
def test_the_same_columns_begin_as_the_very_function_of_the_parent(kind: str, hidden: tuple[int, ...]) -> None:
    plain = {"bins": 0, "number_dim": 0, "skip": False} if kind == "linear" else {}
    description = described(architecture=replace(ARCHITECTURE, kind=kind, hidden=hidden, **plain))
    parent, child = made(description, seed=1), made(description, seed=2, means={"a": 1.3}, scales={"b": 1.7})
    before = scores(child, description)
    copied = start(child, description, parent, description)
    assert torch.equal(scores(child, description), scores(parent, description))
    assert not torch.equal(before, scores(parent, description))
    assert (copied.parameters, copied.rows) == (copied.of_parameters, copied.of_rows)
    assert copied.of_rows == 7
    assert copied.refitted == ()


@pytest.mark.parametrize("kind", ["dcn", "set", "tabm"])
@pytest.mark.parametrize("hidden", [(), (16, 8)])
def test_columns_in_another_order_keep_their_weights(kind: str, hidden: tuple[int, ...]) -> None:
    architecture = replace(ARCHITECTURE, kind=kind, hidden=hidden)
    description = described(architecture=architecture)
    other = described(architecture=architecture, numeric=numeric("b", "a"), categorical=categorical("d", "c"))
    parent, child = made(description, seed=1), made(other, seed=2)
    copied = start(child, other, parent, description)
    assert torch.allclose(scores(child, other), scores(parent, description), rtol=1e-4, atol=1e-5)
    assert copied.parameters == copied.of_parameters


def test_categories_are_matched_by_their_ids_and_new_ones_are_as_in_a_fresh_start() -> None:
    ids = {"c": (1, 5, 9, 12), "d": (2, 4)}  # 3 is gone; 1 and 12 are new
    description, other = described(), described(categorical=categorical("c", "d", ids=ids))
    parent, child = made(description, seed=1), made(other, seed=2, ids=ids)
    fresh = {name: tensor.clone() for name, tensor in child.state_dict().items()}
    copied = start(child, other, parent, description)
    assert (copied.rows, copied.of_rows) == (6, 8)
    table, before = child.embedding.tables["4"].weight, parent.embedding.tables["4"].weight
    assert torch.equal(table[[0, 2, 3, 5, 6, 7]], before[[0, 2, 3, 4, 5, 6]])
    assert torch.equal(table[[1, 4]], fresh["embedding.tables.4.weight"][[1, 4]])
    shared = {"c": (5, 9), "d": (2, 4)}
    assert torch.equal(scores(child, other, ids=shared), scores(parent, description, ids=shared))


def test_a_longer_vector_begins_with_that_of_the_parent() -> None:
    description, other = described(), described(categorical=categorical("c", "d", c=8))
    parent, child = made(description, seed=1), made(other, seed=2)
    with torch.no_grad():
        child.embedding.tables["8"].weight.zero_()  # the new numbers of the vectors add nothing
    copied = start(child, other, parent, description)
    assert torch.allclose(scores(child, other), scores(parent, description), atol=1e-5)
    assert copied.rows == copied.of_rows
    assert copied.parameters < copied.of_parameters


def test_a_column_that_came_and_one_that_went_leave_the_others_as_they_were() -> None:
    description, other = described(), described(numeric=numeric("x", "a"), categorical=categorical("c"))
    parent, child = made(description, seed=1), made(other, seed=2)
    fresh = {name: tensor.clone() for name, tensor in child.state_dict().items()}
    start(child, other, parent, description)
    state, old = child.state_dict(), parent.state_dict()
    # inputs: numbers x a, missing x a, vectors x x x a a a, c; before: a b, a b, a a a b b b, c, d
    here, there = [1, 3, 7, 8, 9, 10, 11, 12, 13], [0, 2, 4, 5, 6, 10, 11, 12, 13]
    for name in ("body.linear.weight", "body.deep.1.weight"):
        assert torch.equal(state[name][:, here], old[name][:, there])
    cross = "body.deep.0.layers.1.weight"
    assert torch.equal(state[cross][here][:, here], old[cross][there][:, there])
    assert torch.equal(state["body.linear.weight"][:, 0], fresh["body.linear.weight"][:, 0])
    assert torch.equal(state["body.deep.4.weight"], old["body.deep.4.weight"])
    assert torch.equal(state["numbers.columns.weight"][1], old["numbers.columns.weight"][0])
    assert torch.equal(state["numbers.columns.weight"][0], fresh["numbers.columns.weight"][0])


def test_a_number_that_has_moved_too_far_is_standardised_by_the_new_days() -> None:
    description = described(objective="regression")
    parent = made(description, seed=1)
    child = made(description, seed=2, means={"a": 2.5}, scales={"b": 3.5})
    child.label_mean.fill_(9.0)
    copied = start(child, description, parent, description)
    assert copied.refitted == ("a", "b", "the label")
    assert child.preprocess.mean.tolist() == [2.5, 1.0]
    assert child.preprocess.scale.tolist() == [2.0, 3.5]
    assert float(child.label_mean) == 9.0
    child.label_mean.fill_(0.4)
    assert "the label" not in start(child, description, parent, description).refitted
    assert float(child.label_mean) == 0.0


def test_another_transform_or_type_is_another_column() -> None:
    description = described()
    other = described(
        numeric=(NumericColumn(name="a", transform="log1p"), *numeric("b")),
        categorical=(replace(categorical("c")[0], type="string"), *categorical("d")),
    )
    parent, child = made(description, seed=1), made(other, seed=2)
    fresh = child.embedding.tables["4"].weight.clone()
    copied = start(child, other, parent, description)
    assert copied.rows == 3
    assert torch.equal(child.embedding.tables["4"].weight[:4], fresh[:4])


def test_layers_of_another_shape_are_fresh() -> None:
    description, other = described(), described(classes=3, architecture=replace(ARCHITECTURE, hidden=(16, 9)))
    parent, child = made(description, seed=1), made(other, seed=2)
    fresh = {name: tensor.clone() for name, tensor in child.state_dict().items()}
    copied = start(child, other, parent, description)
    state = child.state_dict()
    for name in ("body.deep.4.weight", "body.deep.7.weight", "body.linear.weight"):
        assert torch.equal(state[name], fresh[name])
    assert torch.equal(state["body.deep.1.weight"], parent.state_dict()["body.deep.1.weight"])
    assert 0 < copied.parameters < copied.of_parameters


def test_a_network_of_the_pipelines_own_is_copied_while_its_columns_are_the_same() -> None:
    architecture = replace(ARCHITECTURE, kind="model.py:Mine", bins=0, number_dim=0, skip=False)
    temperatures = iter((1.0, 3.0, 3.0))

    def own() -> nn.Module:
        layers = nn.Sequential(nn.Linear(12, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
        layers.register_buffer("temperature", torch.full((), next(temperatures)))
        return layers

    description = described(architecture=architecture)
    parent, child = made(description, seed=1, body=own()), made(description, seed=2, body=own())
    copied = start(child, description, parent, description)
    assert torch.equal(scores(child, description), scores(parent, description))
    assert copied.parameters == copied.of_parameters
    assert float(child.state_dict()["body.temperature"]) == 3.0
    other = described(architecture=architecture, numeric=numeric("x", "a"))
    child = made(other, seed=2, body=own())
    fresh = {name: tensor.clone() for name, tensor in child.state_dict().items()}
    assert start(child, other, parent, description).parameters == 0
    for name in ("body.0.weight", "body.2.weight"):
        assert torch.equal(child.state_dict()[name], fresh[name])


@pytest.mark.parametrize("change", [{"dropout": 0.0}, {"kind": "mlp"}])
def test_layers_that_have_other_numbers_are_fresh(change: dict[str, Any]) -> None:
    before = replace(ARCHITECTURE, hidden=(8, 8, 8), dropout=0.1)
    description, other = described(architecture=before), described(architecture=replace(before, **change))
    parent, child = made(description, seed=1), made(other, seed=2)
    fresh = {name: tensor.clone() for name, tensor in child.state_dict().items()}
    start(child, other, parent, description)
    state = child.state_dict()
    assert torch.equal(state["body.linear.weight"], parent.state_dict()["body.linear.weight"])
    deep = [name for name in state if name.startswith("body.deep.")]
    assert deep
    assert all(torch.equal(state[name], fresh[name]) for name in deep)


def test_a_number_whose_bins_have_no_place_is_standardised_by_the_new_days() -> None:
    description, other = (
        described(),
        described(architecture=replace(ARCHITECTURE, number_dim=ARCHITECTURE.number_dim + 1)),
    )
    parent, child = made(description, seed=1, means={"a": 1.5}), made(other, seed=2)
    assert start(child, other, parent, description).refitted == ("a", "b")
    assert float(child.preprocess.mean[0]) == 1.0


class ByName(nn.Module):
    """Vectors of its own for the categories of one column."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors, self.head = nn.Embedding(4, 3), nn.Linear(5, 1)

    def forward(self, numbers: Tensor, places: dict[str, Tensor]) -> Tensor:
        out: Tensor = self.head(torch.cat([numbers, self.vectors(places["c"])], dim=1))
        return out


def test_a_network_that_reads_columns_by_name_keeps_nothing_when_they_or_their_categories_change() -> None:
    description = described(
        architecture=replace(ARCHITECTURE, kind="model.py:ByName", bins=0, number_dim=0, skip=False)
    )
    asks = ("numbers", "places")
    parent, child = (made(description, seed=seed, body=ByName(), asks=asks) for seed in (1, 2))
    start(child, description, parent, description)
    assert torch.equal(scores(child, description), scores(parent, description))
    ids = {"c": (3, 5, 10), "d": (2, 4)}  # as many as before
    renamed = replace(description, numeric=numeric("x", "a"))
    for other, known in ((description, ids), (renamed, IDS)):
        child = made(other, seed=2, ids=known, body=ByName(), asks=asks)
        fresh = {name: tensor.clone() for name, tensor in child.body.state_dict().items()}
        copied = start(child, other, parent, description)
        assert copied.parameters == 0
        assert all(torch.equal(tensor, fresh[name]) for name, tensor in child.body.state_dict().items())


def test_a_model_of_before_gives_what_has_its_name() -> None:
    description = described()
    parent, child = made(description, seed=1), made(description, seed=2)
    old = parent.state_dict()
    old["embedding.weight"] = old.pop("embedding.tables.4.weight")
    old["preprocess.mean"], old["preprocess.scale"] = old["preprocess.mean"].float(), old["preprocess.scale"].float()
    copied = warm_start(child, description, old, description)
    assert (copied.rows, child.computes_in) == (0, torch.float64)
