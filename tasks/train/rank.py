"""`python -m tasks.train.rank FOLDER`: one rank of a training; `tasks.train.launch` starts it and reads its verdict."""

import faulthandler
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import Any

import torch

from ratchet.contracts.document import Document
from ratchet.contracts.request import StageRequest
from ratchet.contracts.result import Artifact
from ratchet.contracts.stages import stage_module
from ratchet.contracts.summaries import TrainedModel
from ratchet.runtime.context import Finished, StageContext
from ratchet.runtime.logs import Level, StageLog, forward_library_logs
from ratchet.store.opening import open_store
from ratchet.store.publishing import Transaction
from tasks.train import verdict
from tasks.train.heartbeat import Heartbeat
from tasks.train.ranks import RankDone, Ranks

REQUEST, BEATS, RESULT = "request.json", "heartbeat", "result.json"
"""The files of the folder."""


class Order(Document):
    """What a rank is started with. place: of the transaction that its outputs belong to."""

    request: StageRequest
    place: str


class Result(Document):
    """What the first rank has made."""

    content: str
    summary: TrainedModel
    metrics: dict[str, float]
    timings: dict[str, float]
    outputs: dict[str, Artifact]


class _Quiet(StageLog):
    """The log of the other ranks: what libraries warn of. The rest is that of the first rank."""

    def event(self, event: str, message: str, *, level: Level = "info", **fields: Any) -> None:
        if event == "library":
            super().event(event, message, level=level, rank=int(os.environ["RANK"]), **fields)


def stacks(folder: Path, rank: int) -> Path:
    """Where a rank dumps its stacks; there is no file before it can."""
    return folder / f"stacks-{rank}.txt"


def main(folder: Path) -> int:
    """Train as one rank. Returns the exit code."""
    number = int(os.environ["RANK"])
    order = Order.model_validate_json((folder / REQUEST).read_bytes())
    request = order.request
    log = StageLog(request.stage) if number == 0 else _Quiet(request.stage)
    forward_library_logs(log)
    stopping = Event()
    for notice in (signal.SIGTERM, signal.SIGINT):
        signal.signal(notice, lambda *_: stopping.set())
    with stacks(folder, number).open("w") as dump:
        faulthandler.register(signal.SIGUSR1, dump, all_threads=True)
        heartbeat = Heartbeat(folder / BEATS, number)
        heartbeat.start()
        Thread(target=_end_with_parent, name="parent", daemon=True).start()
        with verdict.Writer(folder, number) as writer, suppress(RankDone):
            _train(folder, order, heartbeat, log, stopping)
    return writer.code


def _train(folder: Path, order: Order, heartbeat: Heartbeat, log: StageLog, stopping: Event) -> None:
    number, request, store = int(os.environ["RANK"]), order.request, open_store(order.request.store)
    device = torch.device("cuda" if request.spec.resources["train"].gpus else "cpu")
    if device.type == "cuda" and number < torch.cuda.device_count():  # otherwise `prepare` says what is missing
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    place = order.place if number == 0 else f"{order.place}-{number}"
    with (
        Ranks.join(heartbeat, device=device) as ranks,
        StageContext.open(
            request,
            store=store,
            log=log,
            stopping=stopping,
            transaction=Transaction(store, request.prefix, request.attempt, place=place),
        ) as ctx,
    ):
        module = import_module(stage_module(request.stage))  # it starts the ranks, so it knows this module
        finished: Finished = module.run(ctx, ranks)
        made = Result(
            content=finished.content,
            summary=TrainedModel.model_validate(finished.summary.model_dump(mode="json", by_alias=True)),
            metrics=finished.metrics,
            timings=dict(ctx.timings),
            outputs=dict(ctx.transaction.outputs),
        )
        (folder / RESULT).write_text(made.model_dump_json(by_alias=True), encoding="utf-8")


def _end_with_parent() -> None:
    """Wait for the end of the process above, which holds the other end of the standard input."""
    os.read(sys.stdin.fileno(), 1)  # past Python's buffer, whose lock would hold up the end of this process
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
