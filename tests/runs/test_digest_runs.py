"""What a digest says of runs: each state, and what has changed since the last one."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.request import Outcome, RunKind, RunPlan
from ratchet.contracts.stages import REGULAR
from ratchet.runs.answers import record_answer
from ratchet.runs.digest_runs import recent_runs, what_ran
from ratchet.runs.run_index import note_end, note_plan
from ratchet.store.base import Store
from ratchet.store.file import FileStore
from ratchet.store.ledger import append
from tests.runs.recorded import keep, keep_plan
from tests.runs.test_requests import CONTENT, DAY, JUDGED, OUTCOMES, outcome, plan
from tests.store.test_ledger import change

NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
SINCE = NOW - timedelta(days=1)
GAIN = {"value": 0.02, "low": 0.01, "high": 0.03}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return FileStore(tmp_path)


def ran(
    store: Store, run_id: str, *ended: Outcome, hours: float = 6, back: int = 0, kind: RunKind = "scheduled"
) -> RunPlan:
    """A run that was planned some hours before NOW, with its line in the index."""
    created, day = NOW - timedelta(hours=hours), DAY - timedelta(days=back)
    made = keep_plan(store, plan(run_id=run_id, kind=kind, data_date=day, created=created))
    note_plan(store, made)
    if ended:
        keep(store, made, *ended)
        note_end(store, made)
    return made


def judged(verdict: str, *without: str, **register: Any) -> list[Outcome]:
    """The outcomes of a run that came to a verdict."""
    summary = {"model": "small", "version": "7", "mlflow_run_id": "m", "promoted": False, **register}
    found = {
        **OUTCOMES,
        "evaluate": outcome("evaluate", summary={**JUDGED, "verdict": verdict, "gain": GAIN}),
        "register": outcome("register", summary=summary),
    }
    return [found[stage] for stage in REGULAR if stage not in without]


def said(store: Store, told: Mapping[str, str] | None = None) -> str | None:
    found = what_ran(store, "small", recent_runs(store, "small", NOW), since=SINCE, told=told or {})
    return found.text if found is not None else None


def test_a_promotion_is_what_the_ledger_or_register_says(store: Store) -> None:
    ran(store, "r", *judged("promote"))
    append(store, change("7", 20, model="small", model_digest=CONTENT), after=0)
    assert said(store) == f"small {DAY}: promoted: version 7; gain +2 % (+1 % to +3 %)"


def test_a_refit_that_was_promoted_is_promoted_though_the_ledger_names_another_digest(store: Store) -> None:
    ran(store, "r", *judged("promote", promoted=True, refit_of=CONTENT))
    append(store, change("7", 20, model="small", model_digest="e" * 64), after=0)
    assert said(store) == f"small {DAY}: promoted: version 7; gain +2 % (+1 % to +3 %)"


def test_what_was_withheld_says_why_and_a_person_who_said_no_is_named(store: Store) -> None:
    ran(store, "held", *judged("promote", withheld="promotions are held by ada: sale"), back=1)
    made = ran(store, "refused", *judged("promote", "register"))
    assert f"{DAY}: withheld: it was not registered; gain" in str(said(store))
    record_answer(store, made, "no", by="ada", at=NOW, text="too risky", evaluation=CONTENT)
    assert said(store) == (
        f"small {DAY - timedelta(days=1)}: withheld: version 7: promotions are held by ada: sale; gain +2 % (+1 % to +3 %); "
        f"{DAY}: withheld: no of ada at 2026-11-21 08:00 UTC: too risky; gain +2 % (+1 % to +3 %)"
    )


def test_a_damaged_answer_is_said_and_hides_nothing(store: Store) -> None:
    ran(store, "r", *judged("promote", "register"))
    store.create(paths.answer("small", "r", 1), b"{")
    assert f"{DAY}: withheld: " in str(said(store))
    assert "approval-1.json" in str(said(store))


def test_a_failure_has_its_cause_and_a_verdict_its_gain(store: Store) -> None:
    ran(store, "failed", Outcome(stage="validate", state="failed", because="2 of 25\n- checks failed"), back=2)
    ran(store, "reject", *judged("reject", "register"), back=1)
    ran(store, "unclear", *judged("inconclusive", "register"))
    assert said(store) == (
        f"small {DAY - timedelta(days=2)}: failed: validate: 2 of 25 - checks failed; "
        f"{DAY - timedelta(days=1)}: rejected; gain +2 % (+1 % to +3 %); "
        f"{DAY}: inconclusive: better by 2 %; gain +2 % (+1 % to +3 %)"
    )


def test_a_run_that_was_running_is_told_again_when_it_has_ended_and_no_sooner(store: Store) -> None:
    made = ran(store, "r", hours=25)
    assert said(store) is None  # it started before, and nobody was told of it
    told = {"r": "still running"}
    assert said(store, told) is None
    keep(store, made, *judged("reject", "register"))
    note_end(store, made)
    assert str(said(store, told)).startswith(f"small {DAY}: rejected")
    assert said(store, {"r": "rejected"}) is None


def test_a_run_that_failed_and_was_promoted_later_is_told_again(store: Store) -> None:
    ran(store, "r", *judged("promote", promoted=True), hours=30)
    assert str(said(store, {"r": "failed"})).startswith(f"small {DAY}: promoted")


def test_a_run_that_started_since_is_told_once(store: Store) -> None:
    ran(store, "r")
    assert said(store) == f"small {DAY}: still running"
    assert said(store, {"r": "still running"}) is None


def test_many_dates_are_counts_and_the_worst_of_them(store: Store) -> None:
    for back in range(1, 5):
        ran(store, f"b{back}", *judged("promote", withheld="a backfill"), back=back, kind="backfill")
    assert str(said(store)).startswith(
        f"small {DAY - timedelta(days=4)} to {DAY - timedelta(days=1)}: 4 would promote; "
    )
    ran(store, "failed", Outcome(stage="ingest", state="failed", because="no rows"), kind="backfill")
    assert said(store) == (
        f"small {DAY - timedelta(days=4)} to {DAY}: 1 failed, 4 would promote; {DAY}: failed (backfill): ingest: no rows"
    )


def test_a_run_of_long_ago_is_not_looked_at(store: Store) -> None:
    ran(store, "r", *judged("reject", "register"), hours=24 * 8)
    assert recent_runs(store, "small", NOW) == []
