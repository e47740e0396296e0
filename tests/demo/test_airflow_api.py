"""The client of Airflow's REST API, against a server that has its moments."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from demo.airflow_api import AirflowApi
from tasks.contracts.errors import Unavailable


class Airflow(HTTPServer):
    """Answers with the statuses that it is given, then with 200; counts what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.statuses: list[int] = []
        self.asked: list[str] = []


class Answering(BaseHTTPRequestHandler):
    server: Airflow

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/auth/token":
            self.answer(201, {"access_token": "token"})
            return
        self.server.asked.append(self.command)
        self.answer(self.server.statuses.pop(0) if self.server.statuses else 200, {"detail": "database is locked"})

    def do_PATCH(self) -> None:
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


def test_a_change_that_may_be_said_twice_is_where_the_server_met_an_error(airflow: Airflow, api: AirflowApi) -> None:
    airflow.statuses = [500]
    api.call("PATCH", "/dags/one", {"is_paused": False})
    assert airflow.asked == ["PATCH", "PATCH"]


@pytest.mark.parametrize(("method", "status"), [("POST", 500), ("PATCH", 409)])
def test_what_may_not_or_would_not_help_is_asked_once(
    airflow: Airflow, api: AirflowApi, method: str, status: int
) -> None:
    airflow.statuses = [status]
    with pytest.raises(Unavailable, match=f"Airflow answers {status} to {method} .*database is locked"):
        api.call(method, "/dags/one/dagRuns", {})
    assert airflow.asked == [method]
