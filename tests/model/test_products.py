"""Whether the bits of a row depend on nothing but the row."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ratchet.model.description import Architecture, CategoricalColumn, Description, GroupColumn, NumericColumn
from ratchet.model.inputs import PerColumn
from ratchet.model.networks import Network
from ratchet.model.products import BITS, TERMS, ExactLinear, make_exact
from ratchet.model.scoring import ScoringModel
from ratchet.model.sets import Attention

WIDTHS = st.one_of(st.integers(1, 20), st.integers(1, 300))
OBJECTIVES = {"binary": 1, "ranking": 1, "regression": 1, "multiclass": 5}


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@st.composite
def described(draw: st.DrawFn) -> Description:
    objective = draw(st.sampled_from(sorted(OBJECTIVES)))
    numeric = draw(st.integers(1, 140))
    logarithmic = draw(st.booleans())
    return Description(
        objective=objective,
        numeric=tuple(NumericColumn(name=f"n{i}", transform="log1p" if logarithmic else None) for i in range(numeric)),
        categorical=tuple(
            CategoricalColumn(name=f"c{i}", type="string", vocabulary=4, dimension=draw(st.sampled_from((2, 4))))
            for i in range(draw(st.integers(0, 3)))
        ),
        derived={},
        architecture=Architecture(
            kind=draw(st.sampled_from(["linear", "mlp", "dcn", "tabm"])),
            hidden=tuple(draw(st.lists(WIDTHS, max_size=2))),
            cross_layers=draw(st.integers(1, 3)),
            dropout=0.1,
            bins=(bins := draw(st.integers(0, 50))),
            number_dim=draw(st.integers(1, 9)) if bins else 0,
            masked=0.1,
            skip=draw(st.booleans()),
            members=draw(st.integers(1, 33)),
        ),
        classes=OBJECTIVES[objective],
    )


def made(description: Description, folder: Path, seed: int) -> ScoringModel:
    torch.manual_seed(seed)
    network = Network(description)
    network.preprocess.vocabulary.copy_(torch.arange(4).repeat(len(description.categorical)))
    network.preprocess.scale.uniform_(0.1, 3)
    for weight in network.body.parameters():
        if not bool(weight.any()):  # starts at zero
            nn.init.normal_(weight, std=0.3)
    if network.numbers is not None:
        ends = torch.randn(len(description.numeric), description.architecture.bins + 1).double().sort(1).values
        network.numbers.fit(tuple(ends))
    return ScoringModel(description, network, folder, "")


def drawn(description: Description, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with large, small and missing values."""
    generator = np.random.default_rng(seed)
    numeric = generator.standard_normal((rows, len(description.numeric))) * 10.0 ** generator.integers(-4, 4)
    numeric[generator.random(numeric.shape) < 0.1] = np.nan
    return numeric, generator.integers(0, 6, (rows, len(description.categorical)))


@settings(max_examples=40)
@given(description=described(), rows=st.integers(1, 600), seed=st.integers(0, 2**32 - 1))
def test_a_row_has_the_same_bits_alone_among_others_in_any_place_and_on_any_threads(
    tmp_path_factory: pytest.TempPathFactory, description: Description, rows: int, seed: int
) -> None:
    model = made(description, tmp_path_factory.getbasetemp(), seed)
    numeric, ids = drawn(description, rows, seed)
    expected = model.score_arrays(numeric, ids)
    shuffled = np.random.default_rng(seed).permutation(rows)
    with threads(1):
        np.testing.assert_array_equal(model.score_arrays(numeric[shuffled], ids[shuffled]), expected[shuffled])
    with threads(3):
        np.testing.assert_array_equal(model.score_arrays(numeric, ids), expected)
        for row in shuffled[:10]:
            alone = model.score_arrays(numeric[row : row + 1], ids[row : row + 1])
            np.testing.assert_array_equal(alone[0], expected[row])


@settings(max_examples=20)
@given(description=described(), sizes=st.lists(st.integers(1, 40), min_size=1, max_size=30), seed=st.integers(0, 2**32 - 1))  # fmt: skip
def test_a_group_of_a_set_has_the_same_bits_alone_among_others_in_any_place_and_on_any_threads(
    tmp_path_factory: pytest.TempPathFactory, description: Description, sizes: list[int], seed: int
) -> None:
    model = made(as_set(description), tmp_path_factory.getbasetemp(), seed)
    groups = np.repeat(np.arange(len(sizes)) + 1, sizes)
    numeric, ids = drawn(description, len(groups), seed)
    expected = model.score_arrays(numeric, ids, groups)
    order = np.argsort(np.random.default_rng(seed).permutation(len(sizes))[groups - 1], kind="stable")
    with threads(1):
        found = model.score_arrays(numeric[order], ids[order], 1 + len(sizes) - groups[order])
    np.testing.assert_array_equal(found, expected[order])
    with threads(3):
        for group in np.unique(groups)[:8]:
            own = groups == group
            np.testing.assert_array_equal(model.score_arrays(numeric[own], ids[own], groups[own]), expected[own])


