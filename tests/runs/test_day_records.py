"""A day that its own run refused is in no later window, until that date passes or a person lets its rows in."""

import itertools
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ratchet.contracts import paths, summaries
from ratchet.contracts.day_record import DayStates
from ratchet.contracts.errors import ConfigurationError, DataRejected, Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import AsOf, RunPlan
from ratchet.contracts.result import Artifact
from ratchet.contracts.snapshot import Snapshot, SnapshotDay
from ratchet.contracts.summaries import Check, Validation
from ratchet.runs.data_days import refuse_day
from ratchet.runs.day_records import admit, day_states, record_day
from ratchet.runs.outcomes import outcome_of
from ratchet.runs.planning import make_plan
from ratchet.runs.requests import compose
from ratchet.runs.stage_record import StageRecord
from ratchet.store.opening import open_store
from tasks.validate.window import check_refused
from tests.world import LAST, World, clicks

D0, D1, D2, D3 = (LAST - timedelta(days=back) for back in (3, 2, 1, 0))
NAMES = iter(itertools.count())


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = clicks(tmp_path, source={"window_days": 4}, validate={"drift": None})
    for day in (D0 - timedelta(days=1), D0, D1, D2, D3):
        made.put(day, count=100)
    (made.pipeline / "pipeline.yaml").write_text("name: clicks\n", encoding="utf-8")
    return made


def plan(world: World, day: date, overrides: Mapping[str, str] | None = None, as_of: AsOf = "now") -> RunPlan:
    """A new run of a date, as it is planned now."""
    return make_plan(
        folder=world.pipeline,
        spec=world.spec,
        data_date=day,
        run_id=f"run-{next(NAMES)}",
        kind="local",
        store_uri=world.store.uri,
        overrides=overrides,
        as_of=as_of,
    )


def night(
    world: World, day: date, overrides: Mapping[str, str] | None = None, as_of: AsOf = "now"
) -> Validation | None:
    """A run of a date up to validate, recorded as every run is; None if its rows were refused."""
    planned = plan(world, day, overrides, as_of)
    world.run_id, world.days = planned.run_id, planned.days
    ingested = world.run("ingest", day)
    try:
        with StageRecord(world.store, planned, "validate") as record:
            published = world.run("validate", day, {"ingest": ingested})
            record.end(outcome_of(published, cached=False, because=""))
    except DataRejected:
        return None
    return summaries.validation(published.result)


def test_a_refused_day_is_in_no_later_window_and_a_complete_day_after_it_passes(world: World) -> None:
    world.put(D2, count=40)
    assert night(world, D2) is None
    found = night(world, D3)
    assert found is not None
    assert found.excluded == (D2,)
    (refusal,) = [check for check in found.checks if check.rule == "refused"]
    assert (refusal.day, refusal.severity) == (D2, "warning")
    assert refusal.observed.endswith("refused it: volume of all rows; volume of clicked")
    assert f"{D2} is excluded" in world.log.getvalue()


def test_an_outage_before_validate_says_nothing_of_the_rows_of_a_run_that_was_refused_before(world: World) -> None:
    world.put(D2, count=40)
    refused = plan(world, D2)
    world.run_id, world.days = refused.run_id, refused.days
    ingested = world.run("ingest", D2)
    with pytest.raises(DataRejected), StageRecord(world.store, refused, "validate"):
        world.run("validate", D2, {"ingest": ingested})
    known = [entry.key for entry in world.store.list(paths.day_records("clicks"))]
    assert len(known) == 1
    world.put(D2, count=101)
    world.days = plan(world, D2).days
    world.run("ingest", D2)
    with pytest.raises(Unavailable), StageRecord(world.store, refused, "validate"):
        raise Unavailable("the engine does not answer")
    assert [entry.key for entry in world.store.list(paths.day_records("clicks"))] == known


