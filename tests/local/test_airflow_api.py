"""The client of Airflow's REST API, against a server that fails at times."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from local.airflow_api import AirflowApi
from ratchet.contracts.errors import Unavailable


class Airflow(HTTPServer):
    """Answers with the given statuses, then with 200; keeps the methods of the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.statuses: list[int] = []
        self.asked: list[str] = []


class Answering(BaseHTTPRequestHandler):
    server: Airflow

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path == "/auth/token":
            self.answer(201, {"access_token": "token"})
            return
        self.server.asked.append(self.command)
        self.answer(self.server.statuses.pop(0) if self.server.statuses else 200, {"detail": "database is locked"})

    def do_PATCH(self) -> None:
        self.do_POST()

    def do_GET(self) -> None:
        self.do_POST()

    def answer(self, status: int, content: dict[str, str]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def airflow() -> Iterator[Airflow]:
    with Airflow() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def api(airflow: Airflow) -> AirflowApi:
    return AirflowApi(f"http://127.0.0.1:{airflow.server_port}", "admin", "admin")


def test_a_repeatable_change_is_retried_after_a_server_error(airflow: Airflow, api: AirflowApi) -> None:
    airflow.statuses = [500]
    api.call("PATCH", "/dags/one", {"is_paused": False})
    assert airflow.asked == ["PATCH", "PATCH"]


@pytest.mark.parametrize(("method", "status"), [("POST", 500), ("PATCH", 409)])
def test_other_failures_are_not_retried(airflow: Airflow, api: AirflowApi, method: str, status: int) -> None:
    airflow.statuses = [status]
    with pytest.raises(Unavailable, match=f"Airflow answers {status} to {method} .*database is locked"):
        api.call(method, "/dags/one/dagRuns", {})
    assert airflow.asked == [method]


@pytest.mark.parametrize(
    ("statuses", "asked"),
    [([500], ["POST", "POST"]), ([500, 409], ["POST", "POST", "GET"])],
    ids=["the server failed", "the run was created all the same"],
)
def test_a_run_is_requested_until_it_exists(
    airflow: Airflow, api: AirflowApi, statuses: list[int], asked: list[str]
) -> None:
    airflow.statuses = statuses
    api.trigger("one", "demo-1", conf={})
    assert airflow.asked == asked


def test_a_refused_run_is_an_error_in_airflows_words(airflow: Airflow, api: AirflowApi) -> None:
    airflow.statuses = [400, 404]
    with pytest.raises(
        Unavailable, match=r"Airflow answers 400 to POST /api/v2/dags/one/dagRuns: .*database is locked"
    ):
        api.trigger("one", "demo-1", conf={})
    assert airflow.asked == ["POST", "GET"]