@settings(max_examples=10)
@given(description=described(), rows=st.sampled_from([1, 2, 7, 100, 600]), seed=st.integers(0, 2**32 - 1))
def test_another_order_of_a_group_is_the_same_scores_to_rounding(
    tmp_path_factory: pytest.TempPathFactory, description: Description, rows: int, seed: int
) -> None:
    model = made(as_set(description), tmp_path_factory.getbasetemp(), seed)
    numeric, ids = drawn(description, rows, seed)
    group, order = np.ones(rows, np.int64), np.random.default_rng(seed).permutation(rows)
    expected, found = (model.score_arrays(numeric[some], ids[some], group) for some in (np.arange(rows), order))
    np.testing.assert_allclose(found, expected[order], rtol=1e-6, atol=1e-6 * abs(expected).max())


def as_set(description: Description) -> Description:
    """The same with a set, whose attention does not start at zero."""
    architecture = replace(description.architecture, kind="set")
    return replace(description, architecture=architecture, group=GroupColumn(name="query", type="int64"))


@pytest.mark.parametrize("sizes", [[1], [5, 1, 3, 16, 2], [40, 700, 1]])
def test_an_exact_attention_is_that_of_training_to_rounding(sizes: list[int]) -> None:
    torch.manual_seed(0)
    attention = Attention(24)
    nn.init.normal_(attention.out.weight)
    rows, groups = torch.randn(sum(sizes), 24), torch.tensor(sizes)
    with torch.inference_mode():
        exact, plain = make_exact(attention)(rows, groups), attention(rows, groups)
    torch.testing.assert_close(exact.float(), plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("inputs", [3, TERMS, TERMS + 5, 3 * TERMS])
def test_a_layer_of_each_column_may_be_wide(inputs: int) -> None:
    torch.manual_seed(0)
    layer, rows = PerColumn(4, inputs, 3), torch.randn(9, 4, inputs)
    with torch.inference_mode():
        torch.testing.assert_close(make_exact(layer)(rows).float(), layer(rows), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("width", [1, 5, 6, 10, 17, 50, 300])
def test_a_row_has_the_same_bits_in_every_place_of_a_block(width: int, count: int) -> None:
    """A linear layer of torch has others, for 6 inputs and outputs in 128 of 256 places."""
    torch.manual_seed(width)
    layer, row = ExactLinear(nn.Linear(width, width)), torch.randn(width)
    with threads(count), torch.inference_mode():
        found = {layer(torch.randn(256, width).index_fill_(0, torch.tensor(0), 0).index_copy_(0, torch.tensor([place]), row[None]))[place].numpy().tobytes() for place in range(256)}  # fmt: skip
    assert len(found) == 1


@given(st.integers(1, 2 * TERMS + 3), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_the_order_of_the_inputs_does_not_matter_within_a_product(inputs: int, outputs: int, seed: int) -> None:
    torch.manual_seed(seed)
    layer = nn.Linear(inputs, outputs)
    rows = torch.randn(7, inputs)
    exact, weight = make_exact(layer)(rows), layer.weight.detach().clone()
    largest = float(rows.abs().amax() * layer.weight.detach().abs().amax())
    torch.testing.assert_close(exact, layer.double()(rows.double()), rtol=0, atol=inputs * largest * 2.0**-BITS)
    if inputs <= TERMS:
        order = torch.randperm(inputs)
        other = nn.Linear(inputs, outputs)
        other.load_state_dict({"weight": weight[:, order], "bias": layer.bias})
        assert torch.equal(make_exact(other)(rows[:, order]), exact)


def test_a_product_of_the_largest_factors_is_exact() -> None:
    assert TERMS * (2**BITS) ** 2 <= 2**53
    layer = nn.Linear(TERMS, 1, bias=False)
    nn.init.constant_(layer.weight, 1.0)
    assert make_exact(layer)(torch.ones(1, TERMS)).item() == TERMS


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_number_that_is_none_stays_in_its_row(wrong: float) -> None:
    layer = ExactLinear(nn.Linear(3, 2))
    rows = torch.randn(4, 3)
    expected = layer(rows)
    rows[1, 2] = wrong
    found = layer(rows)
    assert found[1].isnan().all()
    assert torch.equal(found[[0, 2, 3]], expected[[0, 2, 3]])
    assert layer(torch.zeros(1, 3)).isfinite().all()
