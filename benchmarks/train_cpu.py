"""train-cpu: rows a second of a whole epoch, against the limit that its products and its memory set. One thread.

The default network with five numbers and five categories of 1,000 ids, batches of 4,096 rows. The limit is measured
in the same run: the matrix products of all layers, forward and backward, each alone and in memory that is there
already; and what other operations have to read and write, at the speed of a copy, if each layer did all of that in one
pass: rows into a batch, encodings, inputs, cross terms, ReLU with dropout, vectors and their gradients, and AdamW. The
rest could be saved: passes of more than one operation, memory that is allocated, Python. All times are the processor's,
so that other work on the machine counts less.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.made_up import BATCH, DEFAULT, default_network, made_up_table, seconds_of_a_step
from benchmarks.measure import Result
from ratchet.model.networks import Network
from tasks.train.building import dimension
from tasks.train.data import Rows
from tasks.train.startup import prepare

_NAMES = tuple(f"column{number}" for number in range(5))
_IDS, _SHARE = 1000, 0.6


def run(*, full: bool) -> Result:
    """The median of the ratios of rounds, in each of which epoch and limit are measured."""
    rows = made_up_table(BATCH * (200 if full else 40))
    rounds = []
    for _ in range(7 if full else 3):
        prepare(seed=0, cpus=1, gpus=0)
        network = default_network(_NAMES, _NAMES, _IDS)
        products, memory = _products(network), _memory(network, rows)
        begin = time.process_time()
        seconds_of_a_step(network, rows)
        rounds.append(((time.process_time() - begin) * BATCH / len(rows), products, memory))
    ours, products, memory = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
    share = statistics.median((two + three) / one for one, two, three in rounds)
    return Result(
        name="train-cpu",
        ratio=_SHARE / share,
        goal=1.0,
        unit="of what is allowed",
        ours=BATCH / ours,
        peer=BATCH / (products + memory),
        peer_name="the limit, rows a second",
        rows=(
            ("an epoch", f"{BATCH / ours:,.0f} rows/s, {1000 * ours:.1f} ms a step"),
            ("its products", f"{1000 * products:.1f} ms a step"),
            ("its memory", f"{1000 * memory:.1f} ms a step"),
            ("share of the limit", f"{share:.2f}"),
        ),
    )


def _products(network: Network) -> float:
    """Seconds of the products of a step: of a layer forward, for the gradient of its inputs, and for its weights."""
    seconds = 0.0
    for layer in network.body.modules():
        if isinstance(layer, torch.nn.Linear):
            weight = layer.weight.detach()
            given, made = torch.randn(BATCH, layer.in_features), torch.randn(BATCH, layer.out_features)
            seconds += _product(given, weight.t()) + _product(made, weight) + _product(made.t(), given)
    if network.numbers is not None:  # its inputs need no gradient
        weight = network.numbers.columns.weight.detach()
        columns, bins, outputs = weight.shape
        given, made = torch.randn(columns, BATCH, bins), torch.randn(columns, BATCH, outputs)
        seconds += _product(given, weight) + _product(given.transpose(1, 2), made)
    return seconds


def _product(one: Tensor, other: Tensor) -> float:
    out = torch.matmul(one, other)
    return _seconds(lambda: torch.matmul(one, other, out=out))


def _memory(network: Network, rows: Rows) -> float:
    """Seconds to read and write, at the speed of a copy, what operations other than products have to."""
    numbers, vectors = len(_NAMES), len(_NAMES) * dimension(_IDS)
    inputs = 2 * numbers + numbers * DEFAULT.number_dim + vectors
    words = 2 * rows.packed().layout.width  # rows into a batch
    words += numbers * DEFAULT.bins  # encodings are written
    words += 2 * inputs  # read where they come from, and written side by side
    words += 2 * vectors  # gradients of vectors, read and written
    words += DEFAULT.cross_layers * inputs * 9  # first * product + crossed, and its three gradients
    words += sum(DEFAULT.hidden) * 5  # ReLU with dropout, forward and backward
    of_parameters = 7 * sum(weight.numel() for weight in network.parameters())  # AdamW reads four and writes three
    size = 4 * (BATCH * words + of_parameters)
    source = np.ones(size // 8, np.uint32)  # read once and written once
    target = np.ones_like(source)
    return _seconds(lambda: np.copyto(target, source))


def _seconds(work: Callable[[], object]) -> float:
    """The processor's time: the median of seven."""
    found = []
    for _ in range(8):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return statistics.median(found[1:])
