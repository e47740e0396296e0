"""The question to a person: who may answer, for how long, and what becomes of the answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowRescheduleException, TaskAwaitingInput

from ratchet.contracts.alerts import Alerts
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.loading import loads
from ratchet.contracts.request import Promotion
from ratchet.contracts.schedule import Schedule
from ratchet.contracts.stages import Stage
from ratchet.runs.answers import answers
from ratchet.runs.verdict_page import verdict_page
from ratchet.store.base import Store
from ratchet.store.file import FileStore
from ratchet.store.opening import open_store
from ratchet_airflow.alerts.callbacks import AlertCallbacks
from ratchet_airflow.approval import WAIT, ApproveOperator, answer_until
from ratchet_airflow.links import verdict_of
from ratchet_airflow.outages import SAID, WAITED
from ratchet_airflow.run_id import store_run_id
from tests.plugins.test_operators import States
from tests.runs.recorded import keep, keep_plan
from tests.runs.test_requests import JUDGED, SPEC, TRAINED, outcome, plan
from tests.store_calls import counted_calls

NOW = datetime(2026, 11, 21, 2, 40, tzinfo=UTC)
RUN = "manual__2026-11-21"
GAIN = {"value": 0.02, "low": 0.008, "high": 0.033}
BETTER: dict[str, Any] = {
    **JUDGED,
    "candidate_metrics": {"auc": 0.71}, "baseline_metrics": {"auc": 0.70}, "baseline_kind": "champion", "gain": GAIN,
    "min_gain": 0.005, "holdout": ["2026-11-20"], "rows": 3000,
    "baseline": {
        "model": "small", "number": 7, "version": "4", "digest": digest(b"old"), "data_date": "2026-11-12", "manifests": {},
    },
    "slices": [
        {"column": "country", "value": "DE", "rows": 2000, "candidate": 0.7, "baseline": 0.6, "gain": GAIN, "passed": True},
        {"column": "country", "value": "F|R*", "rows": 800, "candidate": 0.6, "baseline": 0.7,
         "gain": {"value": -0.09, "low": -0.12, "high": -0.05}, "passed": False},
        {"column": "country", "value": "US", "rows": 200, "candidate": None, "baseline": None, "gain": None, "passed": True},
    ],
    "guards": [
        {"kind": "metric", "name": "brier", "candidate": 0.1, "baseline": 0.1, "limit": 0.01,
         "found": {"value": 0.01, "low": -0.002, "high": 0.02}, "outcome": "passed"},
        {"kind": "latency", "name": "latency", "candidate": None, "limit": 1.5, "outcome": "not-provable"},
        {"kind": "floor", "name": "auc", "candidate": 0.71, "limit": 0.8,
         "found": {"value": 0.71, "low": 0.7, "high": 0.72}, "outcome": "failed"},
    ],
}  # fmt: skip
INGESTED = {
    "table": "tables/small/1", "version": 1,
    "days": [{"day": "2026-11-20", "file": {"key": "a", "sha256": digest(b"a"), "bytes": 1}, "source": digest(b"s")}],
}  # fmt: skip
Ask = Callable[..., dict[str, Any] | None]


@pytest.mark.parametrize(
    ("cron", "timezone", "until"),
    [
        ("0 2 * * *", "UTC", datetime(2026, 11, 22, 2, tzinfo=UTC)),
        ("0 2 * * *", "America/New_York", datetime(2026, 11, 21, 7, tzinfo=UTC)),
        ("0 2 1 * *", "UTC", NOW + WAIT),
    ],
)
def test_a_question_lapses_when_the_next_night_is_due_or_after_a_week(
    cron: str, timezone: str, until: datetime
) -> None:
    answered = answer_until(Schedule(cron=cron, timezone=timezone), NOW)
    assert answered == until
    assert type(answered - NOW) is timedelta  # what Airflow can hand on


def test_without_a_schedule_there_is_a_week() -> None:
    assert answer_until(None, NOW) == NOW + timedelta(days=7)


class Question:
    """The task `approve` of a run, and what it asked Airflow to ask."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch, register: str, started_by: str) -> None:
        spec = loads(f"{SPEC}register: {register}\n")
        self.store, self.asked, self.skipped = store, [], []  # type: ignore[var-annotated] # both filled below
        monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **given: self.asked.append(given))
        self.run_id = store_run_id(RUN)
        promotion = Promotion(mode="approve")
        made = plan(
            spec=spec, run_id=self.run_id, origin=RUN, started_by=started_by, promotion=promotion, store=store.uri
        )
        summaries: dict[Stage, Any] = {"ingest": INGESTED, "train": TRAINED, "evaluate": BETTER}
        keep_plan(store, made)
        keep(store, made, *(outcome(stage, summary=summary) for stage, summary in summaries.items()))
        callbacks = AlertCallbacks(pipeline="small", timezone="UTC", alerts=Alerts())
        self.task = ApproveOperator(pipeline="small", callbacks=callbacks)
        monkeypatch.setattr(ApproveOperator, "skip", lambda _, **given: self.skipped.append(given))
        run = SimpleNamespace(run_id=RUN, start_date=NOW, partition_key="2026-11-20")
        self.states, instance = States(), SimpleNamespace(id="t", max_tries=2)
        self.context: Any = {
            "run_id": RUN, "task_instance": instance, "ti": instance, "dag_run": run, "task": self.task,
            "task_state_store": self.states,
        }  # fmt: skip

    def ask(self) -> dict[str, Any] | None:
        """What the person is asked; None if nobody is."""
        before = len(self.asked)
        try:
            self.task.execute(self.context)
        except TaskAwaitingInput:
            return self.asked[-1]  # type: ignore[no-any-return] # a test's record
        assert len(self.asked) == before
        return None

    def answer(self, by: str | None, option: str = "Approve", text: str = "") -> bool:
        """Answer; whether the task has ended by that, and does not ask again."""
        event = {
            "chosen_options": [option], "params_input": {"comment": text}, "responded_at": NOW, "timedout": by is None,
            "responded_by_user": {"id": "17", "name": by} if by else None,
        }  # fmt: skip
        try:
            self.task.execute_complete(self.context, event)
        except TaskAwaitingInput:
            return False
        return True

    @property
    def lines(self) -> list[str]:
        return [one.line for one in answers(self.store, "small", self.run_id)]


