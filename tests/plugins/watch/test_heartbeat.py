"""The heartbeat goes out while all is well, and its address is in no log."""

from datetime import UTC, datetime, timedelta

import pytest

from ratchet.outbox.letter import Letter
from ratchet.store.memory import MemoryStore
from ratchet_airflow.alerts.delivery import outbox_of
from ratchet_airflow.watch.heartbeat import beat
from tests.plugins.webhook import Webhook

NOW = datetime(2026, 11, 27, 2, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")


def test_a_beat_goes_out_only_while_alerts_can_be_sent_and_a_scheduler_lives(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = outbox_of(MemoryStore("heartbeat"))
    assert not beat(outbox, NOW, scheduler=True)  # no address is set
    with Webhook().listening() as hook:
        address = hook.url.replace("json", "http") + "/ping-canary"
        monkeypatch.setenv("RATCHET_HEARTBEAT_URL", address)
        assert beat(outbox, NOW, scheduler=True)
        assert hook.asked == ["/ping-canary"]
        assert not beat(outbox, NOW, scheduler=False)
        letter = Letter(
            event="alerts/p/e", receiver="r", pipeline="p", occasion="failure", title="a", body="a", kind="failure",
            made=NOW, due=NOW,
        )  # fmt: skip
        outbox.post(letter.event, b"{}", [letter])
        assert beat(outbox, NOW + timedelta(minutes=29), scheduler=True)
        assert not beat(outbox, NOW + timedelta(minutes=31), scheduler=True)
        outbox.finish(letter)
        hook.status = 500
        assert not beat(outbox, NOW, scheduler=True)
    assert not beat(outbox, NOW, scheduler=True)  # nobody listens any more
    assert len(hook.asked) == 3
    assert "ping-canary" not in caplog.text
