"""Runs nights on several cores. The same seed gives the same nights on any number of cores."""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from ratchet.contracts.errors import OutOfMemory
from ratchet.metrics.metrics import Floats
from ratchet.verdict.gate_check.scenarios import Scenario

CHUNK = 20
"""Nights that a process makes at a time."""

Progress = Callable[[int, int], None]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_scenarios: dict[str, Scenario] = {}


class Chunk(NamedTuple):
    """Some nights of a scenario."""

    name: str
    number: int
    nights: int


def simulate(
    scenarios: Mapping[str, tuple[Scenario, int]], *, seed: int, workers: int, progress: Progress
) -> dict[str, Floats]:
    """What is seen of each night, by scenario: [nights, k]. scenarios: with how many nights of each.

    progress: gets the nights that are done, and all. Raises OutOfMemory where a process was ended from outside.
    """
    chunks = [chunk for name, (_, nights) in scenarios.items() for chunk in _chunks(name, nights)]
    known = {name: scenario for name, (scenario, _) in scenarios.items()}
    done, total = 0, sum(chunk.nights for chunk in chunks)
    seen: dict[Chunk, Floats] = {}
    for chunk, found in _run(known, chunks, seed, min(workers, len(chunks))):
        seen[chunk] = found
        done += chunk.nights
        progress(done, total)
    return {name: np.concatenate([seen[chunk] for chunk in chunks if chunk.name == name]) for name in scenarios}


def _chunks(name: str, nights: int) -> Iterator[Chunk]:
    for number, start in enumerate(range(0, nights, CHUNK)):
        yield Chunk(name, number, min(CHUNK, nights - start))


def _run(
    scenarios: Mapping[str, Scenario], chunks: list[Chunk], seed: int, workers: int
) -> Iterator[tuple[Chunk, Floats]]:
    if workers <= 1:
        yield from ((chunk, _nights(scenarios[chunk.name], chunk, seed)) for chunk in chunks)
        return
    with _one_thread_each():
        pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_learn, initargs=(dict(scenarios),))
        try:
            waiting = {pool.submit(_in_process, chunk, seed): chunk for chunk in chunks}
            yield from ((waiting[future], future.result()) for future in as_completed(waiting))
        except BrokenProcessPool:
            raise OutOfMemory(
                "a process that simulates nights was ended from outside", remedy="give --workers 1, or more memory"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """New processes compute with one thread each: there is one of them for each core."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _learn(scenarios: dict[str, Scenario]) -> None:
    _scenarios.update(scenarios)


def _in_process(chunk: Chunk, seed: int) -> Floats:
    return _nights(_scenarios[chunk.name], chunk, seed)


def _nights(scenario: Scenario, chunk: Chunk, seed: int) -> Floats:
    generator = np.random.default_rng([seed, chunk.number, *chunk.name.encode()])
    return np.array([scenario.night(generator) for _ in range(chunk.nights)], dtype=np.float64)
