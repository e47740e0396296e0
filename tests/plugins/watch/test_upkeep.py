"""Old rows and old logs that nobody deletes any more are one alert a day, and one more if that begins again."""

import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from croniter import croniter

from ratchet.checkout import ROOT
from ratchet.collection import deletions
from ratchet.contracts import outbox_paths
from ratchet.contracts.git_folder import asked
from ratchet.runners.docker import DockerRunner
from ratchet.store.opening import open_store
from ratchet_airflow.collection_time import EVERY
from ratchet_airflow.reaper import Reaper
from ratchet_airflow.watch import presence, upkeep
from ratchet_airflow.watch.airflow_server import AirflowServer
from ratchet_airflow.watch.scan import Scanner
from ratchet_airflow.watch.upkeep import Upkeep
from tests.plugins.webhook import Webhook

HOUR_S = 3600.0
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    """Where alerts of an installation go that began long ago."""
    monkeypatch.setattr(upkeep, "_FIRST_S", 0)
    with Webhook().listening() as hook:
        for name, value in {
            "RATCHET_STORE": str(tmp_path), "RATCHET_ALERT_LOG": str(tmp_path / "alerts.jsonl"),
            "RATCHET_ALERTS_MLOPS": hook.url, "RATCHET_PIPELINES": str(ROOT / "dags" / "pipelines"),
            "RATCHET_INSTALLATION": "here", "RATCHET_GC": "weekly",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        yield hook


def deleted(folder: Path, what: deletions.What, *, hours_ago: float) -> None:
    deletions.expect(folder, what)
    at = time.time() - hours_ago * HOUR_S
    os.utime(folder / f"{what}-deleted", (at, at))


def test_rows_that_stay_for_two_days_are_an_alert_of_the_watch(tmp_path: Path, hook: Webhook) -> None:
    look = Scanner(AirflowServer("http://watch:x@127.0.0.1:9")).scan
    look()  # nothing here deletes rows
    deleted(tmp_path, "rows", hours_ago=47)
    look()
    assert hook.received == []
    deleted(tmp_path, "rows", hours_ago=49)
    for _ in range(2):
        look()
    (body,) = hook.received
    assert body["title"] == "Ratchet: old rows of Airflow are not deleted"
    assert "no deletion of old rows of Airflow has gone well" in body["message"]
    assert "What to do: read the log of the service `rows`, or `row-retention` with make serve" in body["message"]


@pytest.mark.docker
def test_logs_that_stay_for_half_a_day_are_an_alert_of_the_reaper_of_their_host(tmp_path: Path, hook: Webhook) -> None:
    look, host = Reaper(AirflowServer("http://watch:x@127.0.0.1:9")).look, DockerRunner().engine.host
    for hours, alerts in ((11, 0), (14, 1), (11, 1), (13, 2)):  # again on the same day
        deleted(tmp_path, "logs", hours_ago=hours)
        for _ in range(2):
            assert look()
        assert len(hook.received) == alerts
    body, _ = hook.received
    assert body["title"] == f"Ratchet: old logs are not deleted on {host}"
    assert f"What to do: read the log of the service `logs` on {host}" in body["message"]


@pytest.mark.docker
def test_a_follower_that_is_away_for_half_an_hour_is_an_alert_of_the_reaper_of_its_host(
    tmp_path: Path, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    reaper, host = Reaper(AirflowServer("http://watch:x@127.0.0.1:9")), DockerRunner().engine.host
    monkeypatch.setattr(reaper._upkeep, "_began", time.monotonic() - HOUR_S)
    assert reaper.look()  # its tasks leave nothing to one
    monkeypatch.setenv("RATCHET_FOLLOWER", "host")
    file = tmp_path / "follower-alive"
    for minutes, alerts in ((29, 0), (32, 1), (29, 1), (31, 2)):  # again on the same day
        file.touch()
        os.utime(file, (time.time() - minutes * 60,) * 2)
        for _ in range(2):
            assert reaper.look()
        assert len(hook.received) == alerts
    body, _ = hook.received
    assert body["title"] == f"Ratchet: the follower of {host} is away"
    assert f"What to do: read the log of the service `follower` on {host}" in body["message"]


def test_git_that_does_not_answer_for_hours_is_an_alert_of_the_watch(
    tmp_path: Path, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "current").symlink_to(ROOT / "dags" / "pipelines")
    monkeypatch.setenv("RATCHET_PIPELINES", str(tmp_path / "current"))
    look = Upkeep().report_git
    look()  # these come from no git
    file = asked(tmp_path / "current")
    for hours, alerts in ((2.9, 0), (3.2, 1), (2.9, 1), (3.1, 2)):  # again on the same day
        file.touch()
        os.utime(file, (time.time() - hours * HOUR_S,) * 2)
        for _ in range(2):
            look()
        assert len(hook.received) == alerts
    body, _ = hook.received
    assert body["title"] == "Ratchet: no pipelines come from git"
    assert "What to do: read the log of the service `pipelines`" in body["message"]


def test_a_collection_that_has_not_run_for_nine_days_is_an_alert_of_the_watch(
    tmp_path: Path, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a person has paused its DAG, and nobody remembers; also where it has never run."""
    store, look = open_store(str(tmp_path)), Scanner(AirflowServer("http://watch:x@127.0.0.1:9")).scan
    start = store.now_ns()

    def alerts(days: float) -> int:
        monkeypatch.setattr(type(store), "now_ns", lambda _: start + int(days * 24 * HOUR_S * 1e9))
        look()
        return len([body for body in hook.received if "collected" in body["title"]])

    assert [alerts(days) for days in (0, 8.9)] == [0, 0]
    presence.mark_collection(store)
    at = start + int(7 * 24 * HOUR_S * 1e9)
    os.utime(tmp_path / outbox_paths.presence("here", "collection"), ns=(at, at))
    assert [alerts(days) for days in (9.1, 15.9, 16.1, 16.2)] == [0, 0, 1, 1]
    (body,) = [body for body in hook.received if "collected" in body["title"]]
    assert body["title"] == "Ratchet: the store was not collected"
    assert "For 9 days the DAG ratchet-gc has not run" in body["message"]
    assert f"or the scheduler is away on {croniter(EVERY).get_next(datetime):%As at %H:%M UTC}" in body["message"]
    (tmp_path / outbox_paths.presence("here", "collection")).unlink()
    assert presence.not_collected_for(store) > timedelta(days=16)  # since the first look


def test_a_backup_that_was_not_copied_for_two_nights_is_an_alert_of_the_watch(tmp_path: Path, hook: Webhook) -> None:
    """The mark is that of `make backup`, which cron runs."""
    store, look = open_store(str(tmp_path)), Scanner(AirflowServer("http://watch:x@127.0.0.1:9")).scan
    key = outbox_paths.presence("here", outbox_paths.BACKUP)
    look()  # no copies are wanted
    store.create(key, b"{}")
    for hours, alerts in ((49.9, 0), (50.1, 1), (49.9, 1), (50.2, 2)):  # again on the same day
        os.utime(tmp_path / key, (time.time() - hours * HOUR_S,) * 2)
        for _ in range(2):
            look()
        assert len(hook.received) == alerts
    body, _ = hook.received
    assert body["title"] == "Ratchet: no backup was copied off the host"
    assert "UTC no backup was copied\nMeanwhile a lost disk loses what came since" in body["message"]
    assert (
        "What to do: run `make backup` on the main host and read what it says; see why cron did not" in body["message"]
    )
    store.delete(key)  # as a backup does where no copies are wanted any more
    look()
    assert len(hook.received) == 2


def test_what_a_person_does_not_want_deleted_is_not_missed(
    tmp_path: Path, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted(tmp_path, "rows", hours_ago=500)
    for policy in ("results=60", "no policy"):
        monkeypatch.setenv("RATCHET_GC", policy)
        Upkeep().report_rows()
        Upkeep().report_collection(open_store(str(tmp_path)))
    assert hook.received == []


def test_where_all_was_stopped_there_is_time_for_a_first_deletion(
    tmp_path: Path, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_FIRST_S", 3 * HOUR_S)
    deleted(tmp_path, "rows", hours_ago=500)
    begun, now = Upkeep(), time.monotonic()
    for hours, alerts in ((2.9, 0), (3.1, 1)):
        monkeypatch.setattr("ratchet_airflow.watch.upkeep.time.monotonic", lambda now=now + hours * HOUR_S: now)
        begun.report_rows()
        assert len(hook.received) == alerts
    deletions.expect(tmp_path, "rows")  # a start is no deletion
    assert deletions.late_since(tmp_path, "rows") is not None
    deletions.mark(tmp_path, "rows")
    assert deletions.late_since(tmp_path, "rows") is None
