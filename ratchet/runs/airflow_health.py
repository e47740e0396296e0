"""What Airflow says of its own parts (Airflow's REST API, `/api/v2/monitor/health`, which needs no login)."""

from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import requests

from ratchet.contracts.diagnosis import Diagnosis

_TIMEOUT_S = 15
_LOGS = "read its log; `make up` (or `make serve`) starts what has ended"
_PARTS = {
    "metadatabase": "database",
    "scheduler": "scheduler",
    "dag_processor": "DAG processor",
    "triggerer": "triggerer",
}


def diagnose_airflow(url: str) -> Iterator[Diagnosis]:
    """One line for each part that an Airflow at this address has. url: it may have a base path."""
    parts = urlsplit(url)
    address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")
    try:
        answer = requests.get(f"{address}/api/v2/monitor/health", timeout=_TIMEOUT_S)
        answer.raise_for_status()
        found = dict(answer.json())
    except (requests.RequestException, ValueError, TypeError) as error:
        text = f"Airflow does not answer at {address}: {type(error).__name__}; {_LOGS}"
        yield Diagnosis(name="airflow", well=None, text=text)
        return
    for key, name in _PARTS.items():
        state = (found.get(key) or {}).get("status")
        if state == "healthy":
            yield Diagnosis(name="airflow", well=True, text=f"the {name} is healthy")
        elif state is not None:  # it has none of this part
            heard = (found[key] or {}).get(f"latest_{key}_heartbeat")
            last = f", and was last heard at {heard}" if heard else ""
            yield Diagnosis(name="airflow", well=False, text=f"the {name} is {state}{last}; {_LOGS}")