@pytest.fixture
def question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Question]:
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))

    def made(register: str = "{promote: approve}", started_by: str = "") -> Question:
        store = open_store(str(tmp_path / "store"))
        store.prepare()
        return Question(store, monkeypatch, register, started_by)

    return made


def test_the_question_shows_models_gain_slices_and_the_page(question: Callable[..., Question]) -> None:
    asked = question()
    body = asked.ask()["body"]
    assert body.startswith("better by 2 %")
    assert f"| production | version 4 | up to 2026-11-12 | record 7, `{digest(b'old')[:12]}` |" in body
    assert "| candidate | run of 2026-11-20 | 2026-11-20 to 2026-11-20 |" in body
    assert "+2 % (+0.8 % to +3.3 %) with 95 % confidence; the lower bound has to be above 0.5 %" in body
    slices = body[body.index("| slice |") :].splitlines()
    assert slices[2].startswith("| country=F\\|R\\* | 800 | ")  # the one that lost comes first, and is no Markdown
    assert slices[2].endswith("| **loses too much** |")
    assert any(line.endswith("| not measurable | not provable |") for line in slices)
    assert f"{verdict_of('small', asked.run_id)})" in body


def test_the_question_and_the_page_show_what_is_broken_and_what_could_not_be_proven(
    question: Callable[..., Question],
) -> None:
    asked = question()
    body = asked.ask()["body"]
    table = body[body.index("| guard rail |") :].replace("\N{MINUS SIGN}", "-")
    assert table.splitlines()[2:7] == [
        "| auc, floor | 0.71 (0.7 to 0.72) | better than 0.8 | **broken** |",
        "| latency, times the champion's | not measurable | 1.5 | **not provable** |",
        "| brier | +1 % (-0.2 % to +2 %) | a loss of 1 % | passed |",
        "",
        "**Not provable: latency, times the champion's.** It has not passed; `gate.unproven_guards` is `block`.",
    ]
    page = verdict_page(asked.store, "small", asked.run_id)
    assert "<td>latency, times the champion&#39;s</td><td>not measurable</td>" in page


