"""`python -m team.health COMPONENT`: exits with 0 if the component of this container is healthy. Compose calls it.

It stays small, since it starts every few seconds in each container.
"""

import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

ADDRESSES: Mapping[str, str] = {
    "api-server": "http://127.0.0.1:8080/api/v2/version",
    "mlflow": "http://127.0.0.1:5000/health",
    "scheduler": "http://127.0.0.1:8974/health",
    "dag-processor": "http://api-server:8080/api/v2/monitor/health",
    "triggerer": "http://api-server:8080/api/v2/monitor/health",
}
"""The address that reports each component; for the last two, the API server's report about them."""
_OF_THE_API_SERVER = {"dag-processor": "dag_processor", "triggerer": "triggerer"}
_TIMEOUT_S = 8
_LOGS = Path("/opt/airflow/logs")
_ROUND_S = 330
"""The watch and the reaper touch their files after each round, and end by themselves if one takes longer than 300 s."""


def main(arguments: list[str], addresses: Mapping[str, str] = ADDRESSES) -> int:
    """Print what is wrong, if anything."""
    component = " ".join(arguments)
    try:
        own = {"worker": _worker, "watch": _watch, "reaper": _reaper, "follower": _follower}.get(component)
        wrong = own() if own is not None else _wrong(component, addresses[component])
    except (OSError, ValueError, LookupError) as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        print(f"{component}: {wrong}")
    return int(bool(wrong))


def _wrong(component: str, address: str) -> str | None:
    said = _get(address)
    if component not in _OF_THE_API_SERVER:
        return None
    state = json.loads(said)[_OF_THE_API_SERVER[component]]["status"]
    return None if state == "healthy" else f"the API server reports: {state}"


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:  # noqa: S310 - an address of ours
        body: bytes = response.read()
    return body


def _worker() -> str | None:
    """What is wrong with the worker of this container, which has to answer over the broker."""
    from celery import Celery

    app = Celery(broker=os.environ["AIRFLOW__CELERY__BROKER_URL"])
    name = f"celery@{socket.gethostname()}"
    return None if app.control.ping(destination=[name], timeout=_TIMEOUT_S / 2) else f"{name} does not answer"


def _watch() -> str | None:
    """What is wrong with the watch."""
    return _touched("watch-alive")


def _reaper() -> str | None:
    """What is wrong, also with the engine, the store or Airflow: it touches its file after a look that saw all."""
    return _touched("reaper-alive")


def _follower() -> str | None:
    """What is wrong, also with the engine or the store, which it asks every few seconds."""
    return _touched("follower-alive", 60)


def _touched(name: str, round_s: float = _ROUND_S) -> str | None:
    """What is wrong with a server, by the file that it touches."""
    age = time.time() - (_LOGS / name).stat().st_mtime
    return None if age < round_s else f"its last round ended {age:.0f} s ago"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
