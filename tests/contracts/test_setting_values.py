"""Addresses among the settings: which are allowed, and that no error repeats a secret."""

import pytest

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError


def test_a_public_address_may_have_a_base_path_and_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_PUBLIC_AIRFLOW_URL", "https://airflow.example.org/base/")
    assert environment().public_airflow_url == "https://airflow.example.org/base"
    assert environment().public_mlflow_url is None
    for wrong in ("airflow.other.org", "https://me:secret@airflow.example.org", "https://a/?x=1"):
        monkeypatch.setenv("RATCHET_PUBLIC_MLFLOW_URL", wrong)
        with pytest.raises(ConfigurationError, match="without a login; to do: set it like") as raised:
            _ = environment().public_mlflow_url
        assert wrong not in str(raised.value)


def test_the_address_of_the_heartbeat_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_HEARTBEAT_URL", "https://hc-ping.com/secret")
    assert environment().heartbeat_url == "https://hc-ping.com/secret"
    assert "hc-ping" not in repr(environment())
    monkeypatch.setenv("RATCHET_HEARTBEAT_URL", "ftp://secret")
    with pytest.raises(ConfigurationError) as raised:
        _ = environment().heartbeat_url
    assert "ftp://secret" not in str(raised.value)
