"""What the gate says of scores; no model and no store are needed for that."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ratchet.contracts.fingerprint import digest
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Champion, Judgement
from ratchet.metrics.metrics import Floats, Rows
from ratchet.model.holdout import Holdout
from tasks.evaluate.baseline import Baseline
from tasks.evaluate.judging import judge
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


def spec(**changes: Any) -> PipelineSpec:
    columns = {**SPEC["columns"], "clicked": {"role": "label", "type": "float64"}}
    return PipelineSpec.model_validate({**SPEC, "columns": columns, "train": {"objective": "regression"}, **changes})


def production(scores: Floats | None = BAD, **changes: Any) -> Baseline:
    champion = Champion(model="shop", number=1, version="7", digest=THEIRS, data_date=DAY, manifests={})
    return replace(Baseline(champion=champion, scores=scores), **changes)


def judged(
    candidate: Floats, baseline: Baseline | None, held: Holdout = HELD, folder: Path = Path(), **changes: Any
) -> Judgement:
    return judge(spec(**changes), held, candidate, baseline, OURS, folder)[0]


def ending(judgement: Judgement) -> tuple[str, str, str]:
    return judgement.verdict, judgement.reason, judgement.baseline_kind


def test_without_a_champion_the_baseline_is_a_constant_and_no_margin_is_asked_for() -> None:
    found, constant = judge(spec(), HELD, GOOD, None, OURS, Path())
    assert ending(found) == ("promote", "first-model", "constant")
    assert (found.min_gain, found.baseline) == (0, None)
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
    assert ending(found) == ("inconclusive", "too-small-to-tell", "champion")
    assert "auc" not in found.candidate_metrics
    assert (found.gain.value, found.gain.low, found.gain.high) == (0, 0, 0)


def test_one_country_that_loses_stops_a_model_that_is_better_on_the_whole() -> None:
    french = (HELD.frame["country"] == "FR").to_numpy()
    candidate = np.where(french, LABEL + 0.7 * NOISE, LABEL + 0.01 * NOISE)
    found = judged(candidate, production())
    assert ending(found) == ("reject", "slice-loss", "champion")
    assert found.gain.low > 0.01
    assert {one.value: one.passed for one in found.slices} == {"DE": True, "FR": False}
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
