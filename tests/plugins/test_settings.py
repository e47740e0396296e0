"""What Airflow's environment says."""

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet_airflow import settings


def test_the_store_is_needed_and_named() -> None:
    with pytest.raises(ConfigurationError, match="RATCHET_STORE is not set"):
        settings.read({})


def test_what_is_left_out_is_left_to_the_machine() -> None:
    assert settings.read({"RATCHET_STORE": "/s"}) == settings.Settings(store="/s", tracking=None, runner=None)


def test_everything_is_read() -> None:
    given = {"RATCHET_STORE": "s3://b", "MLFLOW_TRACKING_URI": "http://m", "RATCHET_RUNNER": "docker"}
    assert settings.read(given) == settings.Settings(store="s3://b", tracking="http://m", runner="docker")
