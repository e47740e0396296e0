"""What the gate says of scores; no model and no store are needed for that."""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ratchet.contracts.champion import Champion
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.repetition import Repetition
from ratchet.contracts.summaries import Judgement
from ratchet.metrics.metrics import Floats, Rows
from ratchet.model.holdout import Holdout
from tasks.evaluate.baseline import Baseline
from tasks.evaluate.judging import judge
from tasks.evaluate.night import Costs, Night, Table
from tests.shop import SPEC

DAY = date(2026, 11, 20)
ROWS = 600
OURS, THEIRS = digest(b"candidate"), digest(b"champion")
DRAW = np.random.default_rng(0)
LABEL = DRAW.normal(size=ROWS)
NOISE = DRAW.normal(size=ROWS)
GOOD, BAD = LABEL + 0.1 * NOISE, LABEL + 0.5 * NOISE
HELD = Holdout(
    frame=pd.DataFrame({"country": np.where(np.arange(ROWS) % 3 == 0, "FR", "DE"), "x": NOISE}),
    rows=Rows(label=LABEL, offsets=None),
    days=(DAY,),
)


NIGHT = Night(data_date=DAY, digest=OURS)


def spec(**changes: Any) -> PipelineSpec:
    columns = {**SPEC["columns"], "clicked": {"role": "label", "type": "float64"}}
    return PipelineSpec.model_validate({**SPEC, "columns": columns, "train": {"objective": "regression"}, **changes})


def production(scores: Floats | None = BAD, **changes: Any) -> Baseline:
    champion = Champion(model="shop", number=1, version="7", digest=THEIRS, data_date=DAY, manifests={})
    return replace(Baseline(champion=champion, scores=scores), **changes)


def judged(
    candidate: Floats,
    baseline: Baseline | None,
    held: Holdout = HELD,
    folder: Path = Path(),
    night: Night = NIGHT,
    **changes: Any,
) -> Judgement:
    return judge(spec(**changes), held, candidate, baseline, night, folder)[0]


def ending(judgement: Judgement) -> tuple[str, str, str]:
    return judgement.verdict, judgement.reason, judgement.baseline_kind


def test_without_a_champion_the_baseline_is_a_constant_by_the_file_s_margin() -> None:
    found, constant = judge(spec(), HELD, GOOD, None, NIGHT, Path())
    assert ending(found) == ("promote", "first-model", "constant")
    assert (found.min_gain, found.baseline) == (0.01, None)
    assert found.baseline_metrics == constant
    assert constant["rmse"] == pytest.approx(LABEL.std())
    assert "a constant scorer has" in found.explanation


def test_a_champion_is_compared_with_on_the_same_rows_by_the_file_s_margin() -> None:
    found = judged(GOOD, production())
    assert ending(found) == ("promote", "better", "champion")
    assert found.min_gain == 0.01
    assert found.gain.value == pytest.approx(0.8)
    assert found.candidate_metrics["rmse"] == pytest.approx(np.sqrt(np.mean((0.1 * NOISE) ** 2)))
    assert found.baseline_metrics["rmse"] == pytest.approx(np.sqrt(np.mean((0.5 * NOISE) ** 2)))
    assert (found.rows, found.groups, found.holdout) == (ROWS, None, (DAY,))
    assert ending(judged(BAD, production(GOOD))) == ("reject", "slice-loss", "champion")
    assert ending(judged(BAD, production(GOOD), evaluate={})) == ("reject", "not-better", "champion")


def test_the_same_scores_give_the_same_judgement() -> None:
    assert judged(GOOD, production()) == judged(GOOD, production())


@pytest.mark.parametrize(
    ("same", "how"), [(OURS, "is the same model"), (THEIRS, "gives each row the same score as the candidate")]
)
def test_scores_that_are_those_of_production_are_rejected_as_identical(same: str, how: str) -> None:
    champion = production().champion.model_copy(update={"digest": same})
    found = judged(GOOD, production(GOOD.copy(), champion=champion))
    assert ending(found) == ("reject", "identical", "champion")
    assert f"production (version 7) {how}" in found.explanation


