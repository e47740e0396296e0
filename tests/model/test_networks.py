import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn, from_json, to_json
from ratchet.model.networks import Cross, Network, Preprocess


def described(kind: str = "dcn", classes: int = 1, sizes: tuple[int, ...] = (3, 0, 2)) -> Description:
    return Description(
        objective="multiclass" if classes > 1 else "binary",
        numeric=(NumericColumn(name="price", transform="log1p"), NumericColumn(name="rating", transform=None)),
        categorical=tuple(
            CategoricalColumn(name=f"c{place}", type="string", vocabulary=size) for place, size in enumerate(sizes)
        ),
        derived={},
        architecture=Architecture(kind=kind, embedding_dim=4, hidden=(8, 4), cross_layers=2, dropout=0.1),
        classes=classes,
    )


def test_numbers_are_transformed_scaled_cut_and_flagged() -> None:
    preprocess = Preprocess(described())
    preprocess.mean.copy_(torch.tensor([1.0, 2.0]))
    preprocess.scale.copy_(torch.tensor([2.0, 0.5]))
    raw = torch.tensor([[np.e - 1, 3.0], [np.nan, np.nan], [-5.0, 1e30]], dtype=torch.float32)
    found = preprocess.numbers(raw)
    torch.testing.assert_close(found[0], torch.tensor([0.0, 2, 0, 0]))
    torch.testing.assert_close(found[1], torch.tensor([0.0, 0, 1, 1]))
    assert found[2, 1] == 10
    assert torch.isfinite(found).all()
    assert torch.isnan(raw[1]).all()  # the rows themselves stay as they were


@given(st.lists(st.sets(st.integers(-5, 5)), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_an_id_has_a_place_of_its_own_and_what_is_unknown_has_the_columns(known: list[set[int]], seed: int) -> None:
    vocabulary = [sorted(ids) for ids in known]
    preprocess = Preprocess(described(sizes=tuple(map(len, vocabulary))))
    preprocess.vocabulary.copy_(torch.tensor([value for ids in vocabulary for value in ids], dtype=torch.int64))
    ids = np.random.default_rng(seed).integers(-6, 7, (20, len(vocabulary)))
    places = preprocess.places(torch.from_numpy(ids)).numpy()
    begin = 0
    for column, values in enumerate(vocabulary):
        expected = [begin + 1 + values.index(value) if value in values else begin for value in ids[:, column]]
        assert places[:, column].tolist() == expected
        begin += len(values) + 1
    assert begin == preprocess.rows


def test_cross_layers_are_those_of_the_paper() -> None:
    cross = Cross(2, 1)
    first = torch.tensor([[1.0, 2.0]])
    weight, bias = cross.layers[0].weight, cross.layers[0].bias
    torch.testing.assert_close(cross(first), first * (first @ weight.T + bias) + first)


@pytest.mark.parametrize("kind", ["linear", "mlp", "dcn"])
@pytest.mark.parametrize("classes", [1, 3])
def test_a_row_scores_the_same_alone_and_among_others(kind: str, classes: int) -> None:
    torch.manual_seed(0)
    network = Network(described(kind, classes)).eval()
    numeric, ids = torch.rand(9, 2), torch.randint(0, 3, (9, 3))
    with torch.inference_mode():
        together = network(numeric, ids)
        alone = torch.cat([network(numeric[row : row + 1], ids[row : row + 1]) for row in range(9)])
    assert together.shape == ((9,) if classes == 1 else (9, classes))
    torch.testing.assert_close(together, alone)


def test_a_model_may_have_no_numbers_or_no_categories() -> None:
    for numeric, categorical in ((described().numeric, ()), ((), described().categorical)):
        found = Description(
            objective="binary",
            numeric=numeric,
            categorical=categorical,
            derived={},
            architecture=described().architecture,
        )
        network = Network(found).eval()
        scores = network(torch.rand(2, len(numeric)), torch.zeros(2, len(categorical), dtype=torch.int64))
        assert torch.isfinite(scores).all()


def test_a_description_comes_back_as_it_was() -> None:
    assert from_json(to_json(described())) == described()
    for broken in (b"{}", b"[]", b"x", to_json(described()).replace(b'"format": 1', b'"format": 99')):
        with pytest.raises(ValueError):
            from_json(broken)


def test_a_category_that_training_did_not_see_adds_nothing() -> None:
    scores = set()
    for seed in range(3):
        torch.manual_seed(seed)
        network = Network(described())
        network.preprocess.vocabulary.copy_(torch.arange(5))
        places = network.preprocess.places(torch.full((1, 3), 99))
        assert places.tolist() == [network.preprocess.unknown()]
        scores.add(float(network.embedding(places).detach().abs().sum()))
    assert scores == {0.0}


def test_a_value_that_is_missing_for_the_first_time_scores_as_the_mean() -> None:
    preprocess = Preprocess(described())
    preprocess.flagged.copy_(torch.tensor([False, True]))
    found = preprocess.numbers(torch.full((1, 2), torch.nan))
    assert found.tolist() == [[0, 0, 0, 1]]


def test_a_model_of_before_flags_every_missing_value() -> None:
    network = Network(described())
    state = network.state_dict()
    del state["preprocess.flagged"]
    network.preprocess.flagged.fill_(value=False)
    network.load_state_dict(state)
    assert network.preprocess.flagged.tolist() == [True, True]
