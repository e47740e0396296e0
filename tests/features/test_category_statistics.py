"""Statistics of categories: of which days they are, how far they are to be believed, and that they hold no own label."""

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tasks.features import category_statistics
from tasks.features.category_statistics import Fitted, Source, fit_statistics, label_sums
from tasks.features.statistics import count_ids, merge, moments, vocabulary

FIRST = date(2026, 3, 1)
Day = tuple[Sequence[int], Sequence[float]]


def fitted(
    days: Sequence[Day],
    *,
    learnt: int,
    weights: Sequence[Sequence[float]] | None = None,
) -> Fitted:
    """Fit on days of (ids, labels) of one column. learnt: the first ones, for training."""
    ids = [np.array(one, np.int64).reshape(-1, 1) for one, _ in days]
    labels = [np.array(label, np.float64) for _, label in days]
    shares = [np.array(one, np.float64) for one in weights] if weights else [None] * len(days)
    counts = [count_ids(one) for one in ids]
    dates = [FIRST + timedelta(days=number) for number in range(len(days))]
    each = zip(ids, labels, shares, counts, strict=True)
    source = Source(
        wanted=[(0, "count"), (0, "target_mean")],
        days=dates,
        counts=counts,
        sums=[label_sums(one, label, share, [0], own, rows_at_once=3) for one, label, share, own in each],
        learnt=dates[:learnt],
        label=merge(moments(labels[day], weight=shares[day]) for day in range(learnt)),
    )
    return fit_statistics(source, [vocabulary(counts, 0, 2)], 48)


def of_day(found: Fitted, day: int) -> np.ndarray:
    """The statistics of a day's rows, as the buffer of a network has them."""
    table = found.statistics.copy()
    places, values = found.of_days[FIRST + timedelta(days=day)]
    table[places] = values
    return table