def test_a_champion_that_saw_a_held_out_day_is_measured_but_never_replaced() -> None:
    found = judged(GOOD, production(seen=(DAY,)))
    assert ending(found) == ("inconclusive", "baseline-saw-holdout", "champion")
    assert f"held-out days ({DAY})" in found.explanation
    assert found.gain.low > 0.01


@pytest.mark.parametrize(
    ("trouble", "what"), [("baseline-missing", "is missing"), ("baseline-unreadable", "cannot be measured")]
)
def test_a_champion_that_cannot_be_asked_is_never_replaced_and_the_figures_are_against_a_constant(
    trouble: str, what: str
) -> None:
    found = judged(GOOD, production(None, trouble=trouble, cause="no weights"))
    assert ending(found) == ("inconclusive", trouble, "constant")
    assert f"production (version 7) {what}: no weights" in found.explanation
    assert "a constant scorer has" in found.explanation
    assert found.baseline is not None
    assert found.min_gain == 0.01


def test_a_champion_that_answers_in_another_form_is_never_replaced() -> None:
    found = judged(GOOD, production(np.zeros((ROWS, 3))))
    assert ending(found) == ("inconclusive", "baseline-unreadable", "constant")
    assert "of the shape (3,), the candidate of the shape ()" in found.explanation


@pytest.mark.parametrize("obstacle", [{"trouble": "baseline-missing"}, {"seen": (DAY,)}])
def test_an_obstacle_counts_even_where_the_candidate_is_worse(obstacle: dict[str, Any]) -> None:
    scores = None if "trouble" in obstacle else GOOD
    assert judged(BAD, production(scores, **obstacle)).verdict == "inconclusive"


def test_a_metric_without_a_value_on_these_rows_concludes_nothing() -> None:
    columns = {**SPEC["columns"], "clicked": {"role": "label", "type": "int64"}}
    without_a_positive = replace(HELD, rows=Rows(label=np.zeros(ROWS), offsets=None))
    settings = {"columns": columns, "train": {"objective": "binary"}, "evaluate": {"metric": "auc"}}
    found = judged(GOOD, production(), without_a_positive, **settings)
    assert ending(found) == ("inconclusive", "candidate-without-value", "champion")
    assert "auc has no value of the candidate on these rows" in found.explanation
    assert "auc" not in found.candidate_metrics
    assert (found.gain.value, found.gain.low, found.gain.high) == (0, 0, 0)


def test_one_country_that_loses_stops_a_model_that_is_better_on_the_whole() -> None:
    french = (HELD.frame["country"] == "FR").to_numpy()
    candidate = np.where(french, LABEL + 0.7 * NOISE, LABEL + 0.01 * NOISE)
    found = judged(candidate, production())
    assert ending(found) == ("reject", "slice-loss", "champion")
    assert found.gain.low > 0.01
    assert {one.value: one.outcome for one in found.slices} == {"DE": "passed", "FR": "failed"}
    assert ending(judged(candidate, production(), gate={"min_gain": "1%", "max_slice_loss": "90%"}))[0] == "promote"


def test_slices_of_a_derived_column_are_made_by_the_pipeline_s_own_code(tmp_path: Path) -> None:
    (tmp_path / "features.py").write_text("def derive(df):\n    return df.assign(high=df.x > 0)\n", encoding="utf-8")
    high = {"role": "categorical", "type": "bool", "derived": True}
    columns = {**SPEC["columns"], "clicked": {"role": "label", "type": "float64"}, "high": high}
    found = judged(GOOD, production(), HELD, tmp_path, columns=columns, evaluate={"slices": ["high"]})
    assert {one.value: one.rows for one in found.slices} == {
        "false": int((NOISE <= 0).sum()),
        "true": int((NOISE > 0).sum()),
    }


