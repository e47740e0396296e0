"""pages: the page of a pipeline's nights with 10,000 runs, by the clock and by its calls to the store."""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from benchmarks.measure import Result, seconds
from ratchet.checkout import PIPELINES
from ratchet.contracts import paths
from ratchet.contracts.environment import variable
from ratchet.outbox.lost_letters import lost_letters
from ratchet.runs.history import days_of, plan_of, runs_of
from ratchet.runs.history_page import page
from ratchet.runs.index_document import rebuilt
from ratchet.runs.run_index import nights, note_end
from ratchet.samples.clicks import write
from ratchet.store.file import FileStore

_PIPELINE = "search-ranking"
_DAY = date(2026, 3, 20)
_DATES = 365
_LIMIT_S, _LIMIT_CALLS = 0.3, 5
_SMALL = ("source.window_days=4", "train.epochs=1", "validate.drift=null")


class Counted(FileStore):
    """A folder store that counts what is asked of it from outside."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.calls: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if name in {"read", "list", "head", "create", "replace", "delete"}:
            self.calls[name] += 1
        return super().__getattribute__(name)


def run(*, full: bool) -> Result:
    """Make one real night, repeat its records for each run of a year, and show the page of them all."""
    count = 10_000 if full else 2_000
    with tempfile.TemporaryDirectory(prefix="ratchet-pages-") as folder:
        home = Path(folder)
        _night(home)
        store = Counted(home / "store")
        _repeat(store, count)
        without = seconds(lambda: rebuilt(store, _PIPELINE))
        asked = sum(store.calls.values())
        plan = plan_of(store, _PIPELINE, runs_of(store, _PIPELINE, _DAY)[-1])
        assert plan is not None
        note_end(store, plan)
        size = len(store.read(paths.run_index(_PIPELINE)))
        note = seconds(lambda: note_end(store, plan))
        took, calls = [], 0
        for _ in range(5):
            store.calls.clear()
            took.append(seconds(lambda: _page(store)))
            calls = sum(store.calls.values())
        dates = len(days_of(store, _PIPELINE))
        if len(nights(store, _PIPELINE)) != dates:
            raise RuntimeError("the page lacks dates")
    best = min(took)
    return Result(
        name="pages",
        ratio=max(best / _LIMIT_S, calls / _LIMIT_CALLS),
        goal=1.0,
        unit="of what is allowed, in seconds or in calls",
        ours=best,
        peer=without,
        peer_name="reading the records of all runs",
        rows=(
            ("runs", f"{count:,} on {dates} dates"),
            ("the page", f"{best * 1000:.0f} ms, {calls} calls to the store"),
            ("from the records of all runs", f"{without:.1f} s, {asked:,} calls"),
            ("a run writes its line", f"{note * 1000:.0f} ms, a document of {size / 1000:.0f} kB"),
        ),
    )


def _page(store: Counted) -> str:
    """As Airflow's server makes it."""
    lost = [letter.title for letter in lost_letters(store, "here", _PIPELINE)]
    return page(_PIPELINE, nights(store, _PIPELINE, follow=False), undelivered=lost)


def _night(home: Path) -> None:
    for _ in write(home / "data", days=4, rows_per_day=300, end=_DAY, seed=0):
        pass
    sets = [word for each in _SMALL for word in ("--set", each)]
    subprocess.run(
        [
            *(sys.executable, "-m", "ratchet.cli.main", "run", str(PIPELINES / _PIPELINE), "--runner", "process"),
            *("--store", str(home / "store"), "--date", f"{_DAY}", *sets),
        ],
        env={**os.environ, variable("data"): str(home / "data")},
        stdout=subprocess.DEVNULL,
        check=False,  # whatever its verdict is
    )


def _repeat(store: Counted, count: int) -> None:
    """Write the records of the night again for each run, straight to the disk."""
    (run_id,) = runs_of(store, _PIPELINE, _DAY)
    files = (store.root / paths.run(_PIPELINE, run_id)).glob("*.json")
    records = {path.name: path.read_text(encoding="utf-8") for path in files}
    for number, day in zip(range(1, count), _dates(), strict=False):
        name = f"scheduled-{number:06d}"
        folder = store.root / paths.run(_PIPELINE, name)
        folder.mkdir(parents=True)
        for file, text in records.items():
            changed = text.replace(run_id, name).replace(f'"data_date": "{_DAY}"', f'"data_date": "{day}"')
            (folder / file).write_text(changed, encoding="utf-8")
        mark = store.root / paths.night(_PIPELINE, day, name)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    store.delete(paths.run_index(_PIPELINE))


def _dates() -> Iterator[date]:
    number = 0
    while True:
        yield _DAY - timedelta(days=number % _DATES)
        number += 1
