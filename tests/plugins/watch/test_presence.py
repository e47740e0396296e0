"""An Airflow whose watch or whose reaper nobody has started says so."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts import outbox_paths
from ratchet.runners.runner import Engine
from ratchet.runs.known_hosts import mark_host
from ratchet.runs.lost_hosts import say_gone
from ratchet.store.opening import open_store
from ratchet_airflow.reaper import Reaper
from ratchet_airflow.watch.airflow_server import AirflowServer
from ratchet_airflow.watch.presence import Server, away_for, hosts_away, mark, report
from ratchet_airflow.watch.scan import Scanner
from tests.plugins.webhook import Webhook

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import


@pytest.mark.parametrize(("away", "module"), [("watch", "watch,"), ("reaper", "reaper beside each engine,")])
def test_watch_and_reaper_tell_people_once_a_day_that_the_other_is_not_there(
    away: Server, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, server = open_store(str(tmp_path)), AirflowServer("http://watch:x@127.0.0.1:9")
    with Webhook().listening() as hook:
        for name, value in {
            "RATCHET_STORE": str(tmp_path), "RATCHET_ALERT_LOG": str(tmp_path / "alerts.jsonl"),
            "RATCHET_ALERTS_MLOPS": hook.url, "RATCHET_PIPELINES": str(ROOT / "dags" / "pipelines"),
            "RATCHET_INSTALLATION": "here", "RATCHET_RUNNER": "process", "DOCKER_HOST": "tcp://127.0.0.1:9",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        look = Reaper(server).look if away == "watch" else Scanner(server).scan
        assert look()  # from now on the other one is expected
        clock = store.now_ns()
        monkeypatch.setattr(type(store), "now_ns", lambda _: clock + int(3600e9))
        for _ in range(2):
            assert look()
        (body,) = hook.received
        assert body["title"] == f"Ratchet: no {away} is running"
        assert f"For 1h no {away} has been there" in body["message"]
        assert f"python -m ratchet_airflow.{module}" in body["message"]


def test_where_one_of_several_reapers_is_not_there_people_hear_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, scanner = open_store(str(tmp_path)), Scanner(AirflowServer("http://watch:x@127.0.0.1:9"))
    with Webhook().listening() as hook:
        for name, value in {
            "RATCHET_STORE": str(tmp_path), "RATCHET_ALERT_LOG": str(tmp_path / "alerts.jsonl"),
            "RATCHET_ALERTS_MLOPS": hook.url, "RATCHET_PIPELINES": str(ROOT / "dags" / "pipelines"),
            "RATCHET_INSTALLATION": "here",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        mark(store, "reaper")
        for name in ("gpu-1", "gpu-2"):
            mark_host(store, "here", Engine(name, name), 1)
        clock = store.now_ns()
        for hours in (1, 2, 3):
            at = clock + int(hours * 3600e9)
            monkeypatch.setattr(type(store), "now_ns", lambda _, at=at: at)
            for there in (outbox_paths.presence("here", "reaper"), outbox_paths.host("here", "gpu-1")):
                os.utime(tmp_path / there, ns=(at, at))
            scanner.scan()
        (body,) = hook.received
        assert body["title"] == "Ratchet: no reaper is running on gpu-2"
        assert "the reaper of gpu-2 has not been there" in body["message"]
        assert "`ratchet host-gone gpu-2 --because WHY`" in body["message"]


def test_a_server_that_goes_again_on_the_same_day_is_said_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "RATCHET_ALERT_LOG": str(tmp_path / "alerts.jsonl"), "RATCHET_ALERTS_MLOPS": "",
        "RATCHET_STORE": str(tmp_path), "RATCHET_PIPELINES": str(ROOT / "dags" / "pipelines"),
        "RATCHET_INSTALLATION": "here",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    store = open_store(str(tmp_path))
    clock = store.now_ns()
    for hours, is_there in ((0, True), (1, False), (2, False), (2.5, False), (3, True), (4, False), (5, False)):
        at = clock + int(hours * 3600e9)
        monkeypatch.setattr(type(store), "now_ns", lambda _, at=at: at)
        missed = store.head(outbox_paths.absence("here", "watch"))
        if is_there:
            mark(store, "watch")
            os.utime(tmp_path / outbox_paths.presence("here", "watch"), ns=(at, at))
        else:
            report(store, "watch")
        now = store.head(outbox_paths.absence("here", "watch"))
        if now is not None and now != missed:  # written at this look
            os.utime(tmp_path / now.key, ns=(at, at))
    said = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert [one["title"] for one in said if one["receiver"] == "mlops"] == ["Ratchet: no watch is running"] * 2


def test_of_two_engines_of_one_host_name_the_one_that_is_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the engine of a host was installed again: by the host's name alone, `host-gone` would be refused."""
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    store = open_store(str(tmp_path))
    engines = [Engine(f"gpu/{engine}", "gpu") for engine in ("old", "new")]
    for engine in engines:
        mark_host(store, "here", engine, 1)
    clock = store.now_ns()
    for hours in (1, 2):
        at = clock + int(hours * 3600e9)
        monkeypatch.setattr(type(store), "now_ns", lambda _, at=at: at)
        os.utime(tmp_path / outbox_paths.host("here", "gpu/new"), ns=(at, at))
        away = hosts_away(store)
    ((name, one, _),) = away
    assert (name, one) == ("gpu", "gpu/old")
    assert say_gone(store, one, by="ada", because="it was installed again") == []
    assert hosts_away(store) == []


def test_a_reaper_that_starts_before_the_watch_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    store = open_store(str(tmp_path))
    clock = store.now_ns()
    for hours, watch, away in ((0, True, None), (9, False, None), (9.1, True, None), (20, False, None), (21, False, 1)):
        at = clock + int(hours * 3600e9)
        monkeypatch.setattr(type(store), "now_ns", lambda _, at=at: at)
        found = None
        if watch:
            mark(store, "watch")
            os.utime(tmp_path / "outbox/here/watch.json", ns=(at, at))
        else:
            found = away_for(store, "watch")
            if found is None:
                os.utime(tmp_path / "outbox/here/no-watch.json", ns=(at, at))
        assert found == (away and timedelta(hours=away))


def test_a_watch_that_scans_is_there_also_while_airflow_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path))
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    store, scanner = open_store(str(tmp_path)), Scanner(AirflowServer("http://watch:x@127.0.0.1:9"))
    for _ in range(2):
        scanner.scan()
    assert away_for(store, "watch") is None
    assert store.head(outbox_paths.presence("here", "watch")) is not None
    assert store.head(outbox_paths.absence("here", "watch")) is None
