"""This installation's settings in Airflow's environment: where results go."""

from dataclasses import dataclass

from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The store and the tracker. store: its URI. tracking: MLflow's URI, or None to track in the store."""

    store: str
    tracking: str | None


def read() -> Settings:
    """RATCHET_STORE and MLFLOW_TRACKING_URI. Raises ConfigurationError if the store is missing."""
    here = environment()
    if not here.store:
        raise ConfigurationError(
            f"{variable('store')} is not set", remedy="set it to the store's URI, the same in every Airflow component"
        )
    return Settings(store=here.store, tracking=here.tracking_uri)
