"""The lines of a pipeline's runs: what they say and cost, and that no crash and no other writer makes them wrong."""

import os
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from ratchet.contracts import paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.registration import Registration
from ratchet.contracts.request import Outcome, Promotion, RunKind, RunPlan
from ratchet.contracts.run_index import FORM, IndexedLedger, IndexedRun, RunIndex, planned
from ratchet.contracts.stages import REGULAR, Stage
from ratchet.runs.answers import record_answer
from ratchet.runs.data_days import newest_plan
from ratchet.runs.index_document import rebuilt
from ratchet.runs.run_index import RunLine, newest_ids, newest_runs, nights, note_end, note_plan
from ratchet.runs.stage_record import StageRecord
from ratchet.store.base import Store
from ratchet.store.documents import read_document
from ratchet.store.file import FileStore
from ratchet.store.ledger import append
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import keep, keep_plan
from tests.runs.test_requests import CONTENT, DAY, JUDGED, OUTCOMES, TRAINED, outcome, plan
from tests.store.test_ledger import change
from tests.store_calls import counted_calls
from tests.turned_times import turn_round

BEFORE = DAY - timedelta(days=1)
OLD = datetime.now(UTC) - timedelta(days=15)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def ran(store: Store, run_id: str, *ended: Outcome, **changes: Any) -> RunPlan:
    made = keep_plan(store, plan(run_id=run_id, **changes))
    keep(store, made, *ended)
    return made


def registered(*, promoted: bool) -> Outcome:
    summary = Registration(model="small", version="7", mlflow_run_id="r", promoted=promoted)
    return outcome("register", summary=summary.model_dump(mode="json"))


def whole(verdict: str = "promote") -> list[Outcome]:
    """The outcomes of a run that ended."""
    judged = outcome("evaluate", summary={**JUDGED, "verdict": verdict})
    return [*{**OUTCOMES, "register": registered(promoted=True), "evaluate": judged}.values()]


def rejected(store: Store) -> RunPlan:
    """A run whose stages have all ended."""
    made = ran(store, "r")
    note_plan(store, made)
    for one in whole("reject"):
        with StageRecord(store, made, one.stage) as record:
            record.end(one)
    return made


