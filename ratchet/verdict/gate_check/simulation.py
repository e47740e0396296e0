"""Runs nights on several cores. The same seed gives the same nights on any number of cores."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from ratchet.contracts.errors import OutOfMemory
from ratchet.metrics.metrics import Floats
from ratchet.verdict.gate_check.one_thread import one_thread_each
from ratchet.verdict.gate_check.scenarios import Scenario

CHUNK = 10
"""Nights that a process makes at a time."""
LEAST_NIGHTS = 200
"""With fewer nights than this a rate says too little to fail or to pass."""

Progress = Callable[[int, int], None]
_TRIED = 4
"""Chunks after which it can be seen how long a scenario takes."""
_scenarios: dict[str, Scenario] = {}


class Chunk(NamedTuple):
    """Some nights of a scenario. share: of its nights, with these."""

    name: str
    number: int
    nights: int
    share: float


def simulate(
    scenarios: Mapping[str, tuple[Scenario, int]],
    *,
    seed: int,
    workers: int,
    progress: Progress,
    seconds: float = math.inf,
    needed: frozenset[str] = frozenset(),
) -> dict[str, Floats]:
    """What is seen of each night, by scenario: [nights, k]. scenarios: with how many nights of each.

    seconds: after that no more nights are begun, but for LEAST_NIGHTS of those that are needed. A scenario that comes
    to fewer nights than these is left out. progress: gets the nights that are done, and all. Raises OutOfMemory where a
    process was ended from outside.
    """
    chunks = [chunk for name, (_, nights) in scenarios.items() for chunk in _chunks(name, nights)]
    known = {name: scenario for name, (scenario, _) in scenarios.items()}
    done, total = 0, sum(chunk.nights for chunk in chunks)
    seen: dict[str, dict[int, Floats]] = {name: {} for name in scenarios}
    until = time.monotonic() + seconds
    due = _due(_by_turns(chunks, needed), needed, lambda: until - time.monotonic())
    for chunk, found in _run(known, due, seed, min(workers, len(chunks))):
        seen[chunk.name][chunk.number] = found
        done += chunk.nights
        progress(done, total)
    joined = {name: np.concatenate([found[one] for one in sorted(found)]) for name, found in seen.items() if found}
    return {name: found for name, found in joined.items() if len(found) >= min(LEAST_NIGHTS, scenarios[name][1])}


def _chunks(name: str, nights: int) -> Iterator[Chunk]:
    for number, start in enumerate(range(0, nights, CHUNK)):
        made = min(CHUNK, nights - start)
        yield Chunk(name, number, made, (start + made) / nights)


def _by_turns(chunks: list[Chunk], needed: frozenset[str]) -> list[Chunk]:
    """The fewest nights of what is needed, then those of one scenario after the other, then all the rest by turns."""
    first = [chunk for chunk in chunks if chunk.number * CHUNK < LEAST_NIGHTS]
    rest = [chunk for chunk in chunks if chunk.number * CHUNK >= LEAST_NIGHTS]
    return [*sorted(first, key=lambda one: one.name not in needed), *sorted(rest, key=lambda one: one.share)]


def _due(chunks: list[Chunk], needed: frozenset[str], left: Callable[[], float]) -> Iterator[Chunk]:
    """The chunks that are to be made, one when it is asked for. left: how many seconds there are.

    A scenario that will not come to its fewest nights is given up, so that others get its time.
    """
    begun: dict[str, float] = {}
    hopeless: set[str] = set()
    for chunk in chunks:
        name, first = chunk.name, chunk.number * CHUNK < LEAST_NIGHTS
        if first and name not in needed:
            took = begun.setdefault(name, left()) - left()
            if chunk.number >= _TRIED and took / chunk.number * (LEAST_NIGHTS / CHUNK - chunk.number) > left():
                hopeless.add(name)
        if (first and name in needed) or (left() > 0 and name not in hopeless):
            yield chunk


def _run(
    scenarios: Mapping[str, Scenario], due: Iterator[Chunk], seed: int, workers: int
) -> Iterator[tuple[Chunk, Floats]]:
    if workers <= 1:
        yield from ((chunk, _nights(scenarios[chunk.name], chunk, seed)) for chunk in due)
        return
    with one_thread_each():
        pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_learn, initargs=(dict(scenarios),))
        try:
            waiting = {pool.submit(_in_process, chunk, seed): chunk for chunk in islice(due, 2 * workers)}
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
                    waiting |= {pool.submit(_in_process, chunk, seed): chunk for chunk in islice(due, 1)}
        except BrokenProcessPool:
            raise OutOfMemory(
                "a process that simulates nights was ended from outside", remedy="give --workers 1, or more memory"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _learn(scenarios: dict[str, Scenario]) -> None:
    _scenarios.update(scenarios)


def _in_process(chunk: Chunk, seed: int) -> Floats:
    return _nights(_scenarios[chunk.name], chunk, seed)


def _nights(scenario: Scenario, chunk: Chunk, seed: int) -> Floats:
    generator = np.random.default_rng([seed, chunk.number, *chunk.name.encode()])
    return np.array([scenario.night(generator) for _ in range(chunk.nights)], dtype=np.float64)