def test_a_day_before_a_half_empty_one_is_what_its_volume_is_compared_with_by_name(world: World) -> None:
    world.document["validate"]["volume"] = {"against": "previous_day", "tolerance": "20%"}
    world.put(D2, count=40)
    assert night(world, D2) is None
    found = night(world, D3)
    assert found is not None
    (volume,) = [check for check in found.checks if check.rule == "volume"]
    assert (volume.passed, volume.severity) == (False, "warning")
    assert "nothing to compare with" in volume.observed


def test_a_corrected_day_is_in_once_its_own_run_passed_and_not_before(world: World) -> None:
    world.put(D2, count=40)
    assert night(world, D2) is None
    world.put(D2, count=100)
    before = night(world, D3)
    assert before is not None
    assert before.excluded == (D2,)
    assert "its rows have changed since: run this date again" in str(before.checks)
    assert night(world, D2) is not None
    after = night(world, D3)
    assert after is not None
    assert after.excluded == ()


def test_rows_that_were_refused_stay_out_when_they_come_again(world: World) -> None:
    half = world.put(D2, count=40).read_bytes()
    assert night(world, D2) is None
    path = world.put(D2, count=100)
    assert night(world, D2) is not None
    path.write_bytes(half)
    found = night(world, D3)
    assert found is not None
    assert found.excluded == (D2,)
    assert not [check for check in found.checks if check.rule == "redelivered"]
    world.put(D2, count=100)
    again = night(world, D3)
    assert again is not None
    assert again.excluded == ()


def test_a_day_that_a_person_let_in_counts_and_is_named_with_who_and_why(world: World) -> None:
    world.put(D2, count=40)
    assert night(world, D2) is None
    admit(world.store, "clicks", D2, by="Ada", because="half a day of sales is right")
    found = night(world, D3)
    assert found is not None
    assert found.excluded == ()
    (note,) = [check for check in found.checks if check.rule == "let in"]
    assert note.observed == "it was refused; let in by Ada: half a day of sales is right"
    assert night(world, D2) is None  # its own run stays refused, which does not undo the admission
    assert plan(world, D3).days.admitted[0].by == "Ada"
    refuse_day(world.store, "clicks", D2, by="Ben", because="it is not")  # a person takes it back
    assert night(world, D2) is None
    without = night(world, D3)
    assert without is not None
    assert without.excluded == (D2,)
    assert plan(world, D3).days.admitted == ()
    admit(world.store, "clicks", D2, by="Ada", because="it is")
    assert len(plan(world, D3).days.admitted) == 1
    world.put(D2, count=30)
    other = night(world, D3)
    assert other is not None
    assert other.excluded == (D2,)


def test_what_a_run_and_then_a_person_refused_stays_out_when_the_run_of_other_rules_passes(world: World) -> None:
    world.put(D2, count=40)
    assert night(world, D2) is None
    refuse_day(world.store, "clicks", D2, by="Ada", because="a power cut")
    (refused,) = day_states(world.store, "clicks", [D2]).refused
    assert refused.by == "Ada"
    made = snapshot("")
    same = made.model_copy(update={"days": (made.days[0].model_copy(update={"source": refused.source}),)})
    record_day(world.store, pipeline="clicks", data_date=D2, run_id="r", stage="validate", state="done", snapshot=same)
    assert [one.by for one in day_states(world.store, "clicks", [D2]).refused] == ["Ada"]


def test_what_a_person_refuses_stays_out_until_a_person_lets_it_in_or_its_rows_change(world: World) -> None:
    assert night(world, D2) is not None
    refuse_day(world.store, "clicks", D2, by="Ada", because="a  test of the shop")
    for _ in range(2):
        found = night(world, D3)
        assert found is not None
        assert found.excluded == (D2,)
        (note,) = [check for check in found.checks if check.rule == "refused"]
        assert note.observed == "Ada refused it: a test of the shop"
        assert night(world, D2) is not None  # a run of the date passes as before, and takes nothing back
    admit(world.store, "clicks", D2, by="Ben", because="it was none")
    found = night(world, D3)
    assert found is not None
    assert found.excluded == ()
    refuse_day(world.store, "clicks", D2, by="Ada", because="it was one")
    world.put(D2, count=101)
    assert night(world, D2) is not None
    found = night(world, D3)
    assert found is not None
    assert found.excluded == ()
    with pytest.raises(ConfigurationError, match="the snapshot has no day 2020-01-01; it has"):
        refuse_day(world.store, "clicks", date(2020, 1, 1), by="Ada", because="why not")


