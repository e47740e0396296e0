"""step: the time of a step of the training loop, against a bare loop in torch with the same network and optimizer.

The bare loop reads contiguous slices of the same table, and does nothing but a step: no random order, no log, no stop,
no check, one group of parameters. Steps of 4,096 rows with one column of ids and eight numbers, on one thread.
"""

import statistics
import time

import torch

from benchmarks.made_up import BATCH, DECAY, RATE, made_up_network, made_up_rows, seconds_of_a_step
from benchmarks.measure import Result
from ratchet.model.networks import Network
from tasks.train.data import Rows
from tasks.train.losses import LOSSES
from tasks.train.startup import AdamW, prepare

_IDS, _LARGEST_GRADIENT = 10_000, 5.0


def run(*, full: bool) -> Result:
    """The median of the ratios of rounds, in each of which both loops run."""
    rows = made_up_rows(_IDS, BATCH * (400 if full else 100))
    rounds = []
    for _ in range(7 if full else 3):
        prepare(seed=0, cpus=1, gpus=0)
        rounds.append((seconds_of_a_step(made_up_network(_IDS), rows), _bare(made_up_network(_IDS), rows)))
    ours, bare = (statistics.median(seconds) * 1000 for seconds in zip(*rounds, strict=True))
    return Result(
        name="step",
        ratio=statistics.median(one / other for one, other in rounds),
        goal=1.03,
        unit="times the bare loop",
        ours=ours,
        peer=bare,
        peer_name="a bare loop, ms",
        rows=(("the training loop", f"{ours:.2f} ms a step"), ("a bare loop", f"{bare:.2f} ms a step")),
    )


def _bare(network: Network, rows: Rows) -> float:
    network.train()
    optimizer = AdamW(network.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    begin = time.perf_counter()
    for place in range(0, len(rows), BATCH):
        some = slice(place, place + BATCH)
        optimizer.zero_grad(set_to_none=True)
        loss = LOSSES["binary"](network.scores(rows.numeric[some], rows.places[some]), rows.label[some], None, None)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
        torch.nn.utils.clip_grad_norm_(network.parameters(), _LARGEST_GRADIENT)
        optimizer.step()
    return (time.perf_counter() - begin) / (len(rows) // BATCH)