def promote_and_die(store: Store, made: RunPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge a run again; it is killed before it writes the line."""
    monkeypatch.setattr("ratchet.runs.stage_record.note_end", lambda *_: None)
    with StageRecord(store, made, "evaluate") as record:
        record.end(outcome("evaluate", summary={**JUDGED, "verdict": "promote"}))


def line_of(store: Store, kind: RunKind | None = None) -> RunLine:
    (line,) = nights(store, "small", kind)
    return line


def stored(store: Store) -> RunIndex:
    return RunIndex.model_validate_json(store.read(paths.run_index("small")))


@pytest.mark.parametrize(
    ("ended", "standing", "would_promote", "promoted", "version", "cause"),
    [
        ((), "unfinished", False, False, "", ""),
        ((OUTCOMES["evaluate"],), "promote", True, False, "", "better by 2 %"),
        (
            (OUTCOMES["train"], OUTCOMES["evaluate"], registered(promoted=True)),
            "promote",
            True,
            True,
            "7",
            "better by 2 %",
        ),
        (
            (OUTCOMES["train"], OUTCOMES["evaluate"], registered(promoted=True)),
            "promote",
            True,
            False,
            "7",
            "better by 2 %",
        ),
        ((OUTCOMES["evaluate"], registered(promoted=False)), "promote", True, False, "7", "better by 2 %"),
        ((outcome("evaluate", summary={**JUDGED, "verdict": "reject"}),), "reject", False, False, "", "better by 2 %"),
        (
            (Outcome(stage="ingest", state="failed", because="no rows"),),
            "failed",
            False,
            False,
            "",
            "ingest: no rows",
        ),
        (
            (OUTCOMES["evaluate"], Outcome(stage="register", state="failed", because="no MLflow")),
            "failed",
            True,
            False,
            "",
            "register: no MLflow",
        ),
    ],
)
def test_a_line_says_how_its_run_ended(
    store: MemoryStore,
    ended: tuple[Outcome, ...],
    standing: str,
    would_promote: bool,
    promoted: bool,
    version: str,
    cause: str,
) -> None:
    ran(store, "r", *ended)
    if promoted:
        append(store, change("7", 20, model="small", model_digest=CONTENT), after=0)
    line = line_of(store)
    assert line.live is promoted
    assert (line.day, line.kind, line.standing, line.cause) == (DAY, "local", standing, cause)
    assert (line.would_promote, line.promoted, line.version) == (would_promote, promoted, version)
    assert (line.gain is None) == ("evaluate" not in {one.stage for one in ended})


@pytest.mark.parametrize(("built", "cached"), [((), True), (("report",), True), (("train",), False)])
def test_a_run_is_cached_if_every_stage_but_the_report_was(
    store: MemoryStore,
    built: tuple[str, ...],
    cached: bool,
) -> None:
    results = {**OUTCOMES, "register": registered(promoted=False)}
    ran(store, "r", *(results[stage].model_copy(update={"cached": stage not in built}) for stage in REGULAR))
    line = line_of(store)
    assert line.cached is cached


def test_the_newest_run_of_a_date_or_of_a_kind_is_its_line(store: MemoryStore) -> None:
    assert nights(store, "small") == []
    first = ran(store, "first", kind="backfill")
    second = ran(store, "second", kind="manual")
    ran(store, "other", kind="manual", data_date=BEFORE)
    for _ in range(2):  # without the document, and with it
        assert [line.run_id for line in nights(store, "small")] == ["other", "second"]
        assert [line.run_id for line in nights(store, "small", "backfill")] == ["first"]
        assert nights(store, "small", "scheduled") == []
        note_plan(store, first)
        note_plan(store, second)


def test_a_run_that_was_planned_earlier_never_hides_a_newer_one(store: MemoryStore) -> None:
    later = ran(store, "later")
    earlier = ran(store, "earlier", created=later.created - timedelta(minutes=1))
    note_plan(store, later)
    note_plan(store, earlier)
    note_end(store, earlier)
    assert line_of(store).run_id == "later"


def test_a_run_is_followed_until_it_has_ended_and_each_stage_writes_its_line(store: MemoryStore) -> None:
    made = ran(store, "r")
    note_plan(store, made)
    assert line_of(store).standing == "unfinished"
    for one in whole()[:-1]:
        with StageRecord(store, made, one.stage) as record:
            record.end(one)
    assert line_of(store).standing == "promote"
    assert (stored(store).runs[0].standing, stored(store).runs[0].ended) == ("promote", False)
    with StageRecord(store, made, "report") as record:
        record.end(whole()[-1])
    assert stored(store).runs[0].ended
    assert line_of(store).version == "7"


def test_a_stage_that_is_done_again_after_the_end_changes_the_line(store: MemoryStore) -> None:
    made = ran(store, "r")
    note_plan(store, made)
    for one in whole():
        with StageRecord(store, made, one.stage) as record:
            record.end(one)
    with StageRecord(store, made, "evaluate") as record:
        record.end(outcome("evaluate", summary={**JUDGED, "verdict": "reject"}))
    assert line_of(store).standing == "reject"


def test_what_a_crash_left_out_is_seen_however_old_it_is(store: MemoryStore) -> None:
    made = ran(store, "r", data_date=BEFORE, created=OLD)
    note_plan(store, made)
    keep(store, made, *whole()[:-1])  # and the process was killed before it wrote the line
    assert line_of(store).standing == "promote"
    assert stored(store).runs[0].standing == "unfinished"


def test_a_plan_writes_the_lines_of_a_few_runs_that_were_killed_long_ago_and_of_no_other(store: MemoryStore) -> None:
    for back in range(12):
        made = ran(store, f"r{back}", *whole()[:-1], data_date=DAY - timedelta(days=back), created=OLD)
        note_plan(store, made)
    note_plan(store, ran(store, "killed-now", *whole()[:-1], data_date=DAY + timedelta(days=1)))
    note_plan(store, ran(store, "next", data_date=DAY + timedelta(days=2)))
    assert all((run.standing == "promote") == (run.run_id != "next") for run in stored(store).runs)
    assert {run.run_id for run in stored(store).runs if not run.ended} == {"killed-now", "next"}
    assert [line.standing for line in nights(store, "small")] == [*["promote"] * 13, "unfinished"]


def test_many_killed_runs_cost_the_next_plan_a_bounded_number_of_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path)
    runs = [
        ran(store, f"r{back}", data_date=DAY - timedelta(days=back), created=OLD if back % 2 else datetime.now(UTC))
        for back in range(40)
    ]
    lines = RunIndex(form=FORM).with_runs(*map(planned, runs))
    store.create(paths.run_index("small"), lines.model_dump_json().encode())
    following = ran(store, "next", data_date=DAY + timedelta(days=1))
    with counted_calls(monkeypatch) as calls:
        note_plan(store, following)
    assert len(calls) < 8 * 10 + 5


def test_a_run_that_failed_writes_its_line_at_once(store: MemoryStore) -> None:
    made = ran(store, "r")
    note_plan(store, made)
    with pytest.raises(Unavailable), StageRecord(store, made, "ingest"):
        raise Unavailable("the source is away")
    assert (stored(store).runs[0].standing, stored(store).runs[0].ended) == ("failed", True)
    with StageRecord(store, made, "ingest") as record:
        record.end(OUTCOMES["ingest"])
    assert line_of(store).standing == "unfinished"


def test_a_run_has_not_failed_while_a_stage_of_it_is_tried_again_by_itself(store: MemoryStore) -> None:
    made = ran(store, "r")
    with pytest.raises(Unavailable), StageRecord(store, made, "ingest", again=lambda _: True):
        raise Unavailable("the source is away: caf\udce9.csv")
    cause = "ingest is tried again by itself: the source is away: caf?.csv"
    assert (line_of(store).standing, line_of(store).cause) == ("unfinished", cause)
    assert not stored(store).runs[0].ended
    for one in whole():  # Airflow gave up without a record of the stage, such as after a kill
        if one.stage != "ingest":
            keep(store, made, one)
    assert (line_of(store).standing, line_of(store).cause) == ("failed", "ingest: the source is away: caf?.csv")


def test_whether_a_run_ended_since_its_stage_failed_is_known_in_a_copy_of_the_store(store: MemoryStore) -> None:
    def fails(run_id: str, stage: Stage) -> None:
        with pytest.raises(Unavailable), StageRecord(store, plan(run_id=run_id), stage, again=lambda _: True):
            raise Unavailable("the source is away")

    def ends(run_id: str) -> None:
        with StageRecord(store, plan(run_id=run_id), "report") as record:
            record.end(whole()[-1])

    ran(store, "gave-up")
    fails("gave-up", "ingest")
    ends("gave-up")
    ran(store, "cleared", data_date=BEFORE)
    ends("cleared")
    fails("cleared", "ingest")
    for _ in range(2):
        assert [(run.run_id, run.standing) for run in rebuilt(store, "small").runs] == [
            ("cleared", "unfinished"),
            ("gave-up", "failed"),
        ]
        turn_round(store)


def test_a_run_that_a_person_has_cleared_is_at_work_from_the_begin_of_the_stage(store: MemoryStore) -> None:
    made = ran(store, "r", *whole())
    with pytest.raises(Unavailable), StageRecord(store, made, "train"):
        raise Unavailable("the engine is away")
    assert line_of(store).standing == "failed"
    with StageRecord(store, made, "train", try_number=2) as record:
        assert line_of(store).standing == "promote"  # as on record, while the stage is at work
        assert line_of(store).cause == "train is tried again by itself: the engine is away"
        record.end(OUTCOMES["train"])
    assert (line_of(store).standing, line_of(store).cause) == ("promote", "better by 2 %")


def test_of_a_refit_the_line_says_whether_that_is_in_production(store: MemoryStore) -> None:
    of = {"of": CONTENT, "loss": 0.4, "measured_loss": 0.5, "metric": "auc", "score": 0.9, "measured_score": 0.8}
    made = {**TRAINED, "digest": "e" * 64, "refit": of}
    ran(store, "r", *whole(), outcome("refit", content="e" * 64, summary=made))
    append(store, change("7", 20, model="small", model_digest=CONTENT), after=0)
    assert (line_of(store).promoted, line_of(store).live) == (False, False)
    append(store, change("8", 20, model="small", model_digest="e" * 64), after=1)
    assert (line_of(store).promoted, line_of(store).live) == (True, True)


def test_a_run_whose_refit_is_refused_would_promote_nothing_and_says_why(store: MemoryStore) -> None:
    of = {"of": CONTENT, "loss": 9, "measured_loss": 0.5, "metric": "auc", "score": 0.9, "measured_score": 0.8}
    refused = {**TRAINED, "digest": "e" * 64, "refit": {**of, "refused": "refit-diverged: the training loss is 9"}}
    ended = [one for one in whole() if one.stage != "register"]
    ran(store, "r", *ended, outcome("refit", content="e" * 64, summary=refused))
    line = line_of(store)
    assert (line.standing, line.would_promote) == ("promote", False)
    assert line.cause == "refit-diverged: the training loss is 9; better by 2 %"


def test_an_index_of_an_earlier_form_is_made_again_from_the_runs(store: MemoryStore) -> None:
    made = ran(store, "r", *whole())
    old = planned(made).model_copy(update={"ended": True, "standing": "reject"})
    store.create(paths.run_index("small"), RunIndex().with_runs(old).model_dump_json(exclude_defaults=True).encode())
    assert line_of(store).standing == "promote"
    note_end(store, made)
    assert stored(store).form == FORM


class IndexBefore(Document):
    """As the release before the key `form` knows it."""

    runs: tuple[IndexedRun, ...] = ()
    ledgers: dict[str, IndexedLedger] = Field(default_factory=dict)


def test_a_line_of_another_release_is_not_taken_for_one_of_this_form(store: MemoryStore) -> None:
    made, key = ran(store, "r", *whole()), paths.run_index("small")
    note_end(store, made)
    before = read_document(store, key, IndexBefore)
    other = before.runs[0].model_copy(update={"standing": "reject"})
    entry = store.head(key)
    assert entry is not None
    text = before.model_copy(update={"runs": (other,)}).model_dump_json(exclude_defaults=True)
    assert store.replace(key, text.encode(), expected=entry.etag)
    assert (stored(store).form, line_of(store).standing) == (0, "promote")
    store.delete(key)
    store.create(key, rebuilt(store, "small").model_copy(update={"form": FORM + 1}).model_dump_json().encode())
    note_end(store, made)
    assert stored(store).form == FORM  # so the newer release makes it again


def test_a_candidate_that_nobody_has_answered_for_waits(store: MemoryStore) -> None:
    made = ran(store, "r", *whole()[:5], promotion=Promotion(mode="approve"))
    asked = OUTCOMES["evaluate"].result
    assert asked is not None
    assert line_of(store).asks
    said: list[tuple[Literal["yes", "no"], str]] = [("no", ""), ("yes", "ada")]
    for answer, by in said:
        record_answer(store, made, answer, by=by, at=OLD, text="", evaluation=asked.content)
        assert not line_of(store).asks
    two = made.spec.register_.model_copy(update={"approvals": 2})
    spec = made.spec.model_copy(update={"register_": two})
    second = ran(store, "s", *whole()[:5], promotion=Promotion(mode="approve"), spec=spec)
    for by, asks in (("ada", True), ("bob", False)):
        record_answer(store, second, "yes", by=by, at=OLD, text="", evaluation=asked.content)
        assert line_of(store).asks is asks
    keep(store, made, registered(promoted=True))
    assert not line_of(store).asks


def test_a_kill_between_a_new_record_and_its_line_shows_the_record(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rejected(store)
    assert line_of(store).standing == "reject"
    promote_and_die(store, made, monkeypatch)
    assert line_of(store).standing == "promote"


def test_a_run_without_a_line_has_one_before_a_stage_of_it_is_recorded_again(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else who adds lines that are missing may write that of the records before, and nobody corrects it."""
    note_plan(store, ran(store, "before", data_date=BEFORE))
    made = ran(store, "r", *whole("reject"))
    promote_and_die(store, made, monkeypatch)
    assert [(run.run_id, run.ended) for run in stored(store).runs] == [("before", False), ("r", False)]
    assert [line.standing for line in nights(store, "small")] == ["unfinished", "promote"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]"])
def test_a_document_that_is_lost_or_damaged_is_made_again(store: MemoryStore, content: bytes) -> None:
    made = ran(store, "r", *whole())
    ran(store, "before", *whole("reject"), data_date=BEFORE)
    store.create(paths.run_index("small"), content)
    assert [line.standing for line in nights(store, "small")] == ["reject", "promote"]
    note_end(store, made)
    assert stored(store) == rebuilt(store, "small")


def test_no_writer_loses_the_line_of_another(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    plans = [ran(store, f"r{back}", data_date=DAY - timedelta(days=back)) for back in range(12)]
    store.create(paths.run_index("small"), b"{}")
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda made: note_plan(store, made), plans))
    assert [run.run_id for run in stored(store).runs] == [f"r{back}" for back in reversed(range(12))]


