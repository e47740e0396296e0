"""Fingerprints: what a change rebuilds, and what it leaves alone."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.loading import loads
from ratchet.contracts.request import Outcome, Pins, Promotion, RunPlan, SourceDay, SourceFile
from ratchet.contracts.result import Artifact, StageResult
from ratchet.contracts.stages import STAGES, Stage
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
    "epochs": [],
    "best_epoch": 1,
    "batch_size": 1,
    "parameters": 1,
    "rows": 1,
}
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


OUTCOMES = {stage: outcome(stage, summary={"train": TRAINED, "evaluate": JUDGED}.get(stage)) for stage in STAGES}


def fingerprints(made: RunPlan) -> dict[Stage, str]:
    store = MemoryStore("requests")
    return {stage: compose(store, made, stage, OUTCOMES, "a").fingerprint for stage in STAGES}


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
    assert {stage for stage in STAGES if before[stage] != after[stage]} == rebuilt


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


def test_code_data_libraries_and_the_wish_to_rebuild_count() -> None:
    before = fingerprints(plan())
    touched = plan(source=(SourceDay(day=DAY, files=(SourceFile(key="a", bytes=1, identity="2"),)),))
    assert {stage for stage in STAGES if fingerprints(touched)[stage] != before[stage]} == {"ingest"}
    code = plan(user_files={"features.py": digest(b"2")})
    assert {stage for stage in STAGES if fingerprints(code)[stage] != before[stage]} == {"features", "train"}
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


def test_register_is_skipped_unless_the_verdict_is_promote() -> None:
    assert why_skipped("register", OUTCOMES) is None
    assert why_skipped("register", {}) is None
    assert why_skipped("train", OUTCOMES) is None
    rejected = {"evaluate": outcome("evaluate", summary={**JUDGED, "verdict": "reject", "explanation": "worse by 2 %"})}
    assert why_skipped("register", rejected) == "reject: worse by 2 %"  # type: ignore[arg-type]


def test_pins_name_the_commit_the_image_and_the_libraries(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RATCHET_COMMIT", raising=False)
    assert pins(tmp_path, None).commit == "unknown"
    assert pins(tmp_path, None).image == "process"
    monkeypatch.setenv("RATCHET_COMMIT", "abc")
    assert pins(tmp_path, "ratchet-stage:cpu").commit == "abc"
    assert stage_libraries()["torch"] == "2.13.0"
