"""A source that is late is waited for, and one that changes after the plan is planned again: the run is not lost."""

import os
import re
import threading
import time
from datetime import date, timedelta
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import DataRejected
from ratchet.contracts.loading import load
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.runners.process import ProcessRunner
from ratchet.runs import replanning
from ratchet.runs.events import Event
from ratchet.runs.history import plan_of
from ratchet.runs.local_run import run_stages
from ratchet.runs.outcomes import outcomes
from ratchet.runs.planning import make_plan
from ratchet.runs.replanning import current_plan
from ratchet.samples import clicks
from ratchet.store.opening import open_store
from tests.runs.recorded import keep_plan

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "search-ranking"
DAY = date(2026, 3, 20)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replanning, "_POLL_S", 0.05)
    monkeypatch.setattr(replanning, "_QUIET_S", 0.05)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path / "data"))
    for _ in clicks.write(tmp_path / "data", days=3, rows_per_day=50, end=DAY, seed=0):
        pass
    return tmp_path / "data"


def day_file(data: Path, day: date = DAY) -> Path:
    (file,) = [path for path in data.rglob("*") if path.is_file() and f"{day}" in str(path)]
    return file


def planned(folder: Path, *, wait: str | None = None) -> RunPlan:
    spec = load(FOLDER, {"source.window_days": 3, **({"source.wait": wait} if wait else {})})
    return make_plan(folder=FOLDER, spec=spec, data_date=DAY, run_id="r", kind="local", store_uri=str(folder / "store"))


def test_a_source_that_changes_after_the_plan_is_planned_again_within_the_run(data: Path, tmp_path: Path) -> None:
    plan = planned(tmp_path)
    file = day_file(data)
    day_file(data).write_bytes(day_file(data, date(2026, 3, 19)).read_bytes())
    seen: list[Event] = []
    ended: list[Outcome] = []

    def stop_after_ingest(stage: str, outcome: Outcome | None) -> None:
        if stage == "ingest" and outcome is not None:
            ended.append(outcome)
        if stage == "validate":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run_stages(plan, ProcessRunner(), on_stage=stop_after_ingest, on_event=lambda _, event: seen.append(event))
    assert ended[0].state == "done"
    stored = plan_of(open_store(plan.store), plan.spec.name, "r")
    assert stored is not None
    assert [change.days for change in stored.source_changes] == [(DAY,)]
    assert stored.source[-1].files[0].bytes == file.stat().st_size
    messages = [event.message for event in seen]
    assert any("changed or disappeared after the run was planned; ingest is tried again" in each for each in messages)
    assert f"the source has changed; planned again: {DAY}" in messages


def test_a_data_date_that_comes_within_the_limit_is_waited_for(data: Path, tmp_path: Path) -> None:
    file = day_file(data)
    away = file.rename(tmp_path / "away")
    plan = planned(tmp_path, wait="10m")
    assert plan.source[-1].files == ()
    waits = threading.Event()
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        waits.set()

    def deliver() -> None:
        assert waits.wait(60)
        away.rename(file)

    file.parent.mkdir(exist_ok=True)
    writer = threading.Thread(target=deliver)
    writer.start()
    found = current_plan(open_store(plan.store), plan, failed=False, on_event=listen)
    writer.join()
    assert len(found.source[-1].files) == 1
    assert [event.name for event in events] == ["waiting", "replanned"]
    assert plan_of(open_store(plan.store), plan.spec.name, "r") == found


def test_22_a_try_that_wakes_up_after_a_later_one_has_planned_takes_the_plan_of_that_one(
    data: Path, tmp_path: Path
) -> None:
    """It was frozen while it waited. The later one has ingested the day; then it was delivered again."""
    file = day_file(data)
    away = file.rename(tmp_path / "away")
    plan = planned(tmp_path, wait="10m")
    store, later = open_store(plan.store), list[RunPlan]()

    def frozen(_seconds: float) -> None:
        file.parent.mkdir(exist_ok=True)
        away.rename(file)
        later.append(current_plan(store, plan, failed=False, on_event=print))
        file.write_bytes(day_file(data, date(2026, 3, 19)).read_bytes())

    assert current_plan(store, plan, failed=False, on_event=print, pause=frozen) == later[0] != plan
    assert plan_of(store, plan.spec.name, "r") == later[0]


