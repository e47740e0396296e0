"""The few calls to Airflow's REST API that starting a run and watching it take."""

import json
import time
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from ratchet.contracts.errors import Unavailable

_PATIENCE_S = 120
_ANSWER_S = 40
"""Longer than the server waits for SQLite's lock (30 s): a request that is given up before goes on there.

While Airflow's server waits for that lock to log a change, it does nothing else: not even end what holds the lock.
"""
_REPEATABLE = ("GET", "PATCH")
"""What says the same when it is said twice, so that it may be asked of a server that starts, or is slow to answer."""


class AirflowApi:
    """A logged-in client of one Airflow."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._url = url
        answer = self._send("POST", "/auth/token", {"username": user, "password": password})
        self._token = answer["access_token"]

    def call(self, method: str, path: str, body: object | None = None) -> Any:
        """One call below /api/v2; the decoded answer. Raises Unavailable with Airflow's own words."""
        return self._send(method, f"/api/v2{path}", body, patience_s=_PATIENCE_S if method in _REPEATABLE else 0)

    def wait_for_dag(self, dag_id: str, *, seconds: float = 90) -> None:
        """Wait until Airflow has parsed a DAG. Raises Unavailable after the time, with the import errors if any."""
        until = time.monotonic() + seconds
        while True:
            try:
                self.call("GET", f"/dags/{dag_id}")
            except Unavailable as error:
                if time.monotonic() > until:
                    said = self.call("GET", "/importErrors")["import_errors"]
                    text = said[0]["stack_trace"][-500:] if said else error.cause
                    raise Unavailable(f"Airflow does not know {dag_id}: {text}", remedy="see dags/") from error
                time.sleep(0.5)
            else:
                return

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """All runs of a DAG, oldest first."""
        found: list[dict[str, Any]] = self.call("GET", f"/dags/{dag_id}/dagRuns?limit=100&order_by=run_after")[
            "dag_runs"
        ]
        return found

    def trigger(self, dag_id: str, run_id: str, **wanted: Any) -> None:
        """Have a run made, once: there is one of an id, so a server that did not get SQLite's lock is asked again.

        wanted: of Airflow's fields, such as `conf` and `run_after`. Raises Unavailable with Airflow's own words.
        """
        body = {"dag_run_id": run_id, "logical_date": None, **wanted}
        try:
            self._send("POST", f"/api/v2/dags/{dag_id}/dagRuns", body, patience_s=_PATIENCE_S)
        except Unavailable:
            with suppress(Unavailable):
                self.run(dag_id, run_id)
                return  # it was made, and the answer was lost
            raise

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """One run of a DAG."""
        found: dict[str, Any] = self.call("GET", f"/dags/{dag_id}/dagRuns/{_quoted(run_id)}")
        return found

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """The task instances of a run by task id."""
        answer = self.call("GET", f"/dags/{dag_id}/dagRuns/{_quoted(run_id)}/taskInstances?limit=100")
        return {task["task_id"]: task for task in answer["task_instances"]}

    def _send(self, method: str, path: str, body: object | None, *, patience_s: float = 0) -> Any:
        headers = {"Content-Type": "application/json"}
        if hasattr(self, "_token"):
            headers["Authorization"] = f"Bearer {self._token}"
        data = json.dumps(body).encode() if body is not None else None
        request = Request(self._url + path, data=data, method=method, headers=headers)  # noqa: S310 - loopback
        until = time.monotonic() + patience_s
        while True:
            try:
                with urlopen(request, timeout=_ANSWER_S) as response:  # noqa: S310 - the same
                    return json.loads(response.read() or b"null")
            except HTTPError as error:
                said = error.read().decode(errors="replace")[:300]
                if error.code < HTTPStatus.INTERNAL_SERVER_ERROR or time.monotonic() > until:
                    raise Unavailable(
                        f"Airflow answers {error.code} to {method} {path}: {said}", remedy="see its log"
                    ) from error
            except (URLError, OSError) as error:  # a server that is being restarted is waited for
                if time.monotonic() > until:
                    raise Unavailable(
                        f"Airflow does not answer at {self._url}: {error}", remedy="see its log"
                    ) from error
            time.sleep(1)


def _quoted(run_id: str) -> str:
    return run_id.replace("+", "%2B").replace(":", "%3A")