def test_a_refused_day_stops_the_run_where_bad_days_is_fail(world: World) -> None:
    world.put(D2, count=40)
    assert night(world, D2) is None
    world.document["validate"]["bad_days"] = "fail"
    assert night(world, D3) is None
    assert day_states(world.store, "clicks", [D3]) == DayStates()  # D3 itself is as good as it was


def test_a_day_whose_rows_changed_after_they_were_accepted_is_a_warning_by_name(world: World) -> None:
    assert night(world, D2) is not None
    world.put(D2, count=101)
    found = night(world, D3)
    assert found is not None
    assert [check.day for check in found.checks if check.rule == "redelivered"] == [D2]
    assert f"{D2} all rows: redelivered: its rows changed after its own run accepted them" in world.log.getvalue()


def test_a_day_that_no_run_refused_cannot_be_let_in(world: World) -> None:
    assert night(world, D2) is not None
    for day in (D2, D3):
        with pytest.raises(ConfigurationError, match=f"neither a run of {day} nor a person has refused it"):
            admit(world.store, "clicks", day, by="Ada", because="why not")


@pytest.mark.parametrize(("kind", "as_of"), [("sql", "now"), ("sql", "then"), ("files", "now")])
def test_the_rows_of_a_query_are_read_again_by_the_run_after_a_refusal(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, as_of: AsOf
) -> None:
    """Files say that they have changed, and a database does not."""
    if kind == "sql":
        monkeypatch.setenv("RATCHET_SOURCE_SHOP", "sqlite:////shop.db")
        source = {"kind": "sql", "uri": "${RATCHET_SOURCE_SHOP}", "query": "select :date", "window_days": 4}
        world.document["source"] = source
    key = f"rebuild.{D2}"

    def parts() -> dict[str, str]:
        planned = plan(world, D2, as_of=as_of)
        return {"run": planned.run_id, **compose(world.store, planned, "ingest", {}, "a").parts}

    assert key not in parts()
    judge(world, "few", passed=False)
    for _ in range(2):  # each run reads them, as each may come after a correction
        found = parts()
        assert found.get(key) == (found["run"] if kind == "sql" else None)
    admit(world.store, "clicks", D2, by="Ada", because="it is right")
    assert key not in parts()  # a person let in these rows, and no others
    judge(world, "corrected", passed=True)
    assert key not in parts()


def judge(world: World, source: str, *, passed: bool, **how: bool) -> None:
    """A run of D2 that ends in validate, with rows of that name."""
    run_id = f"run-{next(NAMES)}"
    check = Check(day=D2, rule="volume", passed=passed, observed="few", allowed="more", key="validate.volume")
    found = Validation(checks=(check,), rows={}, labelled={}).model_dump_json(by_alias=True)
    world.store.create(paths.checks("clicks", run_id, "validate"), found.encode())
    record_day(
        world.store, pipeline="clicks", data_date=D2, run_id=run_id, stage="validate",
        state="done" if passed else "failed", snapshot=snapshot(source), **how,
    )  # fmt: skip


def snapshot(source: str) -> Snapshot:
    """The window of a later run, in which D2 has rows of that name."""
    sha256 = digest(source.encode())
    file = Artifact(key="tables/clicks/1/x", sha256=sha256, bytes=1, rows=1)
    return Snapshot(table="tables/clicks/1", version=1, days=(SnapshotDay(day=D2, file=file, source=sha256),))


def is_out(world: World, source: str) -> bool:
    return bool(check_refused(day_states(world.store, "clicks", [D2]), snapshot(source)))