def test_a_verdict_without_guard_rails_shows_no_table_of_them(
    question: Callable[..., Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BETTER, "guards", [])
    assert "guard rail" not in question().ask()["body"]


def test_the_page_of_the_verdict_is_there_before_the_report(
    question: Callable[..., Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = question()
    asked.answer("ben", "Reject", "not <b>today</b>")
    for number in range(3):  # the task was cleared, and answered again
        asked.answer("ben", "Reject", f"reason {number}")
    with counted_calls(monkeypatch) as calls:
        page = verdict_page(asked.store, "small", asked.run_id)
    assert len(calls) <= 5
    assert page.count("reason ") == len(asked.lines) - 1 == 3
    assert "loses too much" in page
    assert "no of ben at 2026-11-21 02:40 UTC: not &lt;b&gt;today&lt;/b&gt;" in page
    with pytest.raises(LookupError):
        verdict_page(asked.store, "small", "another")


def test_a_yes_is_recorded_with_its_person_its_time_and_its_text(question: Callable[..., Question]) -> None:
    asked = question()
    assert asked.ask() is not None
    assert asked.answer("ada", text="looks fine")
    assert asked.lines == ["yes of ada at 2026-11-21 02:40 UTC: looks fine"]
    assert asked.ask() is None  # a cleared task finds it
    assert asked.skipped == []


@contextmanager
def store_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing can be read from the store."""

    def read(*_: object) -> bytes:
        raise Unavailable("the store does not answer")

    with monkeypatch.context() as away:
        away.setattr(FileStore, "read", read)
        yield


def test_an_answer_that_comes_while_the_store_is_away_is_recorded_later_and_nobody_is_asked_again(
    question: Callable[..., Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = question()
    assert asked.ask() is not None
    with store_away(monkeypatch), pytest.raises(AirflowRescheduleException):
        asked.answer("ada", text="looks fine")
    assert asked.lines == []
    with store_away(monkeypatch), pytest.raises(AirflowRescheduleException):
        asked.ask()
    assert asked.ask() is None
    assert asked.lines == ["yes of ada at 2026-11-21 02:40 UTC: looks fine"]
    assert set(asked.states.kept) == {WAITED, SAID}


def test_an_answer_that_was_recorded_and_not_dropped_counts_and_nobody_is_asked_again(
    question: Callable[..., Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = question()
    with monkeypatch.context() as killed, pytest.raises(AirflowRescheduleException):
        asked_away(killed, asked)
    assert asked.lines == ["yes of ada at 2026-11-21 02:40 UTC"]
    assert asked.ask() is None
    assert asked.lines == ["yes of ada at 2026-11-21 02:40 UTC"]


def test_an_answer_counts_once_where_the_store_goes_away_after_it(
    question: Callable[..., Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> object:
        raise Unavailable("the store does not answer")

    asked = question()
    with monkeypatch.context() as gone:
        gone.setattr(FileStore, "list", away)  # what the line of the run begins with
        assert asked.answer("ben", "Reject")
    assert asked.lines == ["no of ben at 2026-11-21 02:40 UTC"]


def asked_away(killed: pytest.MonkeyPatch, asked: Question) -> None:
    """Ada says yes; what Airflow keeps for the task cannot be changed once that is recorded."""

    def away(_: str) -> None:
        raise ConnectionError("Airflow's server does not answer")

    killed.setattr(asked.states, "delete", away)
    asked.answer("ada")


def test_a_clear_drops_an_answer_that_was_never_recorded(
    question: Callable[..., Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = question()
    with store_away(monkeypatch), pytest.raises(AirflowRescheduleException):
        asked.answer("ada")
    asked.context["ti"].max_tries = 5
    assert asked.ask() is not None
    assert asked.lines == []


def test_an_answer_of_somebody_else_is_no_answer(question: Callable[..., Question]) -> None:
    asked = question("{promote: approve, approvers: [ada]}")
    for option in ("Approve", "Reject"):
        assert not asked.answer("eve", option)
    assert asked.lines == []
    assert asked.answer("ada")


def test_airflow_is_told_the_approvers_where_it_knows_people_by_their_names(
    question: Callable[..., Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = question("{promote: approve, approvers: [ada]}")
    simple = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", simple)
    assert asked.ask()["assigned_users"] == [{"id": "ada", "name": "ada"}]  # type: ignore[index] # it asks
    fab = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", fab)
    assert asked.ask()["assigned_users"] is None  # type: ignore[index] # there an id is a number


def test_no_answer_in_time_is_a_recorded_no(question: Callable[..., Question]) -> None:
    asked = question("{promote: approve, approvers: [ada]}")
    assert asked.answer(None, "Reject")
    assert asked.lines == ["no answer in time, which is a no, at 2026-11-21 02:40 UTC"]


def test_a_yes_of_nobody_is_asked_again(question: Callable[..., Question]) -> None:
    asked = question()
    assert not asked.answer(None)
    assert asked.lines == []


def test_two_people_have_to_agree_and_the_one_who_started_the_run_is_neither(question: Callable[..., Question]) -> None:
    asked = question("{promote: approve, approvals: 2}", started_by="sam")
    assert not asked.answer("sam")
    assert not asked.answer("ada")
    assert not asked.answer("ada")
    assert asked.answer("ben")
    assert [line[:10] for line in asked.lines] == ["yes of ada", "yes of ben"]


def test_the_second_of_two_can_still_say_no(question: Callable[..., Question]) -> None:
    asked = question("{promote: approve, approvals: 2}")
    assert not asked.answer("ada")
    assert asked.answer("ben", "Reject")
    assert asked.ask() is not None  # a yes that was taken back does not let a cleared task through
