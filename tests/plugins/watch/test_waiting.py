"""The outbox as the watch sees it, with a real receiver."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from apprise.plugins.discord import NotifyDiscord

from ratchet.contracts.errors import Unavailable
from ratchet.outbox.deadline import Deadline
from ratchet.outbox.letter import Letter
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet_airflow import settings
from ratchet_airflow.alerts.delivery import _silence, outbox_of, send
from ratchet_airflow.alerts.message import make_alert
from ratchet_airflow.alerts.situation import Situation
from ratchet_airflow.watch import waiting
from ratchet_airflow.watch.airflow_runs import Backfill, Run
from ratchet_airflow.watch.airflow_server import AirflowServer
from ratchet_airflow.watch.look import Look
from ratchet_airflow.watch.scan import Scanner
from tests.plugins.watch.airflow_api import AirflowApi
from tests.plugins.webhook import Webhook
from tests.store_calls import counted_calls

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with Webhook().listening() as listening:
        yield listening


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: Webhook) -> None:
    """Whose pipelines alert mlops."""
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path))
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    monkeypatch.setenv("RATCHET_ALERTS_MLOPS", hook.url)
    monkeypatch.setenv("RATCHET_PIPELINES", str(ROOT / "dags" / "pipelines"))


def test_a_store_that_is_away_is_reported_without_its_password(
    hook: Webhook, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: str) -> Store:
        raise Unavailable("http://reader:sesame-canary@proxy:3128 does not answer")

    monkeypatch.setattr("ratchet_airflow.watch.waiting.open_store", away)
    for _ in range(2):
        assert waiting.open_outbox(Deadline(60)) is None
    (body,) = hook.received
    assert "http://reader:***@proxy:3128 does not answer" in body["message"]
    assert "sesame-canary" not in str(body) + caplog.text


def test_each_address_hears_once_that_the_store_is_away_whatever_another_does(
    hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: str) -> Store:
        raise Unavailable("the bucket does not answer")

    monkeypatch.setattr("ratchet_airflow.watch.waiting.open_store", away)
    monkeypatch.setenv("RATCHET_ALERTS_MLOPS", f"{hook.url} json://127.0.0.1:9")  # nobody listens at the second
    for _ in range(3):
        assert waiting.open_outbox(Deadline(60)) is None
    assert len(hook.received) == 1


def test_a_long_body_reaches_a_service_with_a_limit_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[str] = []
    monkeypatch.setattr(NotifyDiscord, "send", lambda _, body, **__: parts.append(body) is None)
    made = datetime.now(UTC)
    lines = [f"line {number} of a long body" for number in range(300)]
    letter = Letter(
        event="e", receiver="r", pipeline="p", occasion="backfill", title="t", body="\n".join(lines), kind="info",
        made=made, due=made,
    )  # fmt: skip
    assert send(letter, "discord://123456789012345678/abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH")
    assert len(parts) > 1
    assert max(map(len, parts)) <= NotifyDiscord.body_maxlen
    assert all(line in "\n".join(parts) for line in lines)


def test_a_logger_is_as_it_was_after_two_threads_were_silent_at_once() -> None:
    logger = logging.getLogger("apprise")
    before = logger.level
    first, second = ExitStack(), ExitStack()
    first.enter_context(_silence)
    second.enter_context(_silence)
    first.close()
    assert logger.level > logging.CRITICAL
    second.close()
    assert logger.level == before


@pytest.mark.parametrize("seconds", [60.0, 0.0])
def test_many_letters_are_read_once_before_the_first_is_sent_and_at_least_one_is(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, now, reads = open_store(settings.read().store), datetime.now(UTC), list[int]()
    for number in range(40):
        letter = Letter(
            event=f"runs/p/r/alerts/{number}", receiver="mlops", pipeline="p", occasion="failure", title=str(number),
            body="a", kind="failure", made=now, due=now,
        )  # fmt: skip
        assert outbox_of(store).post(letter.event, b"{}", [letter])
    with counted_calls(monkeypatch) as calls:

        def count(*_: object) -> bool:
            reads.append(calls.count("read"))
            return True

        monkeypatch.setattr("ratchet_airflow.alerts.delivery.send", count)
        assert waiting.deliver(store, Deadline(seconds)) == (40 if seconds else 1)
    assert reads[0] <= 40 + 1  # what is taken may be read once more


def test_what_waits_is_sent_although_airflow_does_not_answer_which_is_said_once(
    hook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.now(UTC)
    store = open_store(settings.read().store)
    letter = Letter(
        event="runs/p/r/alerts/e",
        receiver="mlops",
        pipeline="p",
        occasion="failure",
        title="a",
        body="a",
        kind="failure",
        made=now,
        due=now,
    )
    assert outbox_of(store).post(letter.event, b"{}", [letter])
    scanner = Scanner(AirflowServer("http://watch:x@127.0.0.1:9"))
    assert scanner.scan()  # the watch goes on, and does not take silence for rest
    assert scanner.scan()
    assert [body["title"] for body in hook.received] == ["a"]
    assert caplog.text.count("cannot read the runs from Airflow") == 1
    with AirflowApi().listening() as api:
        scanner._server = AirflowServer(api.address)
        assert not scanner.scan()
    assert caplog.text.count("Airflow answers again") == 1


def test_what_waits_when_a_watch_starts_while_airflow_is_away_is_sent_when_that_is_back_and_no_heartbeat_till_then(
    hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses are connections of Airflow, and the watch before knew them."""
    monkeypatch.delenv("RATCHET_ALERTS_MLOPS")
    monkeypatch.setenv("RATCHET_HEARTBEAT_URL", hook.url.replace("json", "http") + "/ping")
    server, made = AirflowServer("http://ratchet-watch:sesame-canary@127.0.0.1:9"), datetime.now(UTC)
    monkeypatch.setattr("ratchet_airflow.alerts.delivery._asks", [server.receiver])
    store, scanner = open_store(settings.read().store), Scanner(server)
    letter = Letter(
        event="runs/p/r/alerts/e", receiver="mlops", pipeline="p", occasion="failure", title="a", body="a",
        kind="failure", made=made, due=made,
    )  # fmt: skip
    assert outbox_of(store).post(letter.event, b"{}", [letter])
    for hours in range(3 * 24):
        waiting.deliver(store, Deadline(60), lambda at=made + timedelta(hours=hours): at)
    assert [(one.title, one.tries) for one, _ in outbox_of(store).waiting()] == [("a", 0)]
    assert scanner.scan()
    assert hook.asked == []
    with AirflowApi(receivers={"mlops": hook.url}).listening() as api:
        server.url = api.url
        scanner.scan()  # it is not asked for an address so soon, and answers the rest
        assert "a" not in [body["title"] for body in hook.received]
        server._silent_until = 0.0  # a moment later
        scanner.scan()
    assert [body["title"] for body in hook.received if body["title"] == "a"] == ["a"]
    assert "/ping" in hook.asked


