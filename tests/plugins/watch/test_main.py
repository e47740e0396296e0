"""How the watch starts."""

import pytest

from ratchet.contracts.setting_values import installation_of
from ratchet_airflow.watch.__main__ import main


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
