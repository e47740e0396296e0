"""Tasks that share the days of a stage: they make parts of days, and nothing that a run or a later stage reads."""

from importlib import import_module
from pathlib import Path

import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.fingerprint import fingerprint
from ratchet.contracts.request import StageRequest
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import STAGES, Stage, stage_module
from ratchet.runtime.parts_index import indexed_parts
from tests.world import LAST, World, clicks

VERBS = {"ingest": "ingested", "validate": "profiled", "features": "encoded"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = clicks(tmp_path, validate={"drift": None, "volume": None})
    made.put_window()
    return made


def shared(request: StageRequest) -> StageRequest:
    parts = {**request.parts, "share": "1"}
    return request.model_copy(update={"share": 1, "parts": parts, "fingerprint": fingerprint(parts)})


def test_a_stage_finds_what_its_shares_have_made_and_gives_the_same(world: World, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    alone = clicks(tmp_path / "alone", validate={"drift": None, "volume": None})
    alone.put_window()
    results: dict[Stage, PublishedResult] = {}
    expected: dict[Stage, PublishedResult] = {}
    for stage in STAGES[:3]:
        request = world.request(stage, LAST, results)
        with world.open(shared(request)) as ctx:
            share = ctx.commit(import_module(stage_module(stage)).run(ctx))
        assert share.result.summary == {"days": 3}
        assert share.result.outputs == {}
        index = paths.parts_index("clicks", paths.day_part(stage))
        assert indexed_parts(world.store, index) == [], "what was used last is the stage's to say"
        made = world.log.getvalue()
        assert made.count(f"{VERBS[stage]} 60 rows of") == 3
        results[stage] = world.finish(request)[1]
        expected[stage] = alone.run(stage, LAST, expected)
        assert VERBS[stage] not in world.log.getvalue().removeprefix(made), "the stage itself makes none"
        assert results[stage].result.content == expected[stage].result.content
    assert len(summaries.features(results["features"].result).days) == 3
