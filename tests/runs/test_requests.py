"""Fingerprints: what a change rebuilds, and what it leaves alone."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.loading import loads
from ratchet.contracts.request import Outcome, Pins, Promotion, RunPlan, SourceDay, SourceFile
from ratchet.contracts.result import Artifact, StageResult
from ratchet.contracts.stages import REGULAR, STAGES, Stage
from ratchet.runs.pins import pins
from ratchet.runs.requests import compose, why_skipped
from ratchet.runtime.release import stage_libraries
from ratchet.store.ledger import Change, append
from ratchet.store.memory import MemoryStore

SPEC = """
name: small
source: {kind: files, uri: "/data/date={date}/*.parquet", window_days: 3}
columns:
  country: {role: categorical, type: string}
  x: {role: numeric, type: float64, min: 0}
  y: {role: label, type: int64}
train: {objective: binary}
evaluate: {slices: [country]}
"""
DAY = date(2026, 11, 20)
CONTENT = digest(b"content")
TRAINED: dict[str, Any] = {
    "digest": CONTENT,
    "objective": "binary",
    "split": {"train": [], "valid": [], "holdout": []},
    "evaluations": [],
    "best": 1,
    "batch_size": 1,
    "parameters": 1,
    "rows": 1,
}
SNAPSHOT: dict[str, Any] = {"table": "t", "version": 0, "days": []}
JUDGED: dict[str, Any] = {
    "verdict": "promote", "reason": "better", "explanation": "better by 2 %", "metric": "auc", "baseline_kind": "constant",
    "baseline": None, "candidate_metrics": {}, "baseline_metrics": {}, "gain": {"value": 0, "low": 0, "high": 0},
    "smallest_visible_gain": 0, "min_gain": 0, "confidence": 0.95, "holdout": [], "rows": 1,
}  # fmt: skip


def plan(overrides: dict[str, Any] | None = None, **changes: Any) -> RunPlan:
    made = RunPlan(
        run_id="r",
        kind="local",
        spec=loads(SPEC, overrides=overrides),
        bundle=Artifact(key="bundles/x.tar", sha256=digest(b""), bytes=0),
        user_files={"features.py": digest(b"1")},
        data_date=DAY,
        source_root="/data",
        source=(SourceDay(day=DAY, files=(SourceFile(key="a", bytes=1, identity="1"),)),),
        promotion=Promotion(mode="auto"),
        champion=None,
        store="mem://requests",
        tracking_uri=None,
        pins=Pins(commit="c", image="process", python="3.11", libraries={}),
        created=datetime.now(UTC),
    )
    return made.model_copy(update=changes)


def outcome(stage: Stage, content: str = CONTENT, summary: dict[str, Any] | None = None) -> Outcome:
    result = StageResult(
        stage=stage, fingerprint=digest(b"f"), parts={}, content=content, outputs={}, attempt="a",
        finished=datetime.now(UTC), summary=summary or {},
    )  # fmt: skip
    return Outcome(stage=stage, state="done", manifest=f"{stage}/manifest.json", content=content, result=result)


OUTCOMES = {
    stage: outcome(stage, summary={"ingest": SNAPSHOT, "train": TRAINED, "evaluate": JUDGED}.get(stage))
    for stage in REGULAR
}


def fingerprints(made: RunPlan) -> dict[Stage, str]:
    store = MemoryStore("requests")
    return {stage: compose(store, made, stage, OUTCOMES, "a").fingerprint for stage in REGULAR}


@pytest.mark.parametrize(
    ("overrides", "rebuilt"),
    [
        ({"train.epochs": 1}, {"train", "report"}),
        ({"train.seed": 7}, {"train", "report"}),
        ({"gate.min_gain": 0.1}, {"evaluate", "report"}),
        ({"validate.volume.tolerance": "40%"}, {"validate", "report"}),
        ({"source.uri": "/elsewhere/date={date}/*.parquet"}, {"report"}),
        ({"register.model": "other"}, {"register", "report"}),
        ({"alerts.to": ["people"]}, {"report"}),
        ({"resources.train.memory": "9g"}, {"report"}),
        ({"evaluate.holdout_days": 2, "source.window_days": 4}, {"validate", "features", "evaluate", "report"}),
        ({"columns.x.min": 1}, {"validate", "features", "train", "evaluate", "report"}),
    ],
)
def test_a_change_of_the_file_rebuilds_what_it_touches_and_nothing_else(
    overrides: dict[str, Any], rebuilt: set[str]
) -> None:
    before, after = fingerprints(plan()), fingerprints(plan(overrides))
    assert {stage for stage in REGULAR if before[stage] != after[stage]} == rebuilt


def test_a_champion_that_was_evaluated_by_other_code_is_another_baseline() -> None:
    def promoted(evaluation: str) -> str:
        store = MemoryStore(f"requests-{evaluation}")
        change = Change(
            model="small", action="promote", version="1", fingerprint=digest(b"f"), model_digest=digest(b"champion"),
            manifests={"train": "train", "evaluate": evaluation}, data_date=DAY, window_start=DAY, pipeline="small",
            run_id="before", reason="better", baseline=None, recorded=datetime.now(UTC),
        )  # fmt: skip
        append(store, change, after=0)
        return compose(store, plan(), "evaluate", OUTCOMES, "a").fingerprint

    assert promoted("one") != promoted("another")


def test_a_champion_that_a_person_put_back_is_another_baseline_on_each_day_of_that() -> None:
    def judged_on(day: int | None) -> str:
        store = MemoryStore(f"requests-by-hand-{day}")
        change = Change(
            model="small", action="rollback" if day else "promote", version="1", fingerprint=digest(b"f"),
            model_digest=digest(b"champion"), manifests={}, data_date=DAY, window_start=DAY, pipeline="small",
            run_id="before", reason="why", baseline=None, by_hand=day is not None,
            recorded=datetime(2026, 12, day or 1, tzinfo=UTC),
        )  # fmt: skip
        append(store, change, after=0)
        return compose(store, plan(), "evaluate", OUTCOMES, "a").fingerprint

    assert len({judged_on(None), judged_on(1), judged_on(2)}) == 3


def test_code_data_libraries_and_the_wish_to_rebuild_count() -> None:
    before = fingerprints(plan())
    touched = plan(source=(SourceDay(day=DAY, files=(SourceFile(key="a", bytes=1, identity="2"),)),))
    assert {stage for stage in REGULAR if fingerprints(touched)[stage] != before[stage]} == {"ingest"}
    code = plan(user_files={"features.py": digest(b"2")})
    assert {stage for stage in REGULAR if fingerprints(code)[stage] != before[stage]} == {"features", "train"}
    upgraded = plan(pins=Pins(commit="c", image="process", python="3.11", libraries={"torch": "3"}))
    for other in (upgraded, plan(rebuild=True)):
        assert not set(fingerprints(other).values()) & set(before.values())


def test_who_runs_it_where_and_when_does_not_count() -> None:
    again = plan(run_id="other", kind="manual", store="mem://other", created=datetime(2020, 1, 1, tzinfo=UTC))
    assert fingerprints(again) == fingerprints(plan())


def test_a_stage_without_its_inputs_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="features of run r: ingest has no result yet"):
        compose(MemoryStore("requests"), plan(), "features", {}, "a")
    with pytest.raises(
        ConfigurationError, match=r"register of run r: ingest has no result yet|train has no result yet"
    ):
        compose(MemoryStore("requests"), plan(), "register", {}, "a")


def test_the_report_is_made_of_whatever_there_is() -> None:
    failed = {"ingest": Outcome(stage="ingest", state="failed", because="no data")}
    request = compose(MemoryStore("requests"), plan(), "report", failed, "a")  # type: ignore[arg-type]
    assert request.inputs == {}
    assert request.parts["outcome.ingest"] == "failed no data"


def test_refit_and_register_are_skipped_unless_the_verdict_is_promote() -> None:
    spec = plan({"train.refit": True}).spec
    for stage in ("refit", "register"):
        assert why_skipped(spec, stage, OUTCOMES) is None  # type: ignore[arg-type]
        assert why_skipped(spec, stage, {}) is None  # type: ignore[arg-type]
    assert why_skipped(spec, "train", OUTCOMES) is None
    judged = {**JUDGED, "verdict": "reject", "explanation": "worse by 2 %"}
    rejected: dict[Stage, Outcome] = {"evaluate": outcome("evaluate", summary=judged)}
    assert {why_skipped(spec, stage, rejected) for stage in STAGES} == {None, "reject: worse by 2 %"}
    assert why_skipped(plan().spec, "refit", OUTCOMES) == "train.refit is false in this run"


def test_a_refit_that_its_guard_refuses_is_not_registered() -> None:
    compared = {"of": CONTENT, "loss": 9, "measured_loss": 1, "metric": "auc", "score": 0.5, "measured_score": 0.7}
    made = {**TRAINED, "refit": {**compared, "refused": "refit-diverged: the training loss is 9"}}
    refused = {**OUTCOMES, "refit": outcome("refit", summary=made)}
    assert why_skipped(plan({"train.refit": True}).spec, "register", refused) == made["refit"]["refused"]
    passed = {**OUTCOMES, "refit": outcome("refit", summary={**TRAINED, "refit": compared})}
    assert why_skipped(plan({"train.refit": True}).spec, "register", passed) is None


def refitted(content: str = "refitted") -> dict[Stage, Outcome]:
    """The outcomes of a run with a refit. content: of what features fitted for it."""
    fitted = Artifact(key="f", sha256=digest(content.encode()), bytes=1)
    features = outcome("features")
    assert features.result
    result = features.result.model_copy(update={"outputs": {"refitted": fitted}})
    return {
        **OUTCOMES,
        "features": features.model_copy(update={"result": result}),
        "refit": outcome("refit", summary=TRAINED),
    }


def test_a_refit_leaves_what_was_measured_as_it_is_and_depends_on_what_was_fitted_for_it() -> None:
    store, made = MemoryStore("requests"), plan({"train.refit": True})
    before = fingerprints(plan())
    after = {stage: compose(store, made, stage, refitted(), "a") for stage in STAGES}
    assert {stage for stage in REGULAR if after[stage].fingerprint != before[stage]} == {
        "features", "register", "report"
    }  # fmt: skip
    assert set(after["refit"].inputs) == {"ingest", "features", "train"}
    assert "refit" in after["register"].inputs
    other = compose(store, made, "refit", refitted("other"), "a")
    assert other.fingerprint != after["refit"].fingerprint
    limited = compose(store, plan({"train.refit": True, "register.max_latency_ms": 9}), "refit", refitted(), "a")
    assert limited.fingerprint != after["refit"].fingerprint
    more = compose(store, plan({"train.refit": True, "train.epochs": 9}), "refit", refitted(), "a")
    assert more.fingerprint != after["refit"].fingerprint


def test_nothing_is_registered_in_the_place_of_a_refit_that_is_missing() -> None:
    without = {stage: ended for stage, ended in refitted().items() if stage != "refit"}
    with pytest.raises(ConfigurationError, match="register of run r: refit has no result yet"):
        compose(MemoryStore("requests"), plan({"train.refit": True}), "register", without, "a")


def test_pins_name_the_commit_the_image_and_the_libraries(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RATCHET_COMMIT", raising=False)
    assert pins(tmp_path, None).commit == "unknown"
    assert pins(tmp_path, None).image == "process"
    monkeypatch.setenv("RATCHET_COMMIT", "abc")
    assert pins(tmp_path, "ratchet-stage:cpu").commit == "abc"
    assert stage_libraries()["torch"] == "2.13.0"
