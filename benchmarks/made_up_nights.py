"""Nights of made-up days in a store that is a folder: ingest, validate and features in this process, as tests do."""

from datetime import date, timedelta
from pathlib import Path

from benchmarks.made_up_day import COLUMNS, write_day
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import STAGES, Stage
from tests.world import World, clicks

LAST = date(2026, 11, 20)


def world_of(folder: Path, *, window: int, rows: int, more: int = 0) -> World:
    """A pipeline whose source has the days of a window up to LAST, and more before them. Days that are there stay."""
    world = clicks(folder, source={"window_days": window}, columns=COLUMNS)
    for back in range(window + more):
        path = source_file(world, LAST - timedelta(days=back))
        if not path.exists():
            write_day(path, rows, seed=back)
    return world


def source_file(world: World, day: date) -> Path:
    """Where the rows of a day are. Its folder is made."""
    path = world.source / f"date={day}" / "part-0.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def night(world: World, day: date, until: Stage = "features") -> None:
    """Run the stages of a night up to one of them."""
    found: dict[Stage, PublishedResult] = {}
    for stage in STAGES[: STAGES.index(until) + 1]:
        found[stage] = world.run(stage, day, found)
