"""A training of a second or two whose checkpoints are in a store: what is killed at any step, or while it saves.

`python -m tests.faults.miniature_training FOLDER KILLS SEED RANKS` trains to the end in a child for each rank of each
attempt, and kills one of them with SIGKILL after a random number of steps, KILLS times. It prints what test_01 reads.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from random import Random

import torch
from torch import distributed

from ratchet.contracts.fingerprint import fingerprint
from ratchet.contracts.request import StageRequest
from ratchet.store.checkpoint_folder import StoreCheckpointFolder
from ratchet.store.file import FileStore
from tasks.train.checkpoint import Checkpointer
from tasks.train.heartbeat import Heartbeat
from tasks.train.loop import Loop, TrainResult
from tasks.train.ranks import RankLost, Ranks
from tasks.train.stopping import StopTraining
from tests.shop import Shop
from tests.train.miniature import bits, loop, network, rows

_TRAINING = {"batch_size": 32, "epochs": 20, "evaluations": 3, "patience": 9, "learning_rate": 2e-3}
"""It has evaluations inside an epoch, a plateau and a fall, so that each part of a training is resumed."""
_STEPS = 4
"""Between two checkpoints."""


def store_of(folder: Path) -> FileStore:
    """The store of a test's folder."""
    return FileStore(folder / "store")


def request(folder: Path) -> StageRequest:
    """The same request in each process; it is made once."""
    stored = folder / "request.json"
    if stored.exists():
        return StageRequest.model_validate_json(stored.read_text(encoding="utf-8"))
    store = store_of(folder)
    store.prepare()
    made = Shop.make(store, folder / "scratch").request("train", attempt="one")
    parts = {"made": "miniature"}
    made = made.model_copy(update={"parts": parts, "fingerprint": fingerprint(parts)})
    stored.write_text(made.model_dump_json(by_alias=True), encoding="utf-8")
    return made


def checkpointer(folder: Path, asked: StageRequest | None = None) -> Checkpointer:
    """Saves below the folder."""
    files = StoreCheckpointFolder(store_of(folder), asked or request(folder), folder)
    return Checkpointer(files, keep=2, warn=lambda _: None)


def training(
    folder: Path,
    asked: StageRequest,
    *,
    each_step: Callable[[], bool] = lambda: False,
    saves_at_steps: bool = True,
    ranks: Ranks | None = None,
    shards: int | None = None,
) -> tuple[Loop, Callable[[], str]]:
    """The training, and a function that gives the digest of its weights.

    each_step: called after each step; true is a notice to stop. saves_at_steps: whether it saves inside an epoch too.
    """
    torch.set_num_threads(1)
    made = network("binary", dropout=0.2)
    torch.manual_seed(0)
    one = loop(
        "binary",
        net=made,
        valid=rows("binary", 300, seed=5),
        checkpointer=checkpointer(folder, asked),
        stopping=each_step,
        ranks=ranks,
        shards=shards,
        **{**_TRAINING, "checkpoint_steps": _STEPS if saves_at_steps else None},
    )
    return one, lambda: sha256(b"".join(bits(made).values())).hexdigest()


def whole(folder: Path, shards: int | None = None) -> tuple[TrainResult, str]:
    """The training, not disturbed: its result, and the digest of its weights. It begins in the middle if it can."""
    one, digest = training(folder, request(folder), shards=shards)
    return one.run(), digest()


def killed_again_and_again(folder: Path, kills: int, draw: Random, ranks: int) -> tuple[int, str]:
    """How often the training was killed before it ended, at most `kills` times, and the digest of its weights."""
    asked = request(folder)
    killed = 0
    while True:
        read, write = os.pipe()
        server = socket.create_server(("127.0.0.1", 0))
        port = server.getsockname()[1]
        # As `tasks.train.launch` does: a port that is free again, another process may take before the first rank does.
        meeting = distributed.TCPStore(
            "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=server.detach()
        )
        children = [_start(folder, asked, write, rank, ranks, port) for rank in range(ranks)]
        os.close(write)
        steps = draw.randint(1, 12) if killed < kills else 10**9
        with os.fdopen(read, "rb", buffering=0) as told:
            answer = _after(told.read, steps)
            if not answer:
                victim = draw.choice(children)
                os.kill(victim, signal.SIGKILL)
        ended = {child: os.waitpid(child, 0)[1] for child in children}
        del meeting
        if answer:
            return killed, answer
        assert os.WTERMSIG(ended[victim]) == signal.SIGKILL
        assert all(ended[child] for child in children)
        killed += 1


def _start(folder: Path, asked: StageRequest, write: int, rank: int, ranks: int, port: int) -> int:
    child = os.fork()
    if not child:
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
        address["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), **address)
        _train(folder, asked, write)
    return child


def _after(read: Callable[[int], bytes], steps: int) -> str:
    """The digest of the weights if the training ends within so many steps, otherwise nothing. A step is a full stop."""
    answer = b""
    while (byte := read(1)) and steps:
        answer, steps = (answer, steps - 1) if byte == b"." else (answer + byte, steps)
    return answer.decode()


def _train(folder: Path, asked: StageRequest, write: int) -> None:
    several = int(os.environ["WORLD_SIZE"]) > 1
    code = 1
    try:
        with Ranks.join(Heartbeat(), device=torch.device("cpu")) if several else nullcontext(Ranks()) as ranks:

            def each_step() -> bool:
                if ranks.is_first:
                    os.write(write, b".")
                return False

            one, digest = training(folder, asked, each_step=each_step, ranks=ranks)
            one.run()
            if ranks.is_first:
                os.write(write, digest().encode())
        code = 0
    except RankLost:
        code = 2
    finally:
        os._exit(code)


def stop(folder: Path, steps: int) -> str:
    """Train, with a notice to stop after so many steps; how it ended."""
    left = iter(range(steps - 1, -1, -1))
    one, _ = training(folder, request(folder), each_step=lambda: next(left) == 0, saves_at_steps=False)
    try:
        one.run()
    except StopTraining:
        return "saved"
    return "ended"


def main() -> None:
    folder, kills, seed, ranks = Path(sys.argv[1]), *map(int, sys.argv[2:])
    result, digest = whole(folder / "whole", shards=ranks)
    killed, survived = killed_again_and_again(folder / "killed", kills, Random(seed), ranks)
    json.dump({"steps": result.history[-1].step, "digest": digest, "killed": killed, "survived": survived}, sys.stdout)


if __name__ == "__main__":
    main()
