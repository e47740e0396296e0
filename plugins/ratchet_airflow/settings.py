"""Where this installation of Airflow keeps its results and tracks its models."""

from dataclasses import dataclass

from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The places. store: its URI. tracking: MLflow's URI, or None to track in the store."""

    store: str
    tracking: str | None


def read() -> Settings:
    """What the environment says. Raises ConfigurationError where it names no store."""
    here = environment()
    if not here.store:
        raise ConfigurationError(
            f"{variable('store')} is not set", remedy="set it to the store's URI, the same for every Airflow component"
        )
    return Settings(store=here.store, tracking=here.tracking_uri)
