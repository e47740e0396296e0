"""The memory and the processor time of the servers of an Airflow, with all their processes."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from local.supervision.state import read

_EVERY_S = 1.0


def memory(home: Path) -> dict[str, float]:
    """The proportional set size (PSS) of the processes of each server, in MiB. Memory that they share counts once."""
    return {name: sum(map(_pss, _family(root))) / 2**20 for name, root in _servers(home).items()}


def steady(look: Callable[[], Mapping[str, float]], *, seconds: float) -> dict[str, float]:
    """The median of each server during so many seconds: a process that parses files or runs a task comes and goes."""
    end, seen = time.monotonic() + seconds, list[Mapping[str, float]]()
    while time.monotonic() < end:
        seen.append(look())
        time.sleep(_EVERY_S)
    return {name: statistics.median(one[name] for one in seen) for name in seen[0]}


def processor_seconds(home: Path) -> dict[str, float]:
    """The processor time of each server's own process so far; not of the tasks that it has started."""
    return {name: sum(root.cpu_times()[:2]) for name, root in _servers(home).items()}


def _servers(home: Path) -> dict[str, psutil.Process]:
    """The first process of each of Airflow's servers."""
    known = read(home)
    assert known is not None
    return {
        server.name: psutil.Process(server.process.pid)
        for server in known.servers
        if server.process is not None and server.name != "mlflow"
    }


def _family(root: psutil.Process) -> Iterator[psutil.Process]:
    yield root
    with suppress(psutil.NoSuchProcess):
        yield from root.children(recursive=True)


def _pss(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
        return float(process.memory_full_info().pss)
    return 0.0
