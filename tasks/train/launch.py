"""Starts the ranks of a training, passes a notice on, watches them, and ends as the one of them that failed first.

It sets the environment variables of torchrun, so that code for torchrun runs here. Why it is no torchrun: ADR 040.

A change here violates the promise of the project when a rank outlives this process, when a notice to stop leaves the
ranks less time than this process has, or when exit code 75 is given for a training that nobody stopped.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from torch import distributed

from ratchet.checkout import ROOT
from ratchet.contracts.errors import OutOfMemory, Preempted, RatchetError
from ratchet.runtime.context import Finished, StageContext
from ratchet.runtime.memory_kills import memory_kills
from tasks.train import heartbeat, verdict
from tasks.train.rank import BEATS, REQUEST, RESULT, Order, Result, stacks
from tasks.train.watchdog import Watchdog, log_stacks, stacks_of

_LOOK_S = 0.05
_SETTLE_S = 5.0
"""The time of the others after the first rank has ended. If another one fails, the first has the grace of the stage: it
may have a checkpoint to finish."""
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Rank = subprocess.Popen[bytes]


def launch(ctx: StageContext, count: int) -> Finished:
    """Train in `count` processes of this host. Raises what the rank raised that failed first."""
    with tempfile.TemporaryDirectory(prefix="ratchet-ranks-") as name:
        folder = Path(name)
        order = Order(request=ctx.request, place=ctx.transaction.place)
        (folder / REQUEST).write_text(order.model_dump_json(by_alias=True), encoding="utf-8")
        heartbeat.create(folder / BEATS, count)
        killed = memory_kills()
        with _started(ctx, folder, count) as ranks:
            _wait(ctx, folder, ranks)
            _raise_failure(ctx, folder, ranks, out_of_memory=memory_kills() > killed)
        made = Result.model_validate_json((folder / RESULT).read_bytes())
    ctx.transaction.adopt(made.outputs)
    for phase, seconds in made.timings.items():
        ctx.timings[phase] += seconds
    return Finished(content=made.content, summary=made.summary, metrics=made.metrics)


@contextmanager
def _started(ctx: StageContext, folder: Path, count: int) -> Iterator[list[Rank]]:
    """The ranks; whatever happens, none of them is left at the end."""
    server = socket.create_server(("127.0.0.1", 0))  # torch's own would listen to every network
    port = server.getsockname()[1]
    store = distributed.TCPStore(
        "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=server.detach()
    )
    ctx.log.event("ranks", f"a step is computed by {count} processes", ranks=count)
    ranks: list[Rank] = []
    try:
        ranks.extend(_start(ctx, folder, rank, count, port) for rank in range(count))
        yield ranks
    finally:
        _kill(ranks)
        del store


def _kill(ranks: Sequence[Rank]) -> None:
    for one in ranks:
        one.kill()
    for one in ranks:
        one.communicate()


def _start(ctx: StageContext, folder: Path, rank: int, count: int, port: int) -> Rank:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tasks.train.rank", str(folder)],
        env={**os.environ, **_environment(ctx, folder, rank, count, port)},
        stdin=subprocess.PIPE,  # its end is how a rank sees that this process has ended
    )


def _environment(ctx: StageContext, folder: Path, rank: int, count: int, port: int) -> Mapping[str, str]:
    """What torchrun sets, and the rank's share of the cores."""
    threads = str(max(1, round(ctx.spec.resources["train"].cpus / count)))
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TMPDIR": str(folder),
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }


def _wait(ctx: StageContext, folder: Path, ranks: Sequence[Rank]) -> None:
    """Until all have ended, or one has failed and the others had time to say why they end. Raises Preempted if hung."""
    dog, grace = Watchdog(ctx.spec.train.watchdog), ctx.spec.settings_of("train").grace
    notified, failed_at = False, 0.0
    while any(rank.poll() is None for rank in ranks):
        now = time.monotonic()
        if ctx.stopping.is_set() and not notified:
            notified = True
            for rank in ranks:
                rank.send_signal(signal.SIGTERM)
        signs = heartbeat.read(folder / BEATS)
        first_ended = ranks[0].poll() is not None
        if not failed_at and (first_ended or any(map(_has_failed, ranks, signs))):
            failed_at = now
        if failed_at and now - failed_at > (_SETTLE_S if first_ended else grace):
            return
        if not failed_at and dog.is_hung(signs):
            running = {number: rank.pid for number, rank in enumerate(ranks) if rank.poll() is None}
            found = stacks_of(running, partial(_stacks, folder))
            _kill(ranks)  # one that was stopped goes on, and would write its progress into the stacks
            for number, text in found.items():
                log_stacks(ctx.log, number, text)
            raise dog.error(signs)
        time.sleep(_LOOK_S)


def _stacks(folder: Path, rank: int) -> str:
    """What a rank has dumped so far; nothing before it can dump."""
    file = stacks(folder, rank)
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _has_failed(rank: Rank, sign: heartbeat.Sign) -> bool:
    """Whether a rank has ended with an error that the training needs: not after its loop, when its part was done."""
    return bool(rank.poll()) and not sign.over


def _raise_failure(ctx: StageContext, folder: Path, ranks: Sequence[Rank], *, out_of_memory: bool) -> None:
    """Raise what the training failed of, if it did. out_of_memory: whether Linux killed processes for their memory."""
    if ranks[0].returncode == 0 and (folder / RESULT).exists():
        return
    found = [one for number in range(len(ranks)) if (one := verdict.read(folder, number))]
    first = verdict.first_of(found) if found else None
    said = {one.rank for one in found}
    step = max(sign.step for sign in heartbeat.read(folder / BEATS))
    if first is None or first.is_lost:  # what another rank died of without a word is the cause
        for number, rank in enumerate(ranks):
            if rank.returncode and number not in said:
                if ctx.stopping.is_set() and rank.returncode == -signal.SIGTERM:
                    raise Preempted("training received a notice to stop before it began")
                raise unsaid(number, len(ranks), rank.returncode, step, out_of_memory=out_of_memory)
    if first is not None:
        if first.code == RatchetError.code:
            ctx.log.event("rank", f"rank {first.rank} failed:\n{first.traceback}", level="error", rank=first.rank)
        raise verdict.error_of(first)
    raise RatchetError("the first rank ended with exit code 0 before it made a model")


def unsaid(rank: int, count: int, code: int, step: int, *, out_of_memory: bool) -> RatchetError:
    """The error of a rank that ended without a verdict."""
    name = f"rank {rank} of {count}"
    if code == -signal.SIGKILL and out_of_memory:
        return OutOfMemory(
            f"{name} was killed for its memory after step {step:,}",
            remedy="wait for the next try, which computes the step in twice as many micro-batches; to avoid the error,"
            " raise resources.train.memory",
        )
    if -code in _FROM_OUTSIDE:
        return Preempted(
            f"{name} was killed by signal {-code} after step {step:,}; training goes on from its newest checkpoint",
            remedy="check who ended it, unless that was intended",
        )
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return RatchetError(f"{name} ended with {how} after step {step:,}, without a reason")
