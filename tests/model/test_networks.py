from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratchet.model.bodies import Cross
from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn, from_json, to_json
from ratchet.model.networks import Network, finish, load_weights
from ratchet.model.preprocess import Preprocess
from tasks.features.statistics import moments


def described(kind: str = "dcn", classes: int = 1, sizes: tuple[int, ...] = (3, 0, 2)) -> Description:
    return Description(
        objective="multiclass" if classes > 1 else "binary",
        numeric=(NumericColumn(name="price", transform="log1p"), NumericColumn(name="rating", transform=None)),
        categorical=tuple(
            CategoricalColumn(name=f"c{place}", type="string", vocabulary=size, dimension=4)
            for place, size in enumerate(sizes)
        ),
        derived={},
        architecture=Architecture(kind=kind, hidden=(8, 4), cross_layers=2, dropout=0.1),
        classes=classes,
    )


def test_numbers_are_transformed_scaled_cut_and_flagged() -> None:
    preprocess = Preprocess(described())
    preprocess.mean.copy_(torch.tensor([1.0, 2.0]))
    preprocess.scale.copy_(torch.tensor([2.0, 0.5]))
    raw = torch.tensor([[np.e - 1, 3.0], [np.nan, np.nan], [-5.0, 1e30]], dtype=torch.float32)
    found = preprocess.numbers(preprocess.standardise(raw))
    torch.testing.assert_close(found[0], torch.tensor([0.0, 2, 0, 0]))
    torch.testing.assert_close(found[1], torch.tensor([0.0, 0, 1, 1]))
    assert found[2, 1] == 10
    assert torch.isfinite(found).all()
    assert torch.isnan(raw[1]).all()  # the rows themselves stay as they were


def test_a_value_outside_the_domain_of_the_logarithm_is_missing_as_it_is_for_the_fit() -> None:
    preprocess = Preprocess(described())
    raw = torch.tensor([[-1.0, 0.0], [-1.5, 0.0], [-0.5, 0.0]])
    assert torch.isnan(preprocess.standardise(raw)[:, 0]).tolist() == [True, True, False]
    assert preprocess.numbers(preprocess.standardise(raw))[:2].tolist() == [[0, 0, 1, 0]] * 2
    assert moments(raw[:, 0].numpy(), "log1p").count == 1


@given(st.sampled_from([1.7e9, 1.7e15, 1e18, -3e12]), st.floats(1e3, 1e6), st.integers(0, 2**32 - 1))
def test_large_numbers_are_standardised_around_their_mean_alone_as_in_a_batch(
    middle: float, spread: float, seed: int
) -> None:
    raw = middle + np.random.default_rng(seed).normal(0, spread, (37, 2))
    raw[:, 0] = np.abs(raw[:, 0])
    preprocess = Preprocess(described())
    fitted = [moments(raw[:, 0], "log1p"), moments(raw[:, 1])]
    preprocess.mean.copy_(torch.tensor([one.mean for one in fitted], dtype=torch.float64))
    preprocess.scale.copy_(torch.tensor([one.std for one in fitted], dtype=torch.float64))
    together = preprocess.standardise(torch.from_numpy(raw))
    alone = torch.cat([preprocess.standardise(torch.from_numpy(row[None])) for row in raw])
    assert torch.equal(together, alone)
    if fitted[1].std != 1:
        assert float(together[:, 1].std(correction=0)) == pytest.approx(1, rel=1e-5)
        wanted = (raw[:, 1] - raw[:, 1].mean()) / raw[:, 1].std()
        np.testing.assert_allclose(together[:, 1], wanted, atol=1e-3)


def test_a_regression_gives_values_whose_spread_is_small_beside_their_mean() -> None:
    network = Network(described())
    network.label_mean.fill_(1_700_000_000.0)
    network.label_scale.fill_(60.0)
    assert finish(network, "regression", torch.tensor([0.0, 0.5])).tolist() == [1_700_000_000, 1_700_000_030]


def test_a_model_whose_buffers_are_float32_scores_as_it_did_in_float32() -> None:
    """As models of before did: each step in float32."""
    kept = Network(described()).state_dict()
    kept |= {name: kept[name].float() for name in ("preprocess.mean", "preprocess.scale", "label_mean", "label_scale")}
    kept["preprocess.mean"], kept["preprocess.scale"] = torch.tensor([1.5, 3e6]), torch.tensor([0.7, 11.0])
    kept["label_mean"].fill_(1e6)
    network = Network(described())
    load_weights(network, kept)
    raw = torch.tensor([[5.0, 3e6 + 7], [0.3, 3e6 - 20]], dtype=torch.float64) + 1 / 3
    values = raw.float()
    values[:, 0] = torch.log1p(values[:, 0])
    wanted = (values - kept["preprocess.mean"]) / kept["preprocess.scale"]
    assert torch.equal(network.preprocess.standardise(raw), wanted)
    assert torch.equal(finish(network, "regression", values[:, 0]), values[:, 0] + kept["label_mean"])


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
        scores.add(float(network.embedding(places)[0].detach().abs().sum()))
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


def test_a_category_that_is_masked_in_training_has_the_statistics_of_an_unknown_one() -> None:
    """Two columns; the second has statistics. The bodies' inputs: 3 numbers, their flags, a vector of each column."""
    numbers = (
        NumericColumn(name="price", transform="log1p"),
        *(NumericColumn(name=f"{name} of c1", transform=None, of="c1") for name in ("count", "target_mean")),
    )
    given = described(sizes=(2, 3))
    made = Network(replace(given, numeric=numbers, architecture=replace(given.architecture, masked=0.5)))
    made.preprocess.vocabulary.copy_(torch.tensor([1, 2, 1, 2, 3]))
    made.preprocess.statistics.copy_(torch.tensor([0.0, 4, 5, 6, 0.5, 0.1, 0.2, 0.3]))
    made.preprocess.mean.copy_(torch.tensor([0.0, 4.5, 0.4]))
    made.preprocess.scale.copy_(torch.tensor([1.0, 2.0, 0.1]))
    seen = list[torch.Tensor]()
    made.body.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    ids = torch.tensor([[1, 3]]).expand(1000, 2)
    with torch.no_grad():
        made.train()(torch.ones(1000, 1), ids)
        made.eval()(torch.ones(1000, 1), ids)
    trained, served = seen
    masked = (trained[:, 10:] == 0).all(1)
    assert 400 < int(masked.sum()) < 600
    log = float(np.log(2))
    torch.testing.assert_close(trained[masked, :3].unique(dim=0), torch.tensor([[log, -2.25, 1.0]]))
    torch.testing.assert_close(trained[~masked, :3].unique(dim=0), torch.tensor([[log, 0.75, -1.0]]))
    torch.testing.assert_close(served[:, :3].unique(dim=0), torch.tensor([[log, 0.75, -1.0]]))
