"""`python -m team.health COMPONENT`: ends with 0 if the component of this container is well, for Compose to ask.

It stays small, since it is started every few seconds on behalf of each container.
"""

import json
import os
import socket
import sys
import urllib.error
import urllib.request

_OF_THE_API_SERVER = {"dag-processor": "dag_processor", "triggerer": "triggerer"}
_TIMEOUT_S = 8


def main(arguments: list[str]) -> int:
    """Say what is wrong, if something is."""
    (component,) = arguments
    try:
        wrong = _wrong(component)
    except (OSError, ValueError) as error:
        wrong = str(error)
    if wrong:
        print(f"{component}: {wrong}")  # noqa: T201 - shown by `docker inspect`
    return int(bool(wrong))


def _wrong(component: str) -> str | None:
    match component:
        case "api-server":
            _get("http://127.0.0.1:8080/api/v2/version")
        case "mlflow":
            _get("http://127.0.0.1:5000/health")
        case "scheduler":
            _get("http://127.0.0.1:8974/health")
        case "worker":
            return _worker()
        case _:
            said = json.loads(_get("http://api-server:8080/api/v2/monitor/health"))
            state = said[_OF_THE_API_SERVER[component]]["status"]
            return None if state == "healthy" else f"the API server says: {state}"
    return None


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:  # noqa: S310 - an address of ours
        body: bytes = response.read()
    return body


def _worker() -> str | None:
    """Whether the worker of this container answers over the broker."""
    from celery import Celery  # noqa: PLC0415 - only a worker's container needs it

    app = Celery(broker=os.environ["AIRFLOW__CELERY__BROKER_URL"])
    name = f"celery@{socket.gethostname()}"
    return None if app.control.ping(destination=[name], timeout=_TIMEOUT_S / 2) else f"{name} does not answer"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
