"""Stages as processes of this machine: without image or engine, and with no limits but the kernel's own."""

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from ratchet.checkout import ROOT
from ratchet.contracts.errors import JobGone, Unavailable
from ratchet.contracts.exits import ExitCode
from ratchet.runners import guard
from ratchet.runners.job import REQUEST, SECRETS, Job
from ratchet.runners.log.lines import Line
from ratchet.runners.log.output import Output
from ratchet.runners.log.position import Position
from ratchet.runners.private_folder import private_folder
from ratchet.runners.runner import Status
from ratchet.runtime.memory_kills import memory_kills
from ratchet.store import owned_folder


@dataclass(slots=True)
class _Process:
    """A started job. The thread that waits for it resolves `ended` when no process of its group lives any more."""

    job: Job
    scratch: Path
    lock: int
    output: Output
    pid: int = 0
    killed: bool = False  # by this runner, so not by the kernel for its memory
    ended: Future[Status] = field(default_factory=Future)


class ProcessRunner:
    """Runs each job as a child process in its own session. Handles are valid in this object only.

    Jobs die with the process that started them. Mounts, network and resource limits are not enforced. The folder of a
    job holds its secrets: where nobody was left to delete it, the next job of this user does.
    """

    durable = False
    engine = None

    def __init__(self) -> None:
        self._processes: dict[str, _Process] = {}
        self._numbers = count(1)

    def submit(self, job: Job) -> str:
        """Start the job in a private folder that holds its request and secrets."""
        jobs = private_folder("jobs")
        owned_folder.sweep(jobs)
        scratch, lock = owned_folder.make(jobs, "job")
        process = _Process(job, scratch, lock, Output())
        started: Future[int] = Future()
        # The kernel's notice of a parent's death follows the thread that forked, so the forking thread stays.
        thread = threading.Thread(target=_attend, args=(process, started), name=f"ratchet-{job.name}", daemon=True)
        try:
            _write_files(scratch, job)
            thread.start()
            process.pid = started.result()
        except BaseException:
            with contextlib.suppress(Unavailable):
                if thread.ident is not None:
                    _kill_group(started.result(), signal.SIGKILL)
            owned_folder.release(scratch, lock)
            raise
        handle = f"{job.name}-{next(self._numbers)}"
        self._processes[handle] = process
        return handle

    def status(self, handle: str) -> Status:
        """The job's state now."""
        process = self._known(handle)
        return process.ended.result() if process.ended.done() else Status(running=True)

    def wait(self, handle: str, timeout_s: float | None = None) -> Status:
        """Block until the job ends, or for `timeout_s` seconds at most; then its state."""
        with contextlib.suppress(TimeoutError):
            return self._known(handle).ended.result(timeout_s)
        return self.status(handle)

    def logs(self, handle: str, since: Position | None = None, until: float = math.inf) -> Iterator[Line]:  # noqa: ARG002 - the protocol's; a line is yielded once
        """Lines until the job ends. Of lines that were not fetched in time, the newest are kept."""
        return self._known(handle).output.follow()

    def notify(self, handle: str) -> None:
        """SIGTERM to the whole group, and no waiting."""
        process = self._processes.get(handle)
        if process is not None and not process.ended.done():
            _kill_group(process.pid, signal.SIGTERM)

    def stop(self, handle: str, grace_s: float) -> None:
        """SIGTERM to the whole group, and SIGKILL after `grace_s` seconds."""
        process = self._processes.get(handle)
        if process is None or process.ended.done():
            return
        _kill_group(process.pid, signal.SIGTERM)
        if self.wait(handle, grace_s).running:
            process.killed = True
            _kill_group(process.pid, signal.SIGKILL)
            process.ended.result()

    def remove(self, handle: str) -> None:
        """Kill if needed, and leave no trace."""
        process = self._processes.get(handle)
        if process is None:
            return
        if not process.ended.done():
            process.killed = True
            _kill_group(process.pid, signal.SIGKILL)
            process.ended.result()
        if self._processes.pop(handle, None) is not None:
            owned_folder.release(process.scratch, process.lock)

    def find(self, labels: Mapping[str, str]) -> list[str]:
        """Handles of this object's jobs that carry all these labels."""
        return [
            handle for handle, process in list(self._processes.items()) if labels.items() <= process.job.labels.items()
        ]

    def renew(self, handle: str, secret: str, content: bytes) -> None:
        """Replace a secret of a job, at once."""
        folder = self._known(handle).scratch / SECRETS
        if not folder.is_dir():
            raise JobGone(f"job {handle} is gone")
        new = folder.parent / f"{secret}.new"
        new.touch(mode=0o600)
        new.write_bytes(content)
        new.replace(folder / secret)

    def labels(self, handle: str) -> Mapping[str, str]:
        """The labels of one of this object's jobs."""
        return self._known(handle).job.labels

    def _known(self, handle: str) -> _Process:
        try:
            return self._processes[handle]
        except KeyError:
            raise JobGone(f"job {handle} is gone") from None


def _write_files(scratch: Path, job: Job) -> None:
    """The request, the secrets and an empty TMPDIR, for this user's eyes only (the folder is 0700)."""
    (scratch / "tmp").mkdir(mode=0o700)
    (scratch / SECRETS).mkdir(mode=0o700)
    (scratch / REQUEST).write_bytes(job.request)
    for name, content in job.secrets.items():
        with open(os.open(scratch / SECRETS / name, os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:  # noqa: PTH123 - pathlib cannot create with a mode
            file.write(content)


def _attend(process: _Process, started: Future[int]) -> None:
    """Start the job's process and wait for its end. Runs in its own thread."""
    job, scratch = process.job, process.scratch
    stage = (sys.executable, "-P", "-m", "ratchet.cli.main", "stage", str(scratch / REQUEST))
    command = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), *(job.command or stage)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(scratch / "tmp"),
        **job.environment(str(scratch), cpus=os.cpu_count()),
    }
    kills_before = memory_kills()
    try:
        child = subprocess.Popen(
            command,
            cwd=scratch / "tmp",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=(process.lock,),  # the folder is in use until the job has ended, also when this process is killed
        )
    except OSError as error:
        started.set_exception(Unavailable(f"{job.name} cannot be started: {error}"))
        return
    started.set_result(child.pid)
    with process.output.reading(child):
        # Waited for without being reaped, so that the group's number cannot be used again before the group is killed.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        _kill_group(child.pid, signal.SIGKILL)
        code_or_signal = child.wait()
    process.ended.set_result(_status(code_or_signal, not process.killed and memory_kills() > kills_before))


def _status(returncode: int, out_of_memory_kills: bool) -> Status:  # noqa: FBT001 - one caller, right above
    exit_code = 128 - returncode if returncode < 0 else returncode
    # A process that exits with 137 itself reports it; one that was killed may have had a SIGKILL from anywhere.
    reported = returncode == ExitCode.OUT_OF_MEMORY
    killed = returncode == -signal.SIGKILL and out_of_memory_kills
    return Status(running=False, exit_code=exit_code, out_of_memory=reported or killed)


def _kill_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