def test_a_first_model_has_to_beat_the_harder_of_a_constant_and_a_table() -> None:
    easy, hard = LABEL * 0 + LABEL.mean(), LABEL + 0.4 * NOISE
    night = replace(NIGHT, tables=[Table(column="country", scores=easy), Table(column="item", scores=hard)])
    found = judged(GOOD, None, night=night)
    assert ending(found) == ("promote", "first-model", "popularity")
    assert "the mean label by item has" in found.explanation
    assert ending(judged(BAD, None, night=night)) == ("reject", "slice-loss", "popularity")
    assert ending(judged(BAD, None)) == ("promote", "first-model", "constant")


def test_a_candidate_whose_scores_are_no_numbers_is_rejected_by_name() -> None:
    broken = GOOD.copy()
    broken[:7] = np.nan
    for baseline in (production(), None):
        found = judged(broken, baseline)
        assert (found.verdict, found.reason) == ("reject", "candidate-unreadable")
        assert "gives 7 rows a score that is no number" in found.explanation
        assert found.candidate_metrics == {}


LATE = replace(NIGHT, data_date=DAY + timedelta(days=15))


def test_a_stale_champion_need_not_be_beaten_but_may_not_be_lost_to() -> None:
    gate = {"min_gain": "1%", "stale_after": "14d", "max_stale_loss": "1%"}
    equal = BAD + 0.001 * np.random.default_rng(1).normal(size=ROWS)
    found = judged(equal, production(), night=LATE, gate=gate)
    assert (found.verdict, found.reason, found.stale_days, found.min_gain) == ("promote", "not-worse", 15, -0.01)
    assert "production's data are 15 days old, so it need not be beaten" in found.explanation
    assert judged(GOOD, production(), night=LATE, gate=gate).reason == "better"
    worse = LABEL + 0.6 * NOISE
    assert judged(worse, production(), night=LATE, gate=gate, evaluate={}).verdict == "reject"
    on_time = replace(LATE, data_date=DAY + timedelta(days=14))
    assert judged(equal, production(), night=on_time, gate=gate).verdict == "reject"


def test_a_champion_that_a_person_chose_is_as_old_as_their_choice_and_not_as_its_data() -> None:
    gate = {"min_gain": "1%", "stale_after": "7d", "max_stale_loss": "1%"}
    equal = BAD + 0.001 * np.random.default_rng(1).normal(size=ROWS)
    by_night = production()

    def after(days: int, baseline: Baseline) -> Judgement:
        return judged(equal, baseline, night=replace(NIGHT, data_date=DAY + timedelta(days=days)), gate=gate)

    assert after(20, by_night).reason == "not-worse"
    back = by_night.champion.model_copy(update={"chosen": DAY + timedelta(days=20)})
    by_person = production(champion=back)
    for days in (20, 21, 27):
        found = after(days, by_person)
        assert (found.verdict, found.stale_days, found.min_gain) == ("reject", None, 0.01)
    found = after(28, by_person)
    assert (found.reason, found.stale_days, found.min_gain) == ("not-worse", 28, -0.01)
    chosen_early = by_night.champion.model_copy(update={"chosen": DAY - timedelta(days=20)})
    assert after(7, production(champion=chosen_early)).verdict == "reject"  # its data are newer than the choice


def test_after_some_nights_a_champion_that_cannot_be_measured_asks_for_a_person() -> None:
    stuck = production(None, trouble="baseline-missing", cause="no weights")
    third = judged(GOOD, stuck, night=replace(NIGHT, unmeasured=2))
    assert ending(third) == ("inconclusive", "champion-unmeasurable", "constant")
    assert third.unmeasured_nights == 3
    assert "for 3 nights now production could not be measured" in third.explanation
    assert third.command in third.explanation
    assert 'ratchet rollback shop --because "..."' in third.command
    assert (third.offered, third.has_version) == (True, True)
    assert "promote the version that register makes of the candidate" in third.explanation
    worse = judged(LABEL * 0.0, stuck, night=replace(NIGHT, unmeasured=2))
    assert (worse.reason, worse.offered, worse.has_version) == ("champion-unmeasurable", False, False)
    assert worse.command in worse.explanation
    second = judged(GOOD, stuck, night=replace(NIGHT, unmeasured=1))
    assert (second.reason, second.unmeasured_nights, second.command) == ("baseline-missing", 2, "")
    assert not second.has_version
    assert judged(GOOD, production(), night=replace(NIGHT, unmeasured=5)).unmeasured_nights == 0


