"""A worker whose wall clock jumps: `python -m tests.faults.jumping_night FOLDER`, under jumping_clock.c.

It runs the first stages of two nights, in which the clocks change, and prints what came of them as JSON. Before each stage
the clock jumps by an hour, and back at the stage's first line; it jumps again once the stage has published, before its
end is recorded, and back after that.
"""

import json
import os
import struct
import sys
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from ratchet.contracts import summaries
from ratchet.contracts.loading import load
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.runners.following import follow_to_end
from ratchet.runners.job import Job
from ratchet.runners.process import ProcessRunner
from ratchet.runs.events import Event
from ratchet.runs.local_run import attempt_stage
from ratchet.runs.planning import make_plan
from ratchet.store.lease import Waiter, new_lease
from ratchet.store.memory import MemoryStore
from tests.faults.warm_stages import WarmRunner, warm_stages

STAGES: tuple[Stage, ...] = ("ingest", "validate", "features", "train")
NIGHTS = {"2026-03-28": ("2026-03-29T00:59:58", 3600), "2026-10-24": ("2026-10-25T00:59:58", -3600)}
"""The data date, a moment before the clocks of Berlin change in that night, and the seconds by which they do."""


class Clock:
    """The clock of this process and of all that it starts."""

    def __init__(self) -> None:
        self._file, self._moved, self.jumps = Path(os.environ["JUMPING_CLOCK"]), 0, 0

    def set(self, moment: str) -> None:
        """Let it be this moment, in UTC."""
        then = datetime.fromisoformat(moment).replace(tzinfo=UTC)
        self._move(self._moved + round((then - datetime.now(UTC)).total_seconds()))

    def jump(self, seconds: int) -> None:
        """Move it."""
        before = time.time()
        self._move(self._moved + seconds)
        self.jumps += abs(time.time() - before) > abs(seconds) / 2

    def _move(self, moved: int) -> None:
        self._moved = moved
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", moved))


def main() -> None:
    folder, clock = Path(sys.argv[1]), Clock()
    with warm_stages(folder / "stages") as place:
        nights = {day: _night(folder, WarmRunner(place), clock, day) for day in NIGHTS}
    print(json.dumps({"nights": nights, "timeouts": _timeouts(clock), "leases": _leases(clock), "jumps": clock.jumps}))  # noqa: T201 - what the test reads


def _night(folder: Path, runner: WarmRunner, clock: Clock, day: str) -> dict[str, Any]:
    pipeline = folder / "tiny"
    moment, by = NIGHTS[day]
    clock.set(moment)
    plan = make_plan(
        folder=pipeline, spec=load(pipeline, {}), data_date=date.fromisoformat(day), run_id="r" + day, kind="manual",
        store_uri=str(folder / "store"),
    )  # fmt: skip
    ended: dict[Stage, Outcome] = {}
    for stage in STAGES:
        clock.jump(by)
        ended[stage] = attempt_stage(plan, stage, runner, name=stage + day, on_event=_jumps(clock, by))
        clock.jump(-by)
    results = {stage: one.result for stage, one in ended.items() if one.result is not None}
    return {
        "days": [str(one.day) for one in summaries.snapshot(results["ingest"]).days],
        "states": [one.state for one in ended.values()],
        "seconds": [one.seconds for one in ended.values()]
        + [s for one in results.values() for s in one.timings.values()],
    }


def _jumps(clock: Clock, by: int) -> Callable[[Event], None]:
    """Back at the first line of a stage, and once more at that of its result."""
    heard: list[Event] = []

    def hear(event: Event) -> None:
        heard.append(event)
        if len(heard) == 1 or event.name == "published":
            clock.jump(-by if len(heard) == 1 else by)

    return hear


def _timeouts(clock: Clock) -> list[tuple[bool, float]]:
    """Whether a job was stopped at its time limit, and after how long: an endless one, and a short one."""
    endless = "print(1, flush=True); import time; time.sleep(60)"
    return [_followed(clock, endless, limit_s=5, by=-3600), _followed(clock, "print(1)", limit_s=60, by=3600)]


def _followed(clock: Clock, program: str, *, limit_s: float, by: int) -> tuple[bool, float]:
    command = (sys.executable, "-I", "-S", "-c", program)
    job = Job(name="job", request=b"", command=command, timeout_s=limit_s, grace_s=1)
    runner = ProcessRunner()
    ended = follow_to_end(runner, runner.submit(job), job, lambda _: clock.jump(by))
    return ended.timed_out, ended.seconds


def _leases(clock: Clock) -> list[bool]:
    """Whether a holder keeps its lease, and another does not get it, while the clock jumps."""
    store = MemoryStore("leases")
    hold = Waiter(store, "lease", new_lease("one", "one")).take()
    other = Waiter(store, "lease", new_lease("two", "two"))
    assert hold is not None
    kept = [other.take() is None]
    for by in (3600, -7200, 3600):
        clock.jump(by)
        kept.append(other.take() is None and hold.is_ours())
    return [*kept, hold.release()]


if __name__ == "__main__":
    main()
