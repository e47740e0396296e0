"""The filter as a process of its own in front of the real engine."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, kw_only=True)
class Running:
    """A filter that listens on loopback. lines: its log so far."""

    process: subprocess.Popen[str]
    host: str
    port: int
    lines: list[dict[str, Any]] = field(default_factory=list)

    @property
    def docker_host(self) -> str:
        return f"tcp://{self.host}:{self.port}"

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """That of the test without any setting of a filter, and these, as ENGINE_FILTER_*."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ENGINE_FILTER_", "SLIPCOVER_"))}
    given = {f"ENGINE_FILTER_{name.upper()}": value for name, value in settings.items()}
    return {**clean, "ENGINE_FILTER_LISTEN": "127.0.0.1:0", **given}


@contextmanager
def filter_process(settings: Mapping[str, str]) -> Iterator[Running]:
    """Started when it listens; ended by SIGTERM, within a bound."""
    process = subprocess.Popen(
        [sys.executable, *_measured(), "-m", "team.engine_filter"],
        cwd=ROOT,
        env=environment(settings),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        host, _, port = json.loads(first)["address"].rpartition(":")
        running = Running(process=process, host=host, port=int(port))
        reader = Thread(target=_read, args=(running,), daemon=True)
        reader.start()
        yield running
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait(5)
            process.stdout.close()


def ask(
    running: Running, method: str, target: str, body: object = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """Status and document of one request, whose target is sent as it is."""
    connection = http.client.HTTPConnection(running.host, running.port, timeout=60)
    try:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, target, body=content, headers=dict(headers or {}))
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text[:1] in {b"{", b"["} else text
    finally:
        connection.close()


def _measured() -> list[str]:
    """Where the suite is measured: what measures the process too, into a file of its own."""
    if "SLIPCOVER_ENABLED" not in os.environ:
        return []
    out = ROOT / f".coverage.filter-{uuid4().hex}.json"
    return ["-m", "slipcover", "--json", "--out", str(out), "--source", "team/engine_filter"]


def _read(running: Running) -> None:
    assert running.process.stdout is not None
    try:
        for line in running.process.stdout:
            running.lines.append(json.loads(line))
    except ValueError:  # closed at the end
        pass