def test_a_store_that_cannot_write_it_fails_no_run(
    store: MemoryStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ran(store, "r")

    def away(*_: object, **__: object) -> bool:
        raise Unavailable("the store is away")

    monkeypatch.setattr(store, "replace", away)
    note_plan(store, made)
    assert "index of the runs of small is not written: the store is away" in caplog.text
    monkeypatch.setattr(store, "replace", lambda *_, **__: False)
    monkeypatch.setattr("ratchet.store.documents._WAIT_S", 0.0)
    note_plan(store, made)
    assert "others keep writing it" in caplog.text
    assert line_of(store).run_id == "r"
    with monkeypatch.context() as gone:
        gone.setattr(store, "list", away)
        note_end(store, made)  # what it is from cannot be read
    assert "the line of run r of small is not written: the store is away" in caplog.text


def promoted(store: Store, versions: Sequence[str]) -> None:
    for number, version in enumerate(versions):
        made = change(version, 20, model="small", model_digest=CONTENT if version == "7" else version * 64)
        append(store, made, after=number)


def test_a_change_of_production_after_the_run_is_seen(store: MemoryStore) -> None:
    made = ran(store, "r", *whole())
    promoted(store, ["6", "7"])
    note_end(store, made)
    assert (line_of(store).promoted, line_of(store).live) == (True, True)
    append(store, change("6", 20, model="small", model_digest="6" * 64, action="rollback"), after=2)
    assert (line_of(store).promoted, line_of(store).live) == (True, False)
    append(store, change("6", 20, model="small", model_digest="6" * 64, action="hold"), after=3)
    append(store, change("7", 20, model="small", model_digest=CONTENT, action="rollback"), after=4)
    assert line_of(store).live


def test_a_ledger_that_was_exchanged_or_damaged_is_read_as_a_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FileStore(tmp_path)
    made = ran(store, "r", *whole())
    promoted(store, ["6", "7"])
    note_end(store, made)
    before = stored(store).ledgers["small"]
    assert (before.number, before.live) == (2, CONTENT)
    first, second = (store.root / paths.record_below(paths.ledger("small"), number) for number in (1, 2))
    second.write_bytes(second.read_bytes() + b" ")
    assert not line_of(store).live
    assert "no version of small is shown as in production, since its ledger cannot be read: " in caplog.text
    for path in (first, second, store.root / paths.head_below(paths.ledger("small"))):
        path.unlink()
    assert not line_of(store).promoted
    promoted(store, ["5", "4", "7"])
    assert line_of(store).live
    note_end(store, made)
    assert stored(store).ledgers["small"].number == 3


def test_the_runs_are_in_the_order_of_their_plans_in_a_copy_of_the_store(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for number, run_id in enumerate(("c", "b", "a")):
        note_plan(store, ran(store, run_id, created=OLD + timedelta(minutes=number)))
    store.create(paths.night("small", DAY, "never-planned"), b"")
    turn_round(store)
    assert newest_ids(store, "small", 2) == ["b", "a"]  # one line, of a
    assert [run.run_id for run in newest_runs(store, "small")] == ["a", "b", "c"]
    store.delete(paths.run_index("small"))
    assert newest_ids(store, "small", 9) == ["c", "b", "a"]
    store.create(paths.run_index("small"), b'{"needs": {"lines": "9.0.0"}}')  # of another release
    assert newest_ids(store, "small", 9) == ["c", "b", "a"]


def test_the_newest_run_costs_three_requests_however_many_an_earlier_date_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path)
    runs = [ran(store, f"r{number:02}", created=OLD + timedelta(minutes=number)) for number in range(40)]
    for entry, made in zip(store.list(paths.nights("small")), runs, strict=True):
        os.utime(tmp_path / entry.key, (made.created.timestamp(), made.created.timestamp()))
    note_plan(store, runs[-1])
    note_plan(store, ran(store, "newest", data_date=DAY + timedelta(days=1)))
    with counted_calls(monkeypatch) as calls:
        assert newest_plan(store, "small").run_id == "newest"
    assert sorted(calls) == ["list", "read", "read"]


def test_a_year_of_nights_costs_two_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(tmp_path)
    promoted(store, ["6", "7"])
    for back in range(40):
        ran(store, f"r{back}", *whole(), data_date=DAY - timedelta(days=back))
    note_plan(store, ran(store, "last", *whole(), created=datetime.now(UTC) + timedelta(seconds=1)))
    note_end(store, plan(run_id="last"))
    with counted_calls(monkeypatch) as calls:
        lines = nights(store, "small")
    assert len(lines) == 40
    assert sorted(calls) == ["list", "read"]


def test_a_run_under_way_costs_one_request_more_and_what_it_did_since_its_line_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path)
    made = ran(store, "r")
    note_plan(store, made)
    for one in whole()[:4]:
        with StageRecord(store, made, one.stage) as record:
            record.end(one)
        store.create(paths.log("small", "r", one.stage, 1), b"a log is no record")
    with counted_calls(monkeypatch) as calls:
        before = nights(store, "small")[0]
    assert sorted(calls) == ["list", "read"]
    assert before.standing == "unfinished"
    keep(store, made, *whole()[4:-1])  # and the process was killed before it wrote the line
    assert nights(store, "small")[0].standing == "promote"
