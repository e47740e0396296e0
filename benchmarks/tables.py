"""tables: the peak memory of a process whose large table is sharded by row over two, against one that has all of it.

One column of ids, drawn uniformly, beside eight numbers; the default network and optimizer, steps of 4,096 rows, a
thread for each process, an evaluation, a checkpoint, and the whole table for the first process at the end. The peak is
that of the process with most. Also the time of a step, whole and sharded, with few ids and with many.
"""

import json
import os
import socket
import subprocess
import sys
from contextlib import nullcontext

from benchmarks.made_up import BATCH, made_up_network, made_up_rows, training
from benchmarks.measure import Result
from benchmarks.nowhere import Nowhere
from ratchet.model.networks import Network
from tasks.train.checkpoint import Checkpointer
from tasks.train.data import Rows
from tasks.train.heartbeat import Heartbeat
from tasks.train.ranks import Ranks
from tasks.train.row_tables import shard, unshard
from tasks.train.startup import prepare
from tasks.train.vitals import most_mib

_FEW, _MANY = 10_000, 10_000_000
_STEPS = 60
_GOAL = 0.6


def run(*, full: bool) -> Result:
    """Ten million ids for --full, else one million."""
    many = _MANY if full else _MANY // 10
    whole, alone, shared = (_train(many, ranks, sharded=sharded) for ranks, sharded in ((1, 0), (1, 1), (2, 1)))
    few = {(ranks, sharded): _train(_FEW, ranks, sharded=sharded)[1] for ranks, sharded in ((1, 0), (2, 1))}
    return Result(
        name="tables",
        ratio=shared[0] / whole[0],
        goal=_GOAL,
        unit="of the peak with whole tables",
        ours=shared[0],
        peer=whole[0],
        peer_name="whole, MiB",
        rows=(
            (f"{many:,} ids, whole", f"{whole[0]:,.0f} MiB, {whole[1]:.1f} ms a step"),
            (f"{many:,} ids, sharded, one process", f"{alone[0]:,.0f} MiB, {alone[1]:.1f} ms a step"),
            (f"{many:,} ids, sharded over two processes", f"{shared[0]:,.0f} MiB, {shared[1]:.1f} ms a step"),
            (f"{_FEW:,} ids, whole", f"{few[1, 0]:.1f} ms a step"),
            (f"{_FEW:,} ids, two processes with a sharded table", f"{few[2, 1]:.1f} ms a step"),
        ),
    )


def _train(ids: int, ranks: int, *, sharded: int) -> tuple[float, float]:
    """(MiB of the process with most, ms of a step) of a training."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    processes = []
    for rank in range(ranks):
        several = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
        env = {**os.environ, **several, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
        command = [sys.executable, "-m", "benchmarks.tables", str(ids), str(sharded)]
        processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    said = [json.loads(each.communicate()[0]) for each in processes]
    return max(mib for mib, _ in said), said[0][1]


def _rank(ids: int, *, sharded: bool) -> None:
    """Train as one of the processes, and print its MiB and ms."""
    device, several = prepare(seed=0, cpus=1, gpus=0), int(os.environ["WORLD_SIZE"]) > 1
    with Ranks.join(Heartbeat(), device=device) if several else nullcontext(Ranks()) as ranks:
        network = made_up_network(ids)
        if sharded:
            shard(network, ranks, smallest=_FEW)
        milliseconds = _ms_of_a_step(network, made_up_rows(ids, BATCH * _STEPS), ranks)
        unshard(network)
    print(json.dumps([most_mib(), milliseconds]))


def _ms_of_a_step(network: Network, rows: Rows, ranks: Ranks) -> float:
    checkpointer = Checkpointer(Nowhere(), keep=1, warn=print)
    loop = training(network, rows, checkpointer=checkpointer, batch_size=BATCH, ranks=ranks)
    result = loop.run()
    return 1000 * sum(each.seconds for each in result.history) / result.history[-1].step


if __name__ == "__main__":
    _rank(int(sys.argv[1]), sharded=bool(int(sys.argv[2])))
