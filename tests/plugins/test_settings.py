"""Where an installation keeps its results, as Airflow's environment says."""

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet_airflow import settings


def test_the_store_is_needed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RATCHET_STORE", raising=False)
    with pytest.raises(ConfigurationError, match="RATCHET_STORE is not set"):
        settings.read()


def test_without_a_server_models_are_tracked_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_STORE", "/s")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert settings.read() == settings.Settings(store="/s", tracking=None)


def test_both_places_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_STORE", "s3://b")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://m")
    assert settings.read() == settings.Settings(store="s3://b", tracking="http://m")
