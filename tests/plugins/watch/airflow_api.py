"""A real HTTP server on loopback that answers as Airflow's REST API does, with rows of a test's."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PASSWORD = "sesame-canary"
NONE = {"detail": "no such connection"}
Row = dict[str, Any]


def dag(name: str, **more: Any) -> Row:
    usual = {"is_paused": False, "is_stale": False, "has_import_errors": False, "fileloc": "/dags/ratchet.py"}
    return {"dag_id": name, **usual, **more}


def run(name: str, run_id: str, state: str, at: datetime, **more: Any) -> Row:
    ended = (at + timedelta(minutes=5)).isoformat() if state in {"success", "failed"} else None
    usual = {
        "queued_at": at.isoformat(),
        "start_date": None if state == "queued" else at.isoformat(),
        "end_date": ended,
        "run_after": at.isoformat(),
        "run_type": "scheduled",
        "partition_key": None,
    }
    return {"dag_id": name, "dag_run_id": run_id, "state": state, **usual, **more}


def task(name: str, state: str | None, at: datetime | None = None, **more: Any) -> Row:
    moment = at.isoformat() if at else None
    usual = {"try_number": 1, "max_tries": 2, "queued_when": None, "start_date": moment, "end_date": None}
    return {"task_id": name, "state": state, **usual, **more}


@dataclass
class AirflowApi:
    """tasks: by run id. asked: each request, as a method and a path. tokens: those that count. most: rows of a page.

    statuses: of the answers at some paths, instead of 200.
    """

    dags: list[Row] = field(default_factory=list)
    runs: list[Row] = field(default_factory=list)
    tasks: dict[str, list[Row]] = field(default_factory=dict)
    backfills: list[Row] = field(default_factory=list)
    logs: list[Row] = field(default_factory=list)
    receivers: dict[str, str] = field(default_factory=dict)
    metadatabase: str = "healthy"
    scheduler: str = "healthy"
    dag_processor: str | None = "healthy"
    triggerer: str | None = "healthy"
    most: int = 100
    statuses: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    url: str = ""

    @property
    def address(self) -> str:
        """With a user and the password."""
        return self.url.replace("://", f"://ratchet-watch:{PASSWORD}@")

    def answer(self, path: str, asked: Row) -> tuple[str, list[Row]]:
        """The rows of a list, before they are cut into pages."""
        steps = [unquote(step) for step in path.strip("/").split("/")]
        if steps == ["dags"]:
            return "dags", self.dags
        if steps == ["eventLogs"]:
            return "event_logs", [row for row in self.logs if row["dag_id"] == asked["dag_id"]]
        if steps == ["backfills"]:
            found = [row for row in self.backfills if row["dag_id"] == asked["dag_id"]]
            return "backfills", sorted(found, key=lambda row: -row["id"])
        if steps[-1] == "taskInstances" and steps[1] == "~":
            states, name = asked["state"], asked.get("task_id")
            every = [(run_id, row) for run_id, rows in self.tasks.items() for row in rows]
            of = {row["dag_run_id"]: row["dag_id"] for row in self.runs}
            return "task_instances", [
                {**row, "dag_id": of[run_id], "dag_run_id": run_id}
                for run_id, row in every
                if name in {None, row["task_id"]} and row["state"] in states
            ]
        if steps[-1] == "taskInstances":
            return "task_instances", self.tasks.get(steps[3], [])
        assert steps[0] == "dags", path
        wanted = [row for row in self.runs if steps[1] in {"~", row["dag_id"]}]
        for name, column in (("dag_ids", "dag_id"), ("states", "state"), ("state", "state"), ("run_type", "run_type")):
            if name in asked:
                wanted = [row for row in wanted if row[column] in asked[name]]
        for name, column in (("end_date_gte", "end_date"), ("run_after_gte", "run_after")):
            if name in asked:
                since = datetime.fromisoformat(asked[name])
                wanted = [row for row in wanted if row[column] and datetime.fromisoformat(row[column]) >= since]
        return "dag_runs", wanted

    def page(self, path: str, asked: Row, offset: int, limit: int) -> Row:
        """One page of a list, or a document."""
        if path == "/monitor/health":
            parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
            return {part: {"status": getattr(self, part)} for part in parts}
        if "/taskInstances/" in path:
            return self.task(path)
        name, found = self.answer(path, asked)
        return {name: found[offset : offset + min(limit, self.most)], "total_entries": len(found)}

    def task(self, path: str) -> Row:
        """A task, or Airflow's words where it has none."""
        _, dag_id, _, run_id, _, task_id = (unquote(step) for step in path.strip("/").split("/"))
        found = next((row for row in self.tasks.get(run_id, []) if row["task_id"] == task_id), None)
        names = f"dag_id: `{dag_id}`, run_id: `{run_id}` and task_id: `{task_id}`"
        return found or {"detail": f"The Task Instance with {names} was not found"}

    def status(self, path: str) -> int:
        """Of an answer to a user who is logged in."""
        return self.statuses.get(path, 200)

    def receiver(self, name: str) -> tuple[int, Row]:
        """What Ratchet's own page answers."""
        return (200, {"addresses": self.receivers[name]}) if name in self.receivers else (404, NONE)

    @contextmanager
    def listening(self) -> Iterator["AirflowApi"]:
        """Serve until the block ends."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def handler(api: AirflowApi) -> type[BaseHTTPRequestHandler]:
    """Of the requests to this server."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/auth/token":
                if body != {"username": "ratchet-watch", "password": PASSWORD}:
                    return self.say(401, {})
                api.tokens = {f"token-{len(api.asked)}"}
                return self.say(201, {"access_token": next(iter(api.tokens))})
            return self.rows(self.path, body, body["page_offset"], body["page_limit"])

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path.startswith("/ratchet/receivers/"):
                return self.say(*api.receiver(parts.path.rpartition("/")[2]))
            asked = query(parts.query)
            return self.rows(parts.path, asked, int(asked.get("offset", 0)), int(asked.get("limit", 100)))

        def rows(self, path: str, asked: Row, offset: int, limit: int) -> None:
            if self.headers.get("Authorization", "").removeprefix("Bearer ") not in api.tokens:
                return self.say(401, {})
            api.asked.append(f"{self.command} {path}")
            assert limit <= 100
            body = api.page(path.removeprefix("/api/v2"), asked, offset, limit)
            return self.say(404 if {*body} == {"detail"} else api.status(path), body)

        def say(self, code: int, body: Row) -> None:
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def query(text: str) -> Row:
    """What follows `?` in an address; the values of a list as a list."""
    return {name: given if name in {"state", "included_events"} else given[0] for name, given in parse_qs(text).items()}