def test_a_night_that_is_due_while_airflow_does_not_answer_for_long_is_missing(
    hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner, now = Scanner(AirflowServer("http://watch:x@127.0.0.1:9")), datetime.now(UTC) + timedelta(days=2)
    scanner.scan(now)
    assert hook.received == []  # it may only be restarting
    monkeypatch.setattr("ratchet_airflow.watch.scan._AWAY_S", -1)
    scanner.scan(now)
    assert {"Airflow's server does not answer" in body["message"] for body in hook.received} == {True}


def test_people_hear_once_a_day_that_the_watch_may_not_read_airflow(
    hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet_airflow.watch.scan._AWAY_S", -1)
    monkeypatch.setattr("ratchet_airflow.watch.scan.scan_missing_nights", lambda *_: 0)
    began = datetime.now(UTC)
    with AirflowApi().listening() as api:
        for scanner in (Scanner(AirflowServer(api.address.replace("sesame", "wrong"))) for _ in range(2)):
            assert scanner.scan(began)  # also one that was started again
        api.dags, api.statuses = [], {"/api/v2/dags": 403}
        Scanner(AirflowServer(api.address)).scan(began + timedelta(days=1))
    assert [body["title"] for body in hook.received] == ["Ratchet: the watch may not read Airflow"] * 2
    first, second = (body["message"] for body in hook.received)
    assert "Airflow does not know ratchet-watch, or the password is another one; to do: create the user" in first
    assert "Airflow does not let ratchet-watch read /dags (403)" in second
    assert "canary" not in first + second


def test_what_ended_while_the_store_was_away_is_looked_at_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[timedelta] = []

    def nothing(_: Look, *, ended_within: timedelta) -> tuple[list[Run], list[Backfill]]:
        asked.append(ended_within)
        return [], []

    def away(_: str) -> Store:
        raise Unavailable("the store does not answer")

    monkeypatch.setattr(Look, "runs", nothing)
    began = datetime(2026, 11, 21, 2, tzinfo=UTC)
    with AirflowApi().listening() as api:
        scanner = Scanner(AirflowServer(api.address))
        scanner.scan(began)
        scanner.scan(began + timedelta(minutes=5))
        with monkeypatch.context() as outage:
            outage.setattr(waiting, "open_store", away)
            for hours in range(1, 4):
                assert scanner.scan(began + timedelta(hours=hours))
        scanner.scan(began + timedelta(hours=4))
    hour = timedelta(hours=1)
    assert asked == [timedelta(days=1), hour + timedelta(minutes=5), 5 * hour - timedelta(minutes=5)]


def test_a_watch_that_was_away_for_days_looks_at_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[timedelta] = []
    monkeypatch.setattr(Look, "runs", lambda _, *, ended_within: asked.append(ended_within) or ([], []))
    began, days = datetime(2026, 11, 21, 2, tzinfo=UTC), timedelta(days=1)
    with AirflowApi().listening() as api:
        for away in (0 * days, 2 * days, 2 * days + timedelta(minutes=10)):
            Scanner(AirflowServer(api.address)).scan(began + away)
    assert asked == [days, 2 * days + timedelta(hours=1), days]


def test_processes_that_ended_without_a_cause_are_not_one_cause() -> None:
    where = Situation(pipeline="p", run_id="r", stage="train", try_number=3, max_tries=2)
    assert make_alert("failure", where).shared_cause == ""
