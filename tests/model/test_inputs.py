"""Numbers become places among bins, categories become vectors; what is missing or unknown has a place of its own."""

import pytest
import torch

from ratchet.model.description import CategoricalColumn
from ratchet.model.inputs import Embeddings, Numbers
from tasks.train.building import dimension


def numbers() -> Numbers:
    """Two columns, of three bins and of one, whose vectors are the filled bins themselves."""
    made = Numbers(2, 3, 3)
    made.fit((torch.tensor([-1.0, 0.0, 1.0, 3.0]).double(), torch.tensor([0.0, 2.0]).double()))
    with torch.no_grad():
        made.columns.weight.copy_(torch.eye(3).expand(2, 3, 3))
        made.columns.bias.zero_()
    return made


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        (-5.0, [0, 0, 0]),
        (-0.5, [0.5, 0, 0]),
        (0.25, [1, 0.25, 0]),
        (2.0, [1, 1, 0.5]),
        (9.0, [1, 1, 1]),
        (torch.nan, [0, 0, 0]),
    ],
)
def test_a_number_fills_the_bins_below_it(value: float, filled: list[float]) -> None:
    found = numbers()(torch.tensor([[value, 1.0]]))
    torch.testing.assert_close(found, torch.tensor([[*filled, 0.5, 0.0, 0.0]]))


def test_bins_without_width_and_columns_of_one_value_are_no_infinities() -> None:
    made = Numbers(2, 2, 1)
    made.fit((torch.tensor([0.0, 1e-300, 1.0]).double(), torch.tensor([4.0]).double()))
    assert bool(made(torch.tensor([[0.0, 4.0], [1.0, 5.0], [-1.0, torch.nan]])).isfinite().all())


def columns(*sizes: tuple[int, int]) -> list[CategoricalColumn]:
    return [
        CategoricalColumn(name=f"c{place}", type="string", vocabulary=vocabulary, dimension=length)
        for place, (vocabulary, length) in enumerate(sizes)
    ]


def test_columns_of_one_length_share_a_table_and_each_has_its_own_rows() -> None:
    made = Embeddings(columns((3, 4), (2, 2), (1, 4)), masked=0.0)
    assert {name: tuple(table.weight.shape) for name, table in made.tables.items()} == {"2": (3, 2), "4": (6, 4)}
    with torch.no_grad():
        for table in made.tables.values():
            table.weight.copy_(torch.arange(len(table.weight))[:, None].expand_as(table.weight))
    found = made(torch.tensor([[0, 4, 7], [3, 6, 8]]))[0]  # places of columns follow each other
    assert found.tolist() == [[0.0] * 2 + [0.0] * 4 + [4.0] * 4, [2.0] * 2 + [3.0] * 4 + [5.0] * 4]


def test_a_share_of_categories_counts_as_unknown_in_training_alone() -> None:
    torch.manual_seed(0)
    made = Embeddings(columns((1, 2)), masked=0.25)
    places = torch.ones(4000, 1, dtype=torch.int64)
    assert (made.mask(places) == 0).double().mean() == pytest.approx(0.25, abs=0.03)
    assert made.eval().mask(places) is places
    with torch.no_grad():
        assert not bool(made(torch.zeros(1, 1, dtype=torch.int64))[0].any())


def test_the_table_of_a_model_of_before_is_read() -> None:
    made = Embeddings(columns((3, 4), (2, 4)), masked=0.0)
    before = torch.randn(7, 4)
    made.load_state_dict({"weight": before})
    assert torch.equal(made(torch.tensor([[2, 5]]))[0], torch.cat([before[2], before[5]])[None])


def test_without_categories_there_is_nothing() -> None:
    assert Embeddings([], masked=0.1)(torch.zeros(3, 0, dtype=torch.int64))[0].shape == (3, 0)


@pytest.mark.parametrize(("vocabulary", "length"), [(0, 2), (2, 2), (10, 8), (50, 16), (1000, 32), (10**7, 32)])
def test_vectors_are_longer_for_more_categories(vocabulary: int, length: int) -> None:
    assert dimension(vocabulary) == length
