"""On a simulated night the gate decides as evaluate would on the rows of that night."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ratchet.contracts.gate import lower_is_better
from ratchet.contracts.repetition import Repetition
from ratchet.contracts.slices import Slice
from ratchet.metrics.metrics import Rows, measure
from ratchet.verdict.gate_check.draws import Draws, Night, ranges
from ratchet.verdict.gate_check.gate import GateKeys
from ratchet.verdict.gate_check.sample import Sample, pair_of
from ratchet.verdict.gate_check.slice_harm import Part, parts_of
from ratchet.verdict.guards import judge_slices
from ratchet.verdict.levels import compare_at
from ratchet.verdict.masks import slice_rows
from ratchet.verdict.slices import compare_slices
from tests.verdict.gate_check.seeded_samples import keys, of_users, ranked, rare, sample, skewed

SAMPLES = {
    "ndcg@10": ranked(200),
    "mrr@5": ranked(200),
    "rmse": skewed(300),
    "auc": rare(60, 1500),
    "pr_auc": rare(60, 900),
}
ENTRIES = (Slice(column="country"), Slice(column="price", bins=3), Slice(where='country == "FR" and price < 0.5'))


def rows_of(given: Sample, night: Night) -> tuple[np.ndarray, Rows]:
    """The rows of a night, each of its units a group or a row of its own."""
    index = ranges(given.unit_offsets, night.units)
    sizes = np.diff(given.unit_offsets)[night.units]
    offsets = None if given.rows.offsets is None else np.concatenate([[0], np.cumsum(sizes)])
    cluster = None if given.rows.cluster is None else np.repeat(np.arange(len(sizes)), sizes)
    return index, Rows(label=given.rows.label[index], offsets=offsets, cluster=cluster)


@pytest.mark.parametrize("metric", SAMPLES)
@pytest.mark.parametrize("number", [1, 7])
def test_a_night_has_the_comparison_that_its_rows_have(metric: str, number: int) -> None:
    given = SAMPLES[metric].measurable(metric)
    gate, pair = keys(metric, nights=2, seed=5), pair_of(given, metric)
    assert pair is not None
    for seed in range(3):
        night = Draws.single(pair.units).draw(np.random.default_rng(seed))
        index, rows = rows_of(given, night)
        whole = [measure(metric, rows, score[index]) for score in (given.candidate, given.baseline)]
        level = Repetition(number=number, nights=2).level(gate.confidence)
        assert whole[0] is not None
        assert whole[1] is not None
        wanted = compare_at(*whole, lower_is_better=lower_is_better(metric), level=level, seed=5)
        measured = pair.measure(night)
        assert measured is not None
        assert gate.comparison(measured, gate.of_attempt(number)) == wanted


def sliced(given: Sample) -> tuple[Sample, pd.DataFrame]:
    """A sample with every kind of slice, and the frame of its rows."""
    generator, count = np.random.default_rng(0), len(given.rows.label)
    frame = pd.DataFrame({"country": generator.choice(["DE", "FR", "US"], count), "price": generator.random(count)})
    return replace(given, slices=tuple(rows for one in ENTRIES for rows in slice_rows(one, frame))), frame


@pytest.mark.parametrize("policy", ["warn", "block"])
@pytest.mark.parametrize(
    ("metric", "whole"), [("ndcg@10", ranked(300)), ("mae", skewed(3000)), ("auc", rare(500, 3000))]
)
def test_the_slices_of_a_night_are_judged_as_those_of_its_rows(metric: str, whole: Sample, policy: str) -> None:
    given, frame = sliced(whole)
    worse = replace(given, candidate=np.where(frame["country"] == "FR", given.candidate[::-1], given.candidate))
    gate, parts = keys(metric, unproven_slices=policy, seed=5, max_slice_loss=0.02), parts_of(worse, metric)
    outcomes = set()
    for seed in range(4):
        night = Draws.single(len(given.unit_offsets) - 1).draw(np.random.default_rng(seed))
        index, rows = rows_of(given, night)
        wanted = [
            compared
            for one in (ENTRIES[0], ENTRIES[2])  # bins have the edges of the run, not those of the night
            for compared in compare_slices(
                one, frame.iloc[index], metric=metric, rows=rows, candidate=worse.candidate[index],
                baseline=given.baseline[index], confidence=gate.confidence, seed=5,
            )
        ]  # fmt: skip
        found = {one.title: one.compared(night, gate) for one in parts}
        chosen = [found[f"{one.column}={one.value}" if one.value else one.column] for one in wanted]
        judged = [judge_slices(one, max_loss=0.02, confidence=gate.confidence) for one in (wanted, chosen)]
        for right, mine in zip(*judged, strict=True):
            outcomes.add(right.outcome)
            if policy == "block":
                assert mine.outcome == right.outcome
            assert (mine.outcome == "failed") == (right.outcome == "failed")
    assert "failed" in outcomes
    assert len(outcomes) > 1


def test_a_cluster_is_drawn_with_all_its_rows() -> None:
    given = of_users(60, 10)
    user = given.others["user_id"].codes
    clustered = sample(Rows(label=given.rows.label, offsets=None, cluster=user), given.candidate, given.baseline)
    known, gate = clustered.measurable("logloss"), keys("logloss")
    pair = pair_of(known, "logloss")
    assert pair is not None
    assert pair.units == 60
    night = Draws.single(60).draw(np.random.default_rng(1))
    index, rows = rows_of(known, night)
    whole = [measure("logloss", rows, score[index]) for score in (known.candidate, known.baseline)]
    measured = pair.measure(night)
    assert measured is not None
    assert whole[0] is not None
    assert whole[1] is not None
    assert (
        gate.comparison(measured).gain
        == gate.compare(*whole, lower_is_better=True, confidence=gate.of_attempt(1), seed=0).gain
    )


def test_slices_by_bins_and_by_expression_are_parts_of_their_own() -> None:
    given, _ = sliced(SAMPLES["rmse"])
    titles = [part.title for part in parts_of(given, "rmse")]
    assert len(titles) == 3 + 3 + 1
    assert titles[-1] == 'country == "FR" and price < 0.5'
    assert all(isinstance(part, Part) for part in parts_of(given, "rmse"))


def test_the_nights_that_share_a_day_share_its_error() -> None:
    def gate(nights: int) -> GateKeys:
        return keys("auc", nights=nights)

    assert gate(1).level == pytest.approx(0.05)
    assert gate(4).level == pytest.approx(0.0125)
    assert sum(1 - gate(4).of_attempt(number) for number in range(1, 21)) < 0.0125
