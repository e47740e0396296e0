"""The servers of the embedded set-up: MLflow, four of Airflow, the watch, the reaper, and what deletes old rows."""

import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from local.services import Services
from local.supervision.service import Service
from ratchet.contracts.environment import environment as settings
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError


def definitions(services: Services) -> tuple[Service, ...]:
    """Every server, and the step that runs before them."""
    binaries = Path(sys.executable).parent
    environment = services.environment()
    mlflow = (
        str(binaries / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(urlsplit(services.mlflow_url).port),
        "--workers", "1", "--backend-store-uri", f"sqlite:///{services.home / 'mlflow.db'}",
        "--artifacts-destination", str(services.home / "mlflow-artifacts"), "--serve-artifacts",
    )  # fmt: skip
    airflow = str(binaries / "airflow")
    with_watch = {**environment, variable("airflow_api"): services.watch_address}
    return (
        Service(name="migrate", command=(airflow, "db", "migrate"), environment=environment, once=True),
        Service(
            name="mlflow",
            command=mlflow,
            environment=environment,
            address=services.mlflow_url,
            health=f"{services.mlflow_url}/health",
        ),
        Service(
            name="api-server",
            command=(airflow, "api-server"),
            environment=with_watch,
            address=services.airflow_url,
            health=f"{services.airflow_url}/api/v2/version",
            after="migrate",
        ),
        Service(
            name="pools",
            command=(sys.executable, "-m", "local.make_pools", str(services.home)),
            environment=environment,
            once=True,
            after="api-server",
        ),
        # The API server reads the logs of this machine itself, so no other process has to serve them.
        Service(
            name="scheduler",
            command=(airflow, "scheduler", "--skip-serve-logs"),
            environment=environment,
            after="migrate",
        ),
        Service(name="dag-processor", command=(airflow, "dag-processor"), environment=environment, after="migrate"),
        Service(  # last, because the servers start faster one after the other
            name="triggerer",
            command=(airflow, "triggerer", "--skip-serve-logs"),
            environment=environment,
            after="api-server",
        ),
        Service(
            name="watch",
            command=(sys.executable, "-m", "ratchet_airflow.watch"),
            environment=with_watch,
            after="api-server",
        ),
        Service(
            name="reaper",
            command=(sys.executable, "-m", "ratchet_airflow.reaper"),
            environment=with_watch,
            after="api-server",
        ),
        *([_retention(services, environment)] if _deletes() else []),
    )


def _deletes() -> bool:
    """Whether a person wants that old things go by themselves."""
    with suppress(ConfigurationError):  # the DAG ratchet-gc says what is wrong
        return settings().gc.weekly
    return False


def _retention(services: Services, environment: dict[str, str]) -> Service:
    """Deletes old rows of Airflow, and old logs, once a day."""
    return Service(
        name="row-retention",
        command=(sys.executable, "-m", "ratchet_airflow.row_retention", "--logs", str(services.airflow_home / "logs")),
        environment=environment,
        after="migrate",
    )
