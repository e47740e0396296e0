"""two-engines: workers are killed at random moments, each beside one of two Docker engines.

It counts the moments at which two containers of one fingerprint ran. Needs root, for the second engine.
"""

import logging
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Result
from ratchet.contracts import paths
from ratchet.runners.choice import stage_image
from tests.faults.second_engine import SecondEngine
from tests.faults.ticking import ticking
from tests.faults.trainings import Trainings, trainings
from tests.faults.two_engines import Kills, here, kill_again_and_again, seen

_LATEST_S = 2.0
_ROWS = 2000
_STEP_S = 0.1


def run(*, full: bool) -> Result:
    """Fifty kills for --full, else eight."""
    kills = 50 if full else 8
    logging.disable(logging.WARNING)
    engine, image = SecondEngine(Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))), stage_image(gpu=False)
    with tempfile.TemporaryDirectory(prefix="two-engines-") as folder:
        try:
            engine.take_image(image)
            engine.start()
            with trainings(Path(folder), image, model=ticking(_STEP_S), rows_per_day=_ROWS) as made:
                engines = (here(), engine.address)
                began = time.monotonic()
                with seen(made, *engines) as ran:
                    runs = list(_runs(made, engines, kills))
                took_s = time.monotonic() - began
                published = [one.key for one in made.store.list(paths.published("faulty", "train"))]
        finally:
            engine.clear()
    twice, results = ran.most_at_once - 1, sum(key == paths.manifest(paths.published_prefix(key)) for key in published)
    killed = sum(run.killed for run in runs)
    return Result(
        name="two-engines",
        ratio=max(twice, abs(results - len(runs))),
        goal=0,
        unit="containers of one fingerprint at once, beyond one",
        ours=twice,
        peer=killed,
        peer_name="workers killed",
        rows=(
            ("workers killed", str(killed)),
            ("containers killed, too", str(sum(run.containers_killed for run in runs))),
            ("tries that ended with 69", str(sum(run.waited for run in runs))),
            ("containers that ran, in how many engines", f"{ran.containers} in {ran.engines}"),
            ("most of them at one moment", str(ran.most_at_once)),
            ("runs, and their results", f"{len(runs)}, {results}"),
            ("seconds", f"{took_s:.0f}"),
        ),
    )


def _runs(made: Trainings, engines: tuple[str, str], kills: int) -> Iterator[Kills]:
    """Runs of which each computes something else, until so many workers are killed."""
    left = kills
    while left > 0:
        settings: dict[str, Any] = {"train.batch_size": 64, "train.epochs": max(2, kills // 6), "train.seed": left}
        plan = made.plan(f"killed-{left}", **settings)
        made.prepare(plan)
        done = kill_again_and_again(made, plan, engines, kills=left, latest_s=_LATEST_S, seed=left)
        left -= done.killed
        yield done
