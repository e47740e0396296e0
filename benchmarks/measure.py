"""The result of a benchmark, and the machine that it ran on."""

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Result:
    """ratio: has to be at most goal. rows: the table, a label and a text each."""

    name: str
    ratio: float
    goal: float
    unit: str
    ours: float
    peer: float
    peer_name: str
    rows: tuple[tuple[str, str], ...]

    @property
    def holds(self) -> bool:
        """Whether the ratio meets the goal."""
        return self.ratio <= self.goal

    def show(self) -> None:
        """Print the table, and as the last line one JSON object."""
        table = Table(title=self.name, title_justify="left", box=None, show_header=False)
        for label, text in self.rows:
            table.add_row(label, text)
        Console().print(table)
        line = {
            "name": self.name,
            "ratio": round(self.ratio, 4),
            "goal": self.goal,
            "holds": self.holds,
            "unit": self.unit,
            "ours": round(self.ours, 4),
            "peer": round(self.peer, 4),
            "peer_name": self.peer_name,
            "machine": machine(),
        }
        print(json.dumps(line))


def seconds(work: Callable[[], object]) -> float:
    """How long it takes, by the clock."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def peak_memory() -> float:
    """The greatest resident memory of this process until now, in bytes, with the pages of mapped files."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return float(status["VmHWM"].split()[0]) * 1024


def machine() -> str:
    """Cores, memory and processor in one line."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {model}"