def test_a_later_attempt_needs_a_higher_bound_and_says_so() -> None:
    other = LABEL + 0.2 * np.random.default_rng(2).normal(size=ROWS)
    first = judged(other, production())
    third = judged(other, production(), night=replace(NIGHT, repetition=Repetition(number=3)))
    assert (first.attempt, first.level) == (1, pytest.approx(0.955))
    assert third.level == pytest.approx(1 - 0.05 * 0.1 * 6 / (np.pi * 2) ** 2)
    assert third.gain.low < first.gain.low
    assert third.explanation.startswith(f"third attempt at {DAY}: rmse is ")
    assert "with 99.924 % confidence at least" in third.explanation


def test_other_metrics_floors_and_costs_guard_a_promotion() -> None:
    costs = Costs(times=[(1.0, 1.0)] * 15, size=100, champion_size=50)
    night = replace(NIGHT, costs=costs)
    gate = {"guards": {"mae": "1%"}, "floors": {"rmse": 0.2}, "max_latency": 1.5, "max_size": 3}
    found = judged(GOOD, production(), night=night, gate=gate)
    assert found.verdict == "promote"
    assert {(one.kind, one.outcome) for one in found.guards} == {
        (kind, "passed") for kind in ("metric", "floor", "latency", "size")
    }
    assert judged(GOOD, production(), night=night, gate=gate | {"floors": {"rmse": 0.05}}).reason == "below-floor"
    assert judged(GOOD, production(), night=night, gate=gate | {"max_size": 1.5}).reason == "guard-loss"
    unmeasured = judged(GOOD, production(), gate={"max_latency": 1.5})
    assert (unmeasured.verdict, unmeasured.reason) == ("inconclusive", "guard-not-provable")
    assert "latency (not measurable)" in unmeasured.explanation
    warned = judged(GOOD, production(), gate={"max_latency": 1.5, "unproven_guards": "warn"})
    assert warned.verdict == "promote"
    assert "not provable: latency (not measurable)" in warned.explanation


def test_floors_hold_a_first_model_too() -> None:
    assert judged(GOOD, None, gate={"floors": {"rmse": 0.05}}).reason == "below-floor"
    close = float(judged(GOOD, None).candidate_metrics["rmse"]) * 1.001
    assert judged(GOOD, None, gate={"floors": {"rmse": close}}).reason == "floor-not-provable"


