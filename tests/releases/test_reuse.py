"""What today's release makes again of what an earlier one has made: the table in docs/operations.md, by the corpus."""

import tarfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from ratchet.contracts import data_versions
from ratchet.contracts.loading import load
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import RunPlan
from ratchet.contracts.stages import Stage
from ratchet.runs.history import days_of, plan_of, runs_of
from ratchet.runs.outcomes import outcomes
from ratchet.runs.planning import make_plan
from ratchet.runs.preview import preview
from ratchet.runs.requests import compose
from ratchet.runtime.held_days import read_index
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet.store.publishing import find_result
from tests.releases.test_corpus import HERE, RELEASES

NEXT = date(2026, 3, 17)
STAGES: tuple[Stage, ...] = ("ingest", "validate", "features", "train")
"""Of the later ones, the results depend on MLflow's registry, which the corpus does not have."""


@dataclass(frozen=True)
class Installation:
    """An installation of an earlier release, at another place."""

    folder: Path
    spec: PipelineSpec
    store: Store

    def runs(self) -> list[RunPlan]:
        days = days_of(self.store, "shop")
        found = [plan_of(self.store, "shop", run_id) for day in days for run_id in runs_of(self.store, "shop", day)]
        return [plan for plan in found if plan is not None and plan.as_of == "now"]

    def planned(self, day: date) -> RunPlan:
        """The plan of a run of today's release, as it is read from a store."""
        made = make_plan(
            folder=self.folder / "shop", spec=self.spec, data_date=day, run_id="today", kind="local",
            store_uri=self.store.uri, publish=False,
        )  # fmt: skip
        return RunPlan.model_validate_json(made.model_dump_json(by_alias=True))


@pytest.fixture(scope="module", params=RELEASES)
def before(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(HERE / f"{request.param}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    file = folder / "shop" / "pipeline.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("/srv/example", f"{folder}"), encoding="utf-8")
    return Installation(folder, load(folder / "shop"), open_store(str(folder / "store")))


def test_a_day_is_read_again_only_where_the_version_of_rows_has_risen(before: Installation) -> None:
    seen = preview(
        folder=before.folder / "shop", spec=before.spec, data_date=NEXT, store_uri=before.store.uri, tracking_uri=None
    )
    known = read_index(before.store, before.spec).days
    assert len(known) >= 3
    older = tuple(day for day in sorted(known) if known[day].version != data_versions.ROWS)
    assert (seen.new, seen.changed, seen.missing) == ((NEXT,), older, ())


def test_of_a_stage_nothing_but_its_code_and_libraries_is_another_part_than_before(before: Installation) -> None:
    for earlier in before.runs():
        ended, today = outcomes(before.store, "shop", earlier.run_id), before.planned(earlier.data_date)
        for stage in (stage for stage in STAGES if stage in ended and ended[stage].result is not None):
            result = ended[stage].result
            assert result is not None
            now, then = compose(before.store, today, stage, ended, "a").parts, result.parts
            other = {name for name in {*now, *then} if now.get(name) != then.get(name)}
            assert not {name for name in other if not name.startswith("code.") and name != "libraries"}, stage


def test_a_stage_of_which_no_module_has_changed_is_not_made_again(before: Installation) -> None:
    """As if today's release had changed no module and no library: with those that the earlier one had on record."""
    found = []
    for earlier in before.runs():
        ended = outcomes(before.store, "shop", earlier.run_id)
        today = before.planned(earlier.data_date)
        pins = today.pins.model_copy(update={"libraries": earlier.pins.libraries})
        today = today.model_copy(update={"code": earlier.code, "pins": pins})
        for stage in STAGES:
            if stage in ended and ended[stage].result is not None and not earlier.upgrades:
                request = compose(before.store, today, stage, ended, "a")
                found.append((stage, find_result(before.store, request.prefix) is not None))
    assert {*found} >= {(stage, True) for stage in STAGES}
    assert all(reused for _, reused in found), found
