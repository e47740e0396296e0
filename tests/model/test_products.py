"""Whether the bits of a row depend on nothing but the row."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn
from ratchet.model.networks import Network
from ratchet.model.products import BITS, TERMS, ExactLinear, make_exact
from ratchet.model.scoring import ScoringModel

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
            kind=draw(st.sampled_from(["linear", "mlp", "dcn"])),
            hidden=tuple(draw(st.lists(WIDTHS, max_size=2))),
            cross_layers=draw(st.integers(1, 3)),
            dropout=0.1,
            bins=(bins := draw(st.integers(0, 50))),
            number_dim=draw(st.integers(1, 9)) if bins else 0,
            masked=0.1,
            skip=draw(st.booleans()),
        ),
        classes=OBJECTIVES[objective],
    )


def made(description: Description, folder: Path, seed: int) -> ScoringModel:
    torch.manual_seed(seed)
    network = Network(description)
    network.preprocess.vocabulary.copy_(torch.arange(4).repeat(len(description.categorical)))
    network.preprocess.scale.uniform_(0.1, 3)
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
