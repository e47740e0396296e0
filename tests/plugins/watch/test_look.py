"""What the watch reads over Airflow's REST API, and with how many requests. A real Airflow is in tests/airflow."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet_airflow.watch.airflow_server import AirflowServer
from ratchet_airflow.watch.look import Look, ended_runs
from tests.plugins.watch.airflow_api import AirflowApi, dag, run, task

HOUR = timedelta(hours=1)


@pytest.fixture
def now() -> datetime:
    """As the test begins: what the watch asks for depends on it."""
    return datetime.now(UTC)


@pytest.fixture
def api() -> Iterator[AirflowApi]:
    with AirflowApi().listening() as listening:
        yield listening


def test_200_pipelines_that_run_are_a_few_requests_and_no_tasks(api: AirflowApi, now: datetime) -> None:
    names = [f"p{number:03d}" for number in range(200)]
    api.dags = [dag(name) for name in names]
    api.runs = [run(name, "scheduled__1", "running", now - HOUR) for name in names]
    api.runs += [run(name, "scheduled__0", "success", now - 24 * HOUR) for name in names]
    look = Look(AirflowServer(api.address))
    runs, backfills = look.runs(ended_within=HOUR)
    assert (len(runs), backfills, {one.state for one in runs}) == (200, [], {"running"})
    assert set(look.dags({})) == set(names)
    assert len(api.asked) <= 6


def test_an_airflow_that_gives_fewer_rows_at_once_is_read_whole(api: AirflowApi, now: datetime) -> None:
    names = [f"p{number:03d}" for number in range(120)]
    api.dags, api.most = [dag(name) for name in names], 50  # [api] maximum_page_limit
    api.runs = [run(name, "scheduled__1", "failed", now - HOUR / 2) for name in names]
    runs, _ = Look(AirflowServer(api.address)).runs(ended_within=HOUR)
    assert [one.dag_id for one in runs] == names


def test_a_run_has_its_times_and_its_tasks_when_they_are_asked_for(api: AirflowApi, now: datetime) -> None:
    api.dags = [dag("p"), dag("other")]
    api.runs = [
        run("p", "scheduled__2026-11-21T02:00:00+00:00", "failed", now - HOUR / 2, partition_key="2026-11-20"),
        run("p", "asks", "running", now - HOUR),
    ]
    api.tasks = {
        api.runs[0]["dag_run_id"]: [task("plan", "success", now - HOUR / 2), task("train", "failed", now - HOUR / 4)],
        "asks": [task("approve", "awaiting_input", now)],
    }
    look = Look(AirflowServer(api.address))
    (asks, failed), _ = look.runs(ended_within=HOUR)
    assert (failed.partition, failed.started, failed.tasks) == ("2026-11-20", now - HOUR / 2, ())
    assert failed.ended == now - HOUR / 2 + timedelta(minutes=5)
    assert [(one.task_id, one.state, one.changed) for one in look.tasks(failed)] == [
        ("plan", "success", now - HOUR / 2),
        ("train", "failed", now - HOUR / 4),
    ]
    assert asks.question.endswith("/tasks/approve/required_actions")


def test_a_run_belongs_to_the_newest_backfill_that_was_there_when_it_was_queued(api: AirflowApi, now: datetime) -> None:
    def backfill(number: int, ago: timedelta, first: str, last: str) -> dict[str, object]:
        dates = {"from_date": f"{first}T00:00:00Z", "to_date": f"{last}T00:00:00Z"}
        return {"id": number, "dag_id": "p", "created_at": (now - ago).isoformat(), **dates}

    api.dags = [dag("p")]
    api.backfills = [
        backfill(1, 9 * HOUR, "2026-11-01", "2026-11-02"),
        backfill(2, 2 * HOUR, "2026-11-10", "2026-11-12"),
    ]
    days = {"2026-11-01": 8 * HOUR, "2026-11-10": HOUR, "2026-11-11": HOUR}
    api.runs = [
        run("p", f"backfill__{day}", "success", now - ago, partition_key=day, run_type="backfill")
        for day, ago in days.items()
    ]
    api.runs.append(run("p", "cleared", "failed", now - HOUR, partition_key="2026-11-02", run_type="backfill"))
    runs, (first, second) = Look(AirflowServer(api.address)).runs(ended_within=2 * HOUR)
    assert {one.run_id: one.backfill for one in runs} == {
        "backfill__2026-11-10": 2, "backfill__2026-11-11": 2, "cleared": 1,
    }  # fmt: skip
    assert [one.partition for one in first.runs] == ["2026-11-01", "2026-11-02"]  # also what ended long ago
    assert [one.partition for one in second.runs] == ["2026-11-10", "2026-11-11"]


def test_a_pause_is_asked_for_once_and_a_started_run_only_since_it_was_due(api: AirflowApi, now: datetime) -> None:
    api.dags = [dag("p", is_paused=True), dag("q", is_stale=True)]
    api.logs = [{"dag_id": "p", "when": now.isoformat(), "owner": "Ada", "event": "patch_dag"}]
    api.runs = [
        run("q", "old", "success", now - 48 * HOUR, partition_key="2026-11-19"),
        run("q", "new", "failed", now - HOUR, partition_key="2026-11-20"),
        run("q", "waits", "queued", now - HOUR, partition_key="2026-11-21"),
    ]
    server = AirflowServer(api.address)
    for _ in range(2):
        found = Look(server).dags({"q": now - 2 * HOUR, "gone": now})
    assert (found["p"].paused_at, found["p"].paused_by, found["q"].stale) == (now, "Ada", True)
    assert found["q"].started == {"2026-11-20"}
    assert sum("eventLogs" in asked for asked in api.asked) == 1
    api.dags[0]["is_paused"] = False
    assert Look(server).dags({})["p"].paused_at is None


def test_a_second_pause_is_another_one_although_nobody_asked_for_the_dags_between_them(
    api: AirflowApi, now: datetime
) -> None:
    api.dags = [dag("twice", is_paused=True)]
    api.logs = [{"dag_id": "twice", "when": now.isoformat(), "owner": "Ada", "event": "patch_dag"}]
    server = AirflowServer(api.address)
    assert Look(server).dags({})["twice"].paused_at == now
    api.dags[0]["is_paused"] = False
    Look(server).runs(ended_within=HOUR)  # every night is in the store, so the scan asks for nothing more
    api.dags[0]["is_paused"] = True
    api.logs[0]["when"] = (now + HOUR).isoformat()
    assert Look(server).dags({})["twice"].paused_at == now + HOUR


def test_a_pause_is_seen_by_a_user_who_may_not_read_the_audit_log(
    api: AirflowApi, caplog: pytest.LogCaptureFixture
) -> None:
    api.dags, api.statuses = [dag("rested", is_paused=True), dag("q")], {"/api/v2/eventLogs": 403}
    found = Look(AirflowServer(api.address)).dags({})
    assert (found["rested"].paused, found["rested"].paused_at, set(found)) == (True, None, {"rested", "q"})
    assert "cannot tell who paused rested: Airflow does not let ratchet-watch read /eventLogs (403)" in caplog.text


def test_only_what_may_be_an_alert_is_news(api: AirflowApi, now: datetime) -> None:
    began = now - timedelta(minutes=5)  # ends five minutes later
    api.runs = [
        run("p", "by a clock that is slow, or in a long round", "failed", began - timedelta(minutes=5)),
        run("p", "failed", "failed", began),
        run("p", "fine", "success", began),
        run("p", "date", "success", began, run_type="backfill"),
        run("p", "before", "failed", began - HOUR),
    ]
    assert {name for _, name, _ in ended_runs(AirflowServer(api.address))} == {
        "by a clock that is slow, or in a long round", "failed", "date",
    }  # fmt: skip


def test_a_triggerer_is_missed_while_tasks_wait_for_it(api: AirflowApi, now: datetime) -> None:
    api.runs, api.triggerer = [run("p", "one", "running", now - HOUR)], "unhealthy"
    look = Look(AirflowServer(api.address))
    assert look.parts_away() == {}
    api.tasks = {"one": [task("ingest", "success", now), task("train", "deferred", now)]}
    missed = ["the triggerer has no heartbeat, and deferred tasks wait for it: 1"]
    assert [*look.parts_away().values()] == missed
    api.triggerer = None  # it never ran
    assert [*look.parts_away().values()] == missed


def test_a_token_that_has_expired_is_made_again_and_a_server_that_is_away_is_named(api: AirflowApi) -> None:
    server = AirflowServer(api.address)
    assert Look(server).parts_away() == {}
    api.tokens, api.scheduler = set(), "unhealthy"
    assert [*Look(server).parts_away().values()] == ["the scheduler has no heartbeat"]
    api.scheduler, api.dag_processor = "healthy", None
    assert [*Look(server).parts_away().values()] == [
        "the DAG processor has no heartbeat, so no change of a pipeline arrives"
    ]
    with pytest.raises(ConfigurationError, match="does not know ratchet-watch, or the password is another one"):
        Look(AirflowServer(api.address.replace("sesame", "x"))).parts_away()
    away = AirflowServer("http://ratchet-watch:sesame-canary@127.0.0.1:9/base")
    with pytest.raises(Unavailable, match=r"does not answer at http://127\.0\.0\.1:9/base: ") as raised:
        Look(away).parts_away()
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("said", [{}, {"dag_runs": None, "total_entries": 1}, {"dag_runs": [{}], "total_entries": 1}])
def test_an_answer_of_another_form_is_named(api: AirflowApi, monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    api.dags = [dag("p")]
    monkeypatch.setattr(api, "answer", lambda *_: ("dags", api.dags))
    page = api.page
    monkeypatch.setattr(api, "page", lambda path, *rest: page(path, *rest) if path == "/dags" else said)
    server = AirflowServer(api.address)
    with pytest.raises(Unavailable, match="an answer that is not as expected"):
        ended_runs(server)
    with pytest.raises(Unavailable, match="an answer that is not as expected"):
        Look(server).runs(ended_within=HOUR)
    monkeypatch.setattr(api, "receiver", lambda _: (200, said))
    with pytest.raises(Unavailable, match="what answers is not Ratchet's plugin"):
        server.receiver("ops")


def test_addresses_are_those_of_airflow_and_stay_known_while_it_is_away(caplog: pytest.LogCaptureFixture) -> None:
    api = AirflowApi(receivers={"ops": "json://127.0.0.1:1"})
    with api.listening():
        server = AirflowServer(api.address)
        assert [server.receiver("ops"), server.receiver("nobody")] == ["json://127.0.0.1:1", None]
    assert server.receiver("ops") == "json://127.0.0.1:1"
    with pytest.raises(Unavailable, match=r"did not answer at .* a moment ago"):
        server.receiver("nobody")
    with AirflowApi().listening() as other:
        server.url = other.url
        assert server.receiver("ops") == "json://127.0.0.1:1"  # it is not asked again at once, for each letter
        Look(server).runs(ended_within=HOUR)
        other_server = (404, {"detail": "Not Found"})
        with pytest.MonkeyPatch.context() as proxy:
            proxy.setattr(other, "receiver", lambda _: other_server)
            assert server.receiver("ops") == "json://127.0.0.1:1"
        other.metadatabase = "unhealthy"
        assert server.receiver("ops") == "json://127.0.0.1:1"
        with pytest.raises(Unavailable, match="does not reach its database, which has the connections"):
            server.receiver("nobody")
        other.metadatabase = "healthy"
        assert server.receiver("ops") is None  # somebody has removed the connection
