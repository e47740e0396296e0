"""The calls of Airflow's REST API that start a run and read its state."""

import time
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from ratchet.contracts.errors import Unavailable

_PATIENCE_S = 120
_ANSWER_S = 40
"""Longer than the server waits for SQLite's lock (30 s), because a request continues there after the client gives up.

While Airflow's server waits for that lock to log a change, it does nothing else, so it cannot end the lock's holder.
"""
_REPEATABLE = ("GET", "PATCH")
"""Methods that have the same effect if they are sent twice. The client retries them while a server starts."""


class AirflowApi:
    """A client of an Airflow on this machine, logged in. Each call opens a connection, so a restart breaks none."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._url = url
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(base_url=url, timeout=_ANSWER_S, limits=limits, trust_env=False)
        token = self._send("POST", "/auth/token", {"username": user, "password": password})["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: object | None = None) -> Any:
        """Call a path below /api/v2; returns the decoded answer. Raises Unavailable with Airflow's answer."""
        return self._send(method, f"/api/v2{path}", body, patience_s=_PATIENCE_S if method in _REPEATABLE else 0)

    def wait_for_dag(self, dag_id: str, *, seconds: float = 90) -> None:
        """Wait until Airflow has parsed a DAG. Raises Unavailable after the time, with the last import error if any."""
        until = time.monotonic() + seconds
        while True:
            try:
                self.call("GET", f"/dags/{dag_id}")
            except Unavailable as error:
                if time.monotonic() > until:
                    errors = self.call("GET", "/importErrors")["import_errors"]
                    text = errors[0]["stack_trace"][-500:] if errors else error.cause
                    raise Unavailable(f"Airflow does not know {dag_id}: {text}", remedy="see dags/") from error
                time.sleep(0.5)
            else:
                return

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """All runs of a DAG, oldest first."""
        answer = self.call("GET", f"/dags/{dag_id}/dagRuns?limit=100&order_by=run_after")
        found: list[dict[str, Any]] = answer["dag_runs"]
        return found

    def trigger(self, dag_id: str, run_id: str, **fields: Any) -> None:
        """Create a run, once. Retries, for example if the server did not get SQLite's lock; a run id is unique.

        fields: further fields of the request, such as `conf`. Raises Unavailable with Airflow's answer.
        """
        body = {"dag_run_id": run_id, "logical_date": None, **fields}
        try:
            self._send("POST", f"/api/v2/dags/{dag_id}/dagRuns", body, patience_s=_PATIENCE_S)
        except Unavailable:
            with suppress(Unavailable):
                self.run(dag_id, run_id)
                return  # it was created, and the answer was lost
            raise

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """One run of a DAG."""
        found: dict[str, Any] = self.call("GET", f"/dags/{dag_id}/dagRuns/{quote(run_id)}")
        return found

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """The task instances of a run by task id."""
        answer = self.call("GET", f"/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances?limit=100")
        return {task["task_id"]: task for task in answer["task_instances"]}

    def _send(self, method: str, path: str, body: object | None, *, patience_s: float = 0) -> Any:
        until = time.monotonic() + patience_s
        while True:
            try:
                response = self._client.request(method, path, json=body)
            except httpx.TransportError as error:  # the server may be restarting
                failure = f"Airflow does not answer at {self._url}: {error}"
                final = False
            else:
                if response.is_success:
                    return response.json() if response.content else None
                failure = f"Airflow answers {response.status_code} to {method} {path}: {response.text[:300]}"
                final = response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
            if final or time.monotonic() > until:
                raise Unavailable(failure, remedy="read the log of Airflow's API server")
            time.sleep(1)
