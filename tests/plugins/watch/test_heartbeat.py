"""The heartbeat goes out while all is well, and its address is in no log."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ratchet.contracts import outbox_paths
from ratchet.contracts.presence import Presence
from ratchet.outbox.letter import Letter
from ratchet.store.memory import MemoryStore
from ratchet.store.opening import open_store
from ratchet_airflow.alerts.delivery import outbox_of
from ratchet_airflow.watch.airflow_server import AirflowServer
from ratchet_airflow.watch.guard import failures
from ratchet_airflow.watch.heartbeat import beat
from ratchet_airflow.watch.scan import Scanner
from tests.plugins.watch import airflow_api
from tests.plugins.webhook import Webhook

NOW = datetime(2026, 11, 27, 2, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _no_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")


def test_a_beat_goes_out_only_while_alerts_can_be_sent_and_a_scheduler_lives(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = outbox_of(MemoryStore("heartbeat"))
    assert not beat(outbox, NOW)  # no address is set
    with Webhook().listening() as hook:
        address = hook.url.replace("json", "http") + "/ping-canary"
        monkeypatch.setenv("RATCHET_HEARTBEAT_URL", address)
        assert beat(outbox, NOW)
        assert hook.asked == ["/ping-canary"]
        assert not beat(outbox, NOW, away=["the scheduler has no heartbeat"])
        assert not beat(outbox, NOW, faults=["cannot make the digest"])
        letter = Letter(
            event="alerts/p/e", receiver="r", pipeline="p", occasion="failure", title="a", body="a", kind="failure",
            made=NOW, due=NOW,
        )  # fmt: skip
        outbox.post(letter.event, b"{}", [letter])
        assert beat(outbox, NOW + timedelta(minutes=29))
        assert not beat(outbox, NOW + timedelta(minutes=31))
        outbox.finish(letter)
        hook.status = 500
        assert not beat(outbox, NOW)
    assert not beat(outbox, NOW)  # nobody listens any more
    assert len(hook.asked) == 3
    assert "ping-canary" not in caplog.text


def test_no_beat_goes_out_while_a_part_of_the_look_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in {
        "RATCHET_STORE": tmp_path / "store", "RATCHET_ALERT_LOG": tmp_path / "alerts.jsonl",
        "RATCHET_PIPELINES": ROOT / "dags" / "pipelines", "RATCHET_ALERTS_MLOPS": "",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    open_store(str(tmp_path / "store")).prepare()
    name = "search-ranking"
    failures()  # of other tests
    failed = airflow_api.run(name, "run-1", "failed", datetime.now(UTC) - timedelta(hours=1))
    api = airflow_api.AirflowApi(dags=[airflow_api.dag(name)], runs=[failed])
    api.statuses = {f"/api/v2/dags/{name}/dagRuns/run-1/taskInstances": 500}
    with Webhook().listening() as hook, api.listening():
        monkeypatch.setenv("RATCHET_HEARTBEAT_URL", hook.url.replace("json", "http") + "/ping")
        scanner = Scanner(AirflowServer(api.address))
        scanner.scan()
        assert hook.asked == []
        began = presence_of(tmp_path / "store")
        assert f"what the watch could not do: 1, such as: cannot make the alerts of {name} run-1" in caplog.text
        api.statuses = {}
        scanner.scan()
        assert hook.asked == ["/ping"]
        assert presence_of(tmp_path / "store").heartbeat == began.heartbeat  # as it was when this look began
        monkeypatch.delenv("RATCHET_HEARTBEAT_URL")
        scanner.scan()
        sent = presence_of(tmp_path / "store").heartbeat
        assert began.heartbeat is not None
        assert sent is not None
        assert sent > began.heartbeat
        Scanner(AirflowServer(api.address)).scan()  # which was started without the address
        assert presence_of(tmp_path / "store").heartbeat is None


def presence_of(store: Path) -> Presence:
    """The mark of the watch."""
    return Presence.model_validate_json((store / outbox_paths.presence("here", "watch")).read_bytes())
