"""How the watch starts."""

from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from ratchet.contracts.setting_values import installation_of
from ratchet_airflow.alerts.delivery import spool
from ratchet_airflow.watch import __main__ as watch
from ratchet_airflow.watch.__main__ import main
from ratchet_airflow.watch.airflow_server import AirflowServer


def test_a_watch_that_cannot_know_the_name_of_its_airflow_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RATCHET_AIRFLOW_API", "http://watch:sesame-canary@127.0.0.1:9")
    monkeypatch.delenv("RATCHET_INSTALLATION", raising=False)
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "")
    assert main() == 64
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("watch: RATCHET_INSTALLATION is not set, and no [api_auth] jwt_secret is here")
    assert installation_of("") not in line


@pytest.mark.parametrize(("is_away", "looks"), [(True, 2), (False, 1)])
def test_a_watch_that_finds_the_store_away_soon_looks_again(
    is_away: bool, looks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first such look says nothing yet."""
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    asked, clock = list[float](), [0.0]

    class Look:
        def __init__(self, _: AirflowServer) -> None: ...

        def scan(self) -> None:
            asked.append(clock[0])
            if is_away:
                spool().store_is_away({}, lambda *_: True, datetime.now(UTC))

    class Stop(Event):
        def wait(self, timeout: float | None = None) -> bool:
            clock[0] += timeout or 0
            if clock[0] > 1.5 * watch.EVERY_S:
                self.set()
            return self.is_set()

    monkeypatch.setattr(watch, "Scanner", Look)
    monkeypatch.setattr(watch, "_ended", lambda _: frozenset())
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("signal.alarm", lambda _: 0)
    watch._watch(AirflowServer("http://watch:x@127.0.0.1:9"), 300, Stop())
    assert len(asked) == looks