def test_a_day_without_its_marker_is_waited_for(data: Path, tmp_path: Path) -> None:
    spec = load(FOLDER, {"source.window_days": 3, "source.wait": "10m", "source.ready.marker": "{date}.done"})
    made = {"folder": FOLDER, "spec": spec, "data_date": DAY, "run_id": "r", "store_uri": str(tmp_path / "store")}
    plan = make_plan(kind="local", **made)
    assert plan.source[-1].files == ()
    events: list[Event] = []
    marker = day_file(data).parent / f"{DAY}.done"
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        marker.touch()

    found = current_plan(open_store(plan.store), plan, failed=False, on_event=events.append, pause=pause)
    assert len(found.source[-1].files) == 1
    assert len(pauses) == 1
    assert [event.name for event in events] == ["waiting", "replanned"]
    assert re.search(rf"files for {DAY} are not complete: .*{DAY}\.done is not there; waiting", events[0].message)


def test_how_long_it_waits_does_not_follow_a_clock_that_is_set(data: Path, tmp_path: Path) -> None:
    day_file(data).unlink()
    plan = planned(tmp_path, wait="10m")
    plan = plan.model_copy(update={"created": plan.created - timedelta(days=1)})
    (tmp_path / "store" / paths.plan(plan.spec.name, "r")).write_text(plan.model_dump_json(by_alias=True))
    events: list[Event] = []

    def pause(_: float) -> None:
        raise InterruptedError  # as a task of Airflow that looks again in another process

    def look(waited_s: float) -> RunPlan:
        store = open_store(plan.store)
        return current_plan(store, plan, failed=False, on_event=events.append, pause=pause, waited=lambda: waited_s)

    for waited_s in (0.0, 540.0):
        with pytest.raises(InterruptedError):
            look(waited_s)
    assert [event.message.partition("; waiting ")[2] for event in events] == ["at most 10m", "at most 1m"]
    assert look(600.0).source[-1].files == ()


def test_an_old_data_date_of_a_scheduled_run_is_warned_of(data: Path, tmp_path: Path) -> None:
    os.utime(day_file(data), (0, time.time() - 30 * 3600))
    for kind, fresh in (("scheduled", "26h"), ("scheduled", "2d"), ("local", "26h")):
        spec = load(FOLDER, {"source.window_days": 3, "source.ready.fresh": fresh})
        plan = make_plan(
            folder=FOLDER,
            spec=spec,
            data_date=DAY,
            run_id=f"{kind}-{fresh}",
            kind=kind,
            store_uri=str(tmp_path / "store"),
        )
        events: list[Event] = []
        current_plan(open_store(plan.store), plan, failed=False, on_event=events.append)
        warned = [event.message for event in events if event.name == "stale"]
        assert len(warned) == (kind == "scheduled" and fresh == "26h")
        for text in warned:
            assert "was written 1d6h" in text  # and some seconds, on a slow machine
            assert text.endswith("ago; source.ready.fresh is 1d2h")


def test_a_data_date_that_does_not_come_is_reported_when_the_limit_is_over(data: Path, tmp_path: Path) -> None:
    day_file(data).unlink()
    run = run_stages(planned(tmp_path), ProcessRunner(), on_stage=lambda *_: None, on_event=lambda *_: None)
    assert isinstance(run.error, DataRejected)
    assert f"{DAY}: the source has no files for the data date" in run.error.cause
    assert "source.wait" in run.error.remedy


def test_a_run_that_takes_the_source_as_it_was_then_is_not_planned_again(data: Path, tmp_path: Path) -> None:
    plan = planned(tmp_path).model_copy(update={"as_of": "then", "run_id": "then"})
    keep_plan(open_store(plan.store), plan)
    day_file(data).write_bytes(b"other")
    assert current_plan(open_store(plan.store), plan, failed=True, on_event=print) == plan


def test_a_try_after_a_failed_one_takes_what_the_source_holds_now(data: Path, tmp_path: Path) -> None:
    plan = planned(tmp_path)
    right = day_file(data).read_bytes()
    day_file(data).write_bytes(right[:100])
    plan = current_plan(open_store(plan.store), plan, failed=True, on_event=print)
    run = run_stages(plan, ProcessRunner(), on_stage=lambda *_: None, on_event=lambda *_: None)
    assert isinstance(run.error, DataRejected)
    assert outcomes(open_store(plan.store), plan.spec.name, "r")["ingest"].state == "failed"
    day_file(data).write_bytes(right)
    again = current_plan(open_store(plan.store), plan, failed=True, on_event=print)
    assert again.source[-1].files[0].bytes == len(right)
