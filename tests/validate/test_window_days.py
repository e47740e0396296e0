"""What validate says of a window depends on its days, and not on what was kept of nights before."""

import os
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.result import PublishedResult
from tasks.validate.data_date import check_data_date, check_earlier_days
from tasks.validate.days import window_days
from tasks.validate.history import measures
from tasks.validate.profile import Profile
from tasks.validate.rules import check_missing
from tasks.validate.window import check_deliveries
from tests.validate.references import reference
from tests.world import LAST, World, clicks, rows

ROWS, DAYS = 1200, 5


def odd(day: date, *, shift: float = 0.0) -> dict[str, Any]:
    """Rows with more values than a profile counts, values that come and go, and a price that drifts."""
    draw = np.random.default_rng(day.toordinal())
    found = rows(ROWS, day)
    return {
        **found,
        "shop": [f"shop {one}" for one in draw.integers(0, 2500, ROWS) + 5 * (day - LAST).days],
        "country": draw.choice(["DE", "FR", "US", f"new on {day}"], ROWS, p=[0.5, 0.3, 0.15, 0.05]).tolist(),
        "stuck": [1.0] * ROWS if day == LAST else draw.normal(size=ROWS).tolist(),
        "price": (draw.normal(10 + shift, 1 + (day.day % 3), ROWS)).tolist(),
    }


@pytest.fixture
def world(tmp_path: Path) -> World:
    return opened(tmp_path / "world")


def opened(folder: Path) -> World:
    columns = {
        "shop": {"role": "categorical", "type": "string"},
        "stuck": {"role": "numeric", "type": "float64", "min": -3},
    }
    made = clicks(
        folder,
        source={"window_days": DAYS},
        columns={**clicks(folder / "other").document["columns"], **columns},
        validate={"drift": {"against": "window"}, "volume": {"by": ["country"]}, "unique": [{"columns": ["shop"]}]},
    )
    for back in range(DAYS + 2):
        made.put(LAST - timedelta(days=back), odd(LAST - timedelta(days=back), shift=3.0 * (back == 0)))
    return made


def test_rules_say_the_same_of_briefs_as_of_profiles(world: World) -> None:
    ingest = world.run("ingest")
    snapshot = summaries.snapshot(ingest.result)
    with world.open(world.request("validate", inputs={"ingest": ingest})) as ctx:
        window = window_days(ctx, snapshot.days)
        whole, briefs = {day.day: window.profile(day.day) for day in snapshot.days}, window.briefs
        assert briefs.keys() == whole.keys()
        today = whole.pop(LAST)
        of_profiles = reference(window.total(whole).profile, "the window", whole)
        assert window.total(whole).first == of_profiles.first
        of_briefs = replace(of_profiles, days={day: briefs[day] for day in whole})
        checks, drifts = check_data_date(ctx, snapshot, today, of_profiles)
        assert check_data_date(ctx, snapshot, today, of_briefs) == (checks, drifts)
        failed = {check.rule for check in checks if not check.passed}
        assert failed >= {"drift", "constant", "unique"}, failed
        every = {**whole, LAST: today}
        assert check_earlier_days(briefs, LAST, ctx.spec) == check_earlier_days(every, LAST, ctx.spec)
        assert any(check_earlier_days(every, LAST, ctx.spec).values())
        assert check_missing(briefs, LAST, ctx.spec) == check_missing(every, LAST, ctx.spec)
        said = [check_deliveries(ctx.request.days, snapshot, days, LAST, ctx.spec) for days in (briefs, every)]
        assert said[0] == said[1]
        for name in today.columns:
            assert [*measures(name, briefs, ctx.spec)] == [*measures(name, every, ctx.spec)]


def night(world: World, day: date) -> PublishedResult:
    return world.run("validate", day, {"ingest": world.run("ingest", day)})


def said(world: World, found: PublishedResult) -> list[bytes]:
    outputs = found.result.outputs
    return [
        found.result.content.encode(),
        *(world.store.read(outputs[name].key) for name in ("reference", "page.html")),
    ]


def test_a_night_says_the_same_after_other_nights_in_any_order_and_after_corrections(tmp_path: Path) -> None:
    fresh, backwards = opened(tmp_path / "fresh"), opened(tmp_path / "backwards")
    for one in (fresh, backwards):
        del one.document["columns"]["stuck"]["min"]
        one.document["validate"] = {"drift": {"on_breach": "warn"}, "constants": "warn", "times": "warn"}
    right = backwards.put(LAST - timedelta(days=4), odd(LAST - timedelta(days=40))).read_bytes()
    for back in (2, 0):
        night(backwards, LAST - timedelta(days=back))
    (fresh.source / f"date={LAST - timedelta(days=4)}" / "part-0.parquet").write_bytes(right)
    assert said(fresh, night(fresh, LAST)) == said(backwards, night(backwards, LAST))
    for one in (fresh, backwards):
        one.put(LAST - timedelta(days=4), odd(LAST - timedelta(days=4)))
    assert said(fresh, night(fresh, LAST)) == said(backwards, night(backwards, LAST))


def test_a_profile_that_is_damaged_where_it_is_read_is_measured_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    del world.document["columns"]["stuck"]["min"]
    world.document["validate"] = {"drift": {"on_breach": "warn"}, "constants": "warn"}
    first = night(world, LAST)
    lose_profiles(world)
    assert said(world, night(world, LAST)) == said(world, first)
    snapshot = summaries.snapshot(world.run("ingest").result)
    write = Profile.model_dump_json
    with world.open(world.request("validate")) as ctx, monkeypatch.context() as patch:
        window = window_days(ctx, snapshot.days)
        lose_profiles(world)
        patch.setattr(Profile, "model_dump_json", lambda self, **named: write(self, **named) + " ")
        with pytest.raises(CorruptArtifact, match="measured again, its profile has other bytes"):
            assert window.profile(LAST) is None, "sums of it would be kept under the bytes of before"


def lose_profiles(world: World) -> None:
    """Each profile is damaged after the index has found it whole, and no sum is there."""
    place = paths.published("clicks", paths.day_part("validate"))
    for entry in [*world.store.list(place), *world.store.list(paths.published("clicks", "validate.sums"))]:
        path = world.store.local(entry.key)
        if path is not None and entry.key.endswith("/profile"):
            data, times = path.read_bytes(), path.stat()
            with path.open("r+b") as file:
                file.write(data[:50] + bytes([data[50] ^ 1]))
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        elif not entry.key.startswith(place):
            world.store.delete(entry.key)
