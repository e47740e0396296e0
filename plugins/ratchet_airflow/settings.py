"""This installation's settings in Airflow's environment: where results go, and how stages run."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ratchet.contracts.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The store, the tracker and the runner.

    store: its URI. tracking: MLflow's URI, or None to track in the store. runner: docker, process, or None to use the
    engine if there is one.
    """

    store: str
    tracking: str | None
    runner: str | None


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """RATCHET_STORE, MLFLOW_TRACKING_URI, RATCHET_RUNNER. Raises ConfigurationError if the store is missing."""
    store = environment.get("RATCHET_STORE")
    if not store:
        raise ConfigurationError(
            "RATCHET_STORE is not set", remedy="set it to the store's URI, the same in every Airflow component"
        )
    return Settings(
        store=store,
        tracking=environment.get("MLFLOW_TRACKING_URI") or None,
        runner=environment.get("RATCHET_RUNNER") or None,
    )