@pytest.mark.parametrize("newest_passed", [True, False])
def test_a_backfill_with_the_rows_of_then_says_nothing_of_the_rows_of_now(world: World, newest_passed: bool) -> None:
    judge(world, "first", passed=not newest_passed)
    judge(world, "corrected", passed=newest_passed)
    judge(world, "first", passed=not newest_passed, past=True)
    assert is_out(world, "corrected") is not newest_passed
    judge(world, "corrected", passed=not newest_passed, past=True)  # the same rows as now
    assert is_out(world, "corrected") is newest_passed


def test_a_backfill_of_a_date_without_a_verdict_sees_the_source_as_it_is_and_counts(world: World) -> None:
    world.put(D2, count=40)
    assert night(world, D2) is None
    world.put(D2, count=100)
    assert night(world, D2, as_of="then") is not None
    found = night(world, D3)
    assert found is not None
    assert found.excluded == ()


def test_rules_that_a_shell_or_a_form_has_changed_take_no_record_back(world: World) -> None:
    judge(world, "first", passed=False)
    judge(world, "first", passed=True, trial=True)
    assert is_out(world, "first")
    judge(world, "second", passed=True, trial=True)
    assert is_out(world, "second")
    judge(world, "second", passed=True)
    judge(world, "second", passed=False, trial=True)
    assert not is_out(world, "second")


def test_a_run_says_whether_its_rules_or_its_rows_are_others(world: World) -> None:
    world.put(D2, count=40)
    assert night(world, D2) is None
    world.document["validate"]["volume"] = None
    assert night(world, D2, overrides={"validate.volume": "null"}) is not None
    assert [one.day for one in plan(world, D3).days.refused] == [D2]
    assert night(world, D2, overrides={"train.epochs": "2"}) is not None
    assert not plan(world, D3).days.refused


class Days(RuleBasedStateMachine):
    """Model: what the source holds, what the newest run said of which rows, and which rows a person let in."""

    def __init__(self) -> None:
        super().__init__()
        self.store = open_store(f"mem://days-{next(NAMES)}")
        self.source = "first"
        self.refused: str | None = None
        self.let_in: str | None = None
        self.accepted: dict[str, bool] = {}
        self.runs = itertools.count()

    @rule(source=st.sampled_from(["first", "second"]))
    def deliver(self, source: str) -> None:
        self.source = source

    @rule()
    def good_night(self) -> None:
        self._end(passed=True)
        self.refused, self.accepted[self.source] = None, True

    @rule()
    def bad_night(self) -> None:
        self._end(passed=False)
        self.refused, self.accepted[self.source] = self.source, False

    @rule()
    def admit(self) -> None:
        if self.refused is None:
            with pytest.raises(ConfigurationError):
                admit(self.store, "clicks", D2, by="Ada", because="it is right")
            return
        admit(self.store, "clicks", D2, by="Ada", because="it is right")
        self.let_in, self.accepted[self.refused] = self.refused, True

    @invariant()
    def is_in_only_if_accepted_or_let_in(self) -> None:
        states = day_states(self.store, "clicks", [D2])
        is_out = self.let_in != self.source if self.refused else not self.accepted.get(self.source, True)
        assert bool(check_refused(states, self._snapshot())) == is_out

    def _snapshot(self) -> Snapshot:
        sha256 = digest(self.source.encode())
        file = Artifact(key="tables/clicks/1/x", sha256=sha256, bytes=1, rows=1)
        return Snapshot(table="tables/clicks/1", version=1, days=(SnapshotDay(day=D2, file=file, source=sha256),))

    def _end(self, *, passed: bool) -> None:
        """A run of the day that ends in validate."""
        run_id = f"run-{next(self.runs)}"
        check = Check(day=D2, rule="volume", passed=passed, observed="few", allowed="more", key="validate.volume")
        found = Validation(checks=(check,), rows={}, labelled={}).model_dump_json(by_alias=True)
        self.store.create(paths.checks("clicks", run_id, "validate"), found.encode())
        state = "done" if passed else "failed"
        record_day(
            self.store, pipeline="clicks", data_date=D2, run_id=run_id, stage="validate", state=state,
            snapshot=self._snapshot(),
        )  # fmt: skip


TestDays = Days.TestCase
TestDays.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)
