"""Whether a candidate answers a service as it was measured."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratchet.contracts.gate import Register
from ratchet.contracts.judgements import Service
from ratchet.contracts.summaries import Judgement
from ratchet.model.service import ROWS, draw, refusal
from ratchet.store.memory import MemoryStore
from tests.shop import SPEC, Shop

FRAME = "def derive(df):\n    return df.assign(x=df.x - df.x.mean())\n"
IN_GROUP = "def derive(df):\n    return df.assign(x=df.x - df.groupby('query').x.transform('mean'))\n"
CLICK_RATE = {**SPEC, "train": {"objective": "binary"}}
QUICK = Service(rows=ROWS, unit="row", latency_ms=1.0, memory=1 << 30)


def judged(folder: Path, code: str, document: dict[str, Any] = SPEC, x: float = 1.0) -> Judgement:
    shop = Shop.make(MemoryStore(str(folder)), folder / "scratch", document=document)
    if code:
        (shop.pipeline / "features.py").write_text(code)
    return shop.evaluate(shop.train(x, code=code))[0]


def test_a_model_that_scores_the_same_in_every_way_is_asked_for_200_rows_and_promoted(tmp_path: Path) -> None:
    found = judged(tmp_path, "")
    assert (found.verdict, found.reason) == ("promote", "first-model")
    assert found.service is not None
    assert (found.service.rows, found.service.unit) == (200, "row")
    assert 0 < found.service.latency_ms < 250
    assert 50 << 20 < (found.service.memory or 0) < 2 << 30


@pytest.mark.parametrize("document", [SPEC, CLICK_RATE], ids=["ranking", "binary"])
def test_a_score_that_depends_on_the_rows_beside_it_is_refused_with_the_row_and_both_scores(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    found = judged(tmp_path, FRAME, document)
    assert (found.verdict, found.reason) == ("reject", "not-as-served")
    assert "held-out row" in found.explanation
    unit = "group" if document is SPEC else "row"
    assert f"in its {unit} alone" in found.explanation
    assert found.gain.low > 0


def test_in_a_ranking_a_score_may_depend_on_the_rows_of_its_group_and_groups_are_asked_for(tmp_path: Path) -> None:
    found = judged(tmp_path, IN_GROUP)
    assert (found.verdict, found.reason) == ("promote", "first-model")
    assert found.service is not None
    assert (found.service.unit, found.service.rows >= 200) == ("group", True)
    assert judged(tmp_path / "rows", IN_GROUP, CLICK_RATE).reason == "not-as-served"


@pytest.mark.parametrize(("key", "value", "reason"), [("max_latency_ms", 0.001, "too-slow"), ("max_memory", "1m", "too-large")])  # fmt: skip
def test_a_model_beyond_a_limit_is_refused_by_the_name_of_the_key(
    tmp_path: Path, key: str, value: object, reason: str
) -> None:
    found = judged(tmp_path, "", {**SPEC, "register": {key: value}})
    assert (found.verdict, found.reason) == ("reject", reason)
    assert f"register.{key}" in found.explanation


def test_a_model_that_is_rejected_anyway_keeps_its_reason(tmp_path: Path) -> None:
    found = judged(tmp_path, FRAME, x=-1.0)
    assert found.verdict == "reject"
    assert found.reason != "not-as-served"


def test_a_candidate_without_numbers_is_rejected_by_name(tmp_path: Path) -> None:
    shop = Shop.make(MemoryStore(str(tmp_path)), tmp_path / "scratch")
    for champion in (None, shop.crown(shop.train(1.0))):
        found = shop.evaluate(shop.train(float("nan")), champion)[0]
        assert (found.verdict, found.reason) == ("reject", "candidate-unreadable")
        assert "no number" in found.explanation


def test_the_rows_to_ask_for_are_the_same_for_the_same_holdout_and_whole_groups_where_groups_are_asked_for() -> None:
    one, again = draw(5000, None), draw(5000, None)
    assert (one.places == again.places).all()
    assert len(set(one.places.tolist())) == ROWS
    offsets = np.array([0, 150, 160, 400, 401])
    found = draw(401, offsets)
    assert len(found.places) >= ROWS
    starts = found.places[found.bounds[:-1]]
    assert set(starts.tolist()) <= set(offsets.tolist())
    assert found.bounds[-1] == len(found.places)
    assert draw(3, np.array([0, 3])).bounds.tolist() == [0, 3]


def test_the_last_bit_counts_unless_code_of_the_pipelines_own_is_in_the_model() -> None:
    scores = np.linspace(0.1, 0.9, 50)
    sample = draw(50, None)
    near = scores * (1 + 1e-7)
    for found, rounds, refused in ((scores, False, False), (near, True, False), (near, False, True), (scores + 0.01, True, True)):  # fmt: skip
        said = refusal(scores, [found, scores, scores], QUICK, sample, Register(), rounds=rounds)
        assert (said is not None) == refused
    assert refusal(scores, [scores[:, None]], QUICK, sample, Register(), rounds=True) is not None
    no_limit = Register.model_validate({"max_latency_ms": None, "max_memory": None})
    large = replace_service(latency_ms=1e6, memory=1 << 50)
    assert refusal(scores, [scores] * 3, large, sample, no_limit, rounds=False) is None
    assert refusal(scores, [scores] * 3, large, sample, Register(), rounds=False) is not None


def test_memory_that_nobody_knows_is_no_pass_where_there_is_a_limit() -> None:
    scores, sample, unknown = np.linspace(0.1, 0.9, 50), draw(50, None), replace_service(memory=None)
    said = refusal(scores, [scores] * 3, unknown, sample, Register(), rounds=False)
    assert said is not None
    assert said[0] == "memory-unknown"
    assert "register.max_memory" in said[1]
    no_limit = Register.model_validate({"max_memory": None})
    assert refusal(scores, [scores] * 3, unknown, sample, no_limit, rounds=False) is None


def replace_service(**changes: Any) -> Service:
    return QUICK.model_copy(update=changes)


def test_probabilities_of_classes_are_compared_one_by_one() -> None:
    scores = np.random.default_rng(0).dirichlet([1, 1, 1], size=30)
    other = scores.copy()
    other[7] = other[7][::-1]
    said = refusal(scores, [scores, other, scores], QUICK, draw(30, None), Register(), rounds=False)
    assert said is not None
    assert "held-out row 7 scores" in said[1]
    assert said[1].count(", ") >= 4