def test_slices_are_of_bins_and_expressions_too() -> None:
    slices = [{"column": "x", "bins": 2}, {"where": "x > 0 and country == 'FR'"}]
    found = judged(GOOD, production(), evaluate={"slices": slices})
    french = ((HELD.frame["country"] == "FR") & (HELD.frame["x"] > 0)).sum()
    assert [one.rows for one in found.slices] == [ROWS // 2, ROWS // 2, french]
    assert [one.outcome for one in found.slices] == ["passed", "passed", "not-provable"]  # the last has too few rows


OWN = "import numpy as np\n\ndef error(y, score, group):\n    return np.abs(y - score).mean()\n"


def test_a_function_of_the_folder_decides_guards_and_judges_slices_as_a_metric_of_ours(tmp_path: Path) -> None:
    (tmp_path / "metric.py").write_text(OWN, encoding="utf-8")
    name, gate = "metric.py:error:lower", {"min_gain": "1%", "floors": {"metric.py:error:lower": 0.2}}
    slices = {"slices": ["country"]}
    own = judged(GOOD, production(), folder=tmp_path, evaluate={"metric": name, **slices}, gate=gate)
    ours = judged(
        GOOD, production(), evaluate={"metric": "mae", **slices}, gate={"min_gain": "1%", "floors": {"mae": 0.2}}
    )
    assert ending(own) == ending(ours) == ("promote", "better", "champion")
    assert own.gain.value == pytest.approx(ours.gain.value)
    assert own.gain.low == pytest.approx(ours.gain.low, abs=0.05)
    assert own.candidate_metrics[name] == pytest.approx(own.candidate_metrics["mae"])
    assert [one.outcome for one in own.slices] == [one.outcome for one in ours.slices] == ["passed", "passed"]
    assert [one.outcome for one in own.guards] == ["passed"]
    worse = judged(BAD, production(GOOD), folder=tmp_path, evaluate={"metric": name}, gate={"min_gain": "1%"})
    assert worse.verdict == "reject"


@pytest.mark.parametrize("returned", ["float('nan')", "float('nan') if len(y) < 600 else np.abs(y - score).mean()"])
def test_a_metric_without_a_finite_value_never_promotes(tmp_path: Path, returned: str) -> None:
    (tmp_path / "metric.py").write_text(OWN.replace("np.abs(y - score).mean()", returned), encoding="utf-8")
    changes: dict[str, Any] = {"evaluate": {"metric": "metric.py:error:lower"}, "gate": {}}
    for baseline in (None, production()):
        assert judged(GOOD, baseline, folder=tmp_path, **changes).verdict == "inconclusive"


UNLESS_EQUAL = OWN.replace("np.abs(y - score).mean()", "np.abs(y - score).mean() if np.ptp(score) else float('nan')")


def test_a_rival_without_a_value_is_not_beaten_and_the_sentence_names_it(tmp_path: Path) -> None:
    (tmp_path / "metric.py").write_text(UNLESS_EQUAL, encoding="utf-8")
    changes: dict[str, Any] = {"evaluate": {"metric": "metric.py:error:lower"}, "gate": {}}
    alone = judged(GOOD, None, folder=tmp_path, **changes)
    assert ending(alone) == ("inconclusive", "baseline-without-value", "constant")
    assert "none of a constant scorer on the same rows" in alone.explanation
    assert "to do: let it return a finite number" in alone.explanation
    tables = [Table(column="item", scores=LABEL + 0.4 * NOISE), Table(column="country", scores=np.zeros(ROWS))]
    found = judged(GOOD, None, folder=tmp_path, night=replace(NIGHT, tables=tables), **changes)
    assert ending(found) == ("inconclusive", "baseline-without-value", "popularity")
    assert "none of a constant scorer and the mean label by country" in found.explanation
    assert "the mean label by item has" in found.explanation, "the figures of what was compared are shown"
    champion = judged(GOOD, production(np.zeros(ROWS)), folder=tmp_path, **changes)
    assert ending(champion) == ("inconclusive", "baseline-without-value", "champion")
    assert "none of production (version 7)" in champion.explanation
    assert ending(judged(GOOD, production(), folder=tmp_path, **changes))[:2] == ("promote", "better")


def test_where_the_candidate_has_no_value_itself_no_rival_is_blamed(tmp_path: Path) -> None:
    (tmp_path / "metric.py").write_text(UNLESS_EQUAL, encoding="utf-8")
    changes: dict[str, Any] = {"evaluate": {"metric": "metric.py:error:lower"}, "gate": {}}
    for baseline in (None, production()):
        found = judged(np.zeros(ROWS), baseline, folder=tmp_path, **changes)
        assert (found.verdict, found.reason) == ("inconclusive", "candidate-without-value")
        assert "metric.py:error:lower has no value of the candidate" in found.explanation


def test_a_metric_that_fails_ends_the_stage(tmp_path: Path) -> None:
    (tmp_path / "metric.py").write_text(OWN.replace("np.abs", "np.nothing"), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"^metric\.py:4: AttributeError"):
        judged(GOOD, production(), folder=tmp_path, evaluate={"metric": "metric.py:error:lower"})


def test_a_rival_over_which_nothing_can_be_concluded_is_not_beaten_however_large_the_gain() -> None:
    """A few rows make all of its error, so the gain over it is larger, and as good as unknown."""
    wild = GOOD.copy()
    wild[:5] += 1000
    found = judged(GOOD, None, night=replace(NIGHT, tables=[Table(column="item", scores=wild)]))
    assert ending(found) == ("inconclusive", "too-small-to-tell", "popularity")
