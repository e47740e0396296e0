"""What is fitted on a window depends on its days, and not on what was kept of nights before."""

from datetime import timedelta
from pathlib import Path

import numpy as np

from ratchet.contracts import paths
from tasks.features.quantiles import KEPT, POINTS, add_summaries, edges, summarise
from tests.world import LAST, World, clicks, rows

DAYS, ROWS = 5, 60


def opened(folder: Path) -> World:
    made = clicks(folder, source={"window_days": DAYS})
    for back in range(DAYS + 2):
        day = LAST - timedelta(days=back)
        draw = np.random.default_rng(back)
        made.put(day, {**rows(ROWS, day), "price": draw.normal(size=ROWS).tolist()})
    return made


def fitted(world: World, back: int = 0) -> bytes:
    day = LAST - timedelta(days=back)
    ingest = world.run("ingest", day)
    validate = world.run("validate", day, {"ingest": ingest})
    found = world.run("features", day, {"ingest": ingest, "validate": validate})
    return world.store.read(found.result.outputs["fitted"].key)


def test_a_night_is_fitted_the_same_after_other_nights_and_with_nothing_kept(tmp_path: Path) -> None:
    fresh, warm = opened(tmp_path / "fresh"), opened(tmp_path / "warm")
    fitted(warm, back=2)
    first = fitted(warm)
    assert first == fitted(fresh)
    kept = list(warm.store.list(paths.published("clicks", "features.sums")))
    assert len(kept) >= 2
    for entry in kept:
        assert warm.store.delete(entry.key)
    assert fitted(warm) == first


def test_quantiles_of_a_year_are_within_what_is_promised() -> None:
    draw = np.random.default_rng(3)
    days = [draw.normal(size=1024) ** 3 for _ in range(64)]
    parts = [summarise(values, 0, None) for values in days]
    of_days = parts
    while len(parts) > 1:
        parts = [add_summaries(parts[place : place + 2]) for place in range(0, len(parts), 2)]
    (whole,) = parts
    assert len(whole) <= KEPT + 2
    assert whole[:, 2].sum() == 64 * 1024
    assert whole[[0, -1], 1].tolist() == [min(part[0, 1] for part in of_days), max(part[-1, 1] for part in of_days)]
    every = np.sort(np.concatenate(days))
    ranks = np.searchsorted(every, edges([whole], 0, 48)[1:-1]) / len(every)
    thinned = 4  # of 8, 16, 32 and 64 days
    assert np.abs(ranks - np.arange(1, 48) / 48).max() <= 0.5 / POINTS + thinned * 0.5 / KEPT + 1 / len(every)


def test_few_days_lose_no_value() -> None:
    draw = np.random.default_rng(3)
    days = [summarise(np.round(draw.normal(size=700), 1), 2, None) for _ in range(5)]
    whole = add_summaries([add_summaries(days[:2]), add_summaries(days[2:])])
    assert np.array_equal(whole, add_summaries(days))
    assert np.array_equal(edges([whole], 2, 7), edges(days, 2, 7))