def test_a_row_gets_the_training_days_before_it_and_a_new_row_gets_every_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids 1, 2 and 3, of which 3 is met once and so unknown; the last two days are for validation."""
    monkeypatch.setattr(category_statistics, "_SURE", 0.0)  # so few rows prove nothing
    days: list[Day] = [
        ([1, 1, 1, 2], [1, 1, 0, 0]),
        ([1, 2, 2, 3], [1, 0, 1, 1]),
        ([2, 2, 2, 2], [0, 0, 0, 0]),
        ([1, 1, 2, 2], [1, 1, 1, 1]),
        ([1, 2, 2, 2], [0, 0, 0, 0]),
    ]
    found = fitted(days, learnt=3)
    mean = 5 / 12
    assert found.statistics[3] == pytest.approx(mean)
    assert_allclose(np.expm1(found.statistics[:3]), [0, 7, 12])
    z = (found.statistics[4] - mean) / (5 / 7 - 9 / 20)
    k = 7 * (1 - z) / z
    assert k > 0

    def expected(weight: float, positive: float, of_all: float) -> float:
        return mean + weight / (weight + k) * (positive / weight - of_all)

    assert found.statistics[5] == pytest.approx(expected(12, 3, 9 / 20))
    missing = [False, True, True] * 2
    assert_array_equal(np.isnan(of_day(found, 0)), missing)  # else what is not known would tell the labels of this day
    assert_array_equal(of_day(found, 0)[::3], [0.0, found.statistics[3]])
    second = of_day(found, 1)
    assert_allclose(np.expm1(second[1:3]), np.array([3, 1]) * 20 / 4)
    assert_allclose(second[4:6], [expected(3, 2, 2 / 4), expected(1, 0, 2 / 4)])
    third = of_day(found, 2)
    assert np.expm1(third[2]) == pytest.approx(3 * 20 / 8)
    assert third[5] == pytest.approx(expected(3, 1, 5 / 8))
    for validated in (3, 4):
        one = of_day(found, validated)
        assert_allclose(np.expm1(one[1:3]), np.array([4, 7]) * 20 / 12)
        assert_allclose(one[4:6], [expected(4, 3, 5 / 12), expected(7, 1, 5 / 12)])


def test_labels_of_a_day_and_of_later_ones_change_no_statistics_of_its_rows() -> None:
    """Two days with the same ids change their labels, which leaves the constants of the column as they are."""
    draw = np.random.default_rng(0)
    ids = [draw.integers(0, 40, 300) for _ in range(3)]
    ids.append(ids[2])
    labels = [(draw.random(300) < 0.2 + 0.6 * (one % 2)).astype(float) for one in ids]
    found = fitted(list(zip(ids, labels, strict=True)), learnt=4)
    other = fitted(list(zip(ids, [*labels[:2], labels[3], labels[2]], strict=True)), learnt=4)
    assert_allclose(found.statistics, other.statistics, rtol=1e-12)
    same = [np.allclose(of_day(found, day), of_day(other, day), rtol=1e-12, equal_nan=True) for day in range(4)]
    assert same == [True, True, True, False]


@pytest.mark.parametrize("effect", [0.0, 0.05, 0.2])
def test_a_mean_is_believed_by_what_values_tell(effect: float) -> None:
    """Labels of 200 values with a known spread: k is the variance within a value over that between them."""
    draw = np.random.default_rng(1)
    means = 0.5 + effect * draw.choice([-1, 1], 200)
    days: list[Day] = []
    for _ in range(5):
        ids = draw.integers(0, 200, 4000)
        days.append((ids, (draw.random(4000) < means[ids]).astype(float)))
    found = fitted(days, learnt=5)
    table = found.statistics[len(found.statistics) // 2 :]
    spread = float(np.std(table[1:]))
    if effect:
        k = (0.25 - effect**2) / effect**2
        expected = 100 / (100 + k) * np.hypot(effect, np.sqrt(0.25 / 100))
        assert spread == pytest.approx(expected, rel=0.15)
    else:
        assert spread < 0.01


def test_values_that_are_met_on_one_day_alone_tell_a_row_of_training_nothing() -> None:
    draw = np.random.default_rng(2)
    days: list[Day] = [(np.repeat(np.arange(50), 2) + 50 * day, draw.random(100).round()) for day in range(4)]
    found = fitted(days, learnt=4)
    for day in range(4):
        own = of_day(found, day)[found.of_days[FIRST + timedelta(days=day)].places]
        assert_array_equal(own, np.repeat([0.0, found.statistics[201]] if day else np.nan, 50 if day else 100))


def test_a_row_of_weight_two_counts_as_two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(category_statistics, "_SURE", 0.0)  # so few rows prove nothing
    days: list[Day] = [([1, 1, 2, 2], [1, 0, 0, 0]), ([1, 2, 2, 1], [1, 1, 0, 1]), ([1, 1, 2, 2], [1, 1, 0, 0])]
    weights = [[2.0, 1, 1, 1], [1.0, 1, 1, 1], [1.0, 1, 1, 1]]
    found = fitted(days, learnt=3, weights=weights)
    assert_allclose(np.expm1(found.statistics[1]), 7)
    assert_allclose(np.expm1(of_day(found, 1)[1]), 3 * 13 / 5)
    heavy = fitted(days, learnt=3, weights=[[1000 * one for one in day] for day in weights])
    assert_allclose(heavy.statistics[3:], found.statistics[3:], rtol=1e-12)
    none = fitted(days, learnt=3, weights=[[0.0, 0, 1, 1], [0.0, 1, 1, 0], [0.0, 0, 1, 1]])
    assert none.statistics[4] == none.statistics[3]


def test_a_row_of_weight_0_counts_as_none() -> None:
    draw = np.random.default_rng(0)
    days: list[Day] = []
    for _ in range(3):
        ids = np.repeat(np.arange(40), 50)
        days.append((ids, (draw.random(2000) < 0.4 + 0.2 * (ids % 2)).astype(float)))
    more = [(np.append(ids, draw.integers(0, 40, 20000)), np.append(label, np.ones(20000))) for ids, label in days]
    weights = [np.append(np.ones(2000), np.zeros(20000))] * 3
    found, padded = fitted(days, learnt=3), fitted(more, learnt=3, weights=weights)
    assert np.ptp(found.statistics[42:]) > 0.1
    assert_allclose(padded.statistics, found.statistics, rtol=1e-12)


@pytest.mark.parametrize("chance", [0.01, 0.3])
def test_random_labels_give_a_constant(chance: float) -> None:
    """Most values have a row or two, and a few have many: rare labels of 1 then lie unevenly by chance alone."""
    constant = 0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        ids = [np.minimum(draw.zipf(1.4, 1000), 10**6) for _ in range(4)]
        found = fitted([(one, (draw.random(1000) < chance).astype(float)) for one in ids], learnt=4)
        constant += np.ptp(found.statistics[len(found.statistics) // 2 :]) == 0
    assert constant >= 18


def test_counts_of_equally_frequent_values_lie_near_their_mean_in_training_too() -> None:
    draw = np.random.default_rng(0)
    days: list[Day] = [(draw.integers(0, 2, 1000 + day % 2), np.zeros(1000 + day % 2)) for day in range(8)]
    found = fitted(days, learnt=7)
    count = found.numbers[0]
    trained = np.concatenate([of_day(found, day)[1:3] for day in range(1, 7)])
    assert np.abs((trained - count.mean) / count.std).max() < 1


def test_a_column_is_added_up_once_for_all_of_its_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    made, column = list[int](), category_statistics._Column

    def counted(source: Source, place: int) -> object:
        made.append(place)
        return column(source, place)

    monkeypatch.setattr(category_statistics, "_Column", counted)
    fitted([([1, 2], [0, 1]), ([1, 2], [1, 0])], learnt=2)
    assert made == [0]
