"""Stages that begin at once, as forks of a process that has imported what they import.

Such a stage is a process of its own with the environment, the request and the secrets that the process runner gives it;
only the seconds of its imports are saved. It ends when the runner ends its client.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ratchet.cli.main import main as ratchet
from ratchet.contracts.stages import REGULAR, stage_module
from ratchet.runners.job import Job
from ratchet.runners.process import ProcessRunner

_LATE = (
    "boto3.s3.transfer",
    "ratchet.cli.stage",
    "ratchet.runtime.stage",
    "sqlalchemy.dialects.sqlite",
    "mlflow.pyfunc",
    "mlflow.store.model_registry.sqlalchemy_store",
    "mlflow.store.tracking.sqlalchemy_store",
    "torch.optim",
)
"""What stages import where they need it."""
_BROKEN = 70
_CLIENT = """if 1:
    import json, os, socket, sys
    way = socket.socket(socket.AF_UNIX)
    way.connect(sys.argv[1])
    said = json.dumps([os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(way, [len(said).to_bytes(4, "big")], [1, 2])
    way.sendall(said)
    os._exit(int(way.recv(8) or b"70"))
"""


class WarmRunner(ProcessRunner):
    """Runs its jobs as such forks. place: the socket of the process that is forked."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._command = (sys.executable, "-I", "-S", "-c", _CLIENT, str(place))

    def submit(self, job: Job) -> str:
        """Start a job."""
        return super().submit(replace(job, command=self._command))


@contextmanager
def warm_stages(place: Path) -> Iterator[Path]:
    """The process that is forked listens at this socket until the end of the block."""
    command = [sys.executable, "-P", "-m", "tests.faults.warm_stages", str(place)]
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield place
        finally:
            server.kill()


def main() -> None:
    """Fork a stage for each client, until standard input ends."""
    for module in (*map(stage_module, REGULAR), *_LATE):
        import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    parent = sys.stdin.fileno()
    while parent not in select.select([listener.fileno(), parent], [], [])[0]:
        client, _ = listener.accept()
        if not os.fork():
            listener.close()
            _serve(client)
        client.close()


def _serve(client: socket.socket) -> None:
    """Fork a stage for this client, and tell it how that ends. The stage is killed when its client has gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, files, _, _ = socket.recv_fds(client, 4, 2)
    folder, environment = json.loads(client.makefile("rb").read(int.from_bytes(head, "big")))
    stage = os.fork()
    if not stage:
        _run(client, files, folder, environment)
    ended = os.pidfd_open(stage)
    if client.fileno() in select.select([client.fileno(), ended], [], [])[0]:
        os.kill(stage, signal.SIGKILL)
    _, status = os.waitpid(stage, 0)
    client.sendall(str(os.waitstatus_to_exitcode(status) % 256).encode())
    os._exit(0)


def _run(client: socket.socket, files: list[int], folder: str, environment: dict[str, Any]) -> None:
    client.close()
    for file, number in zip(files, (1, 2), strict=True):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    code = _BROKEN
    try:
        code = ratchet(["stage", environment["RATCHET_REQUEST"]])
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
