"""Further sources in the plan of a run, in what a stage may see, and in the wait for a day."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.loading import load
from ratchet.contracts.request import RunPlan, StageRequest
from ratchet.runs.jobs import job_for
from ratchet.runs.planning import make_plan
from ratchet.runs.preview import preview
from ratchet.runs.replanning import current_plan, source_changed
from ratchet.runs.requests import compose
from tasks.keeping.purge import purge
from tests.ingest.test_joins import D0, D1, D2, HOUR, NOON, filled, ingest, put_users
from tests.runs.test_requests import OUTCOMES
from tests.world import LAST, World


def planned_run(world: World, *, publish: bool = False) -> tuple[RunPlan, StageRequest]:
    """The plan of a run, and the request for its ingest."""
    folder = world.folder / "pipeline"
    (folder / "pipeline.yaml").write_text(json.dumps(world.document))
    made = make_plan(
        folder=folder, spec=load(folder), data_date=LAST, run_id="r", kind="local", store_uri=world.store.uri, publish=publish
    )  # fmt: skip
    return made, compose(world.store, made, "ingest", {}, "a")


def test_a_plan_names_the_days_that_would_be_joined_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = filled(tmp_path)
    planned_run(world)
    asked = {"folder": world.folder / "pipeline", "data_date": LAST, "store_uri": world.store.uri, "tracking_uri": None}
    first = preview(spec=world.spec, **asked)
    assert (len(first.new), first.joined) == (3, ())
    ingest(world)
    assert preview(spec=world.spec, **asked).joined == ()
    put_users(world, D1, [("a", 1, NOON - timedelta(days=1, hours=1), "corrected", 5)])
    changed = preview(spec=world.spec, **asked)
    assert (changed.joined, changed.changed, changed.new) == ((D1, D2), (), ())


def test_a_stage_sees_what_its_further_sources_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the main source, that of a database, its variable, and the host of another database."""
    world = filled(tmp_path)
    database = tmp_path / "db" / "users.duckdb"
    database.parent.mkdir()
    duckdb.connect(str(database)).close()
    monkeypatch.setenv("RATCHET_SOURCE_USERS", f"duckdb:///{database}")
    monkeypatch.setenv("RATCHET_SOURCE_SHOP", "postgresql+psycopg://me:hunter2@shop-db/x")
    query = "select * from users where day = :date"
    users = {"kind": "sql", "uri": "${RATCHET_SOURCE_USERS}", "query": query}
    shops = {"kind": "sql", "uri": "${RATCHET_SOURCE_SHOP}", "query": query}
    join = world.document["joins"]["users"]
    world.document["joins"] = {
        "users": {**join, "source": users, "columns": ["plan"]},
        "shops": {**join, "source": shops, "columns": ["seats"]},
    }
    made, request = planned_run(world)
    job = job_for(request, world.store, "image")
    assert {mount.path: mount.read_only for mount in job.mounts} == {
        str(tmp_path / "store"): False, str(world.source): True, str(database.parent): True,
    }  # fmt: skip
    secrets = json.loads(job.secrets["environment.json"])
    assert {"RATCHET_SOURCE_USERS", "RATCHET_SOURCE_SHOP"} <= {*secrets}
    assert job.network == "bridge"
    assert "hunter2" not in made.model_dump_json() + request.model_dump_json()
    parts = {name for name in request.parts if name.startswith(("joins.", "config.joins"))}
    assert {"joins.users.2026-11-20", "joins.shops.2026-11-17", "config.joins.users.within"} <= parts
    validate = compose(world.store, made, "validate", {"ingest": OUTCOMES["ingest"]}, "a")
    assert "environment.json" not in job_for(validate, world.store, "image").secrets
    monkeypatch.setenv("RATCHET_SOURCE_ROOTS", str(world.source))
    with pytest.raises(ConfigurationError, match=r"^joins\.users\.source\.uri: .* is outside of the folders"):
        job_for(request, world.store, "image")


def test_a_run_waits_for_the_day_of_a_further_source_that_may_not_lack_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = filled(tmp_path, source={"missing_days": "fail"})
    (tmp_path / "users" / str(D0)).mkdir()
    put_users(world, D0, [])
    shutil.rmtree(tmp_path / "users" / str(LAST))
    world.document["source"]["wait"] = "1h"
    made, _ = planned_run(world)
    world.store.create(paths.plan("clicks", "r"), made.model_dump_json(by_alias=True).encode())
    said: list[str] = []

    def deliver(_: float) -> None:
        put_users(world, LAST, [("a", 1, NOON - HOUR, "late", 1)])

    now = current_plan(
        world.store, made, failed=False, on_event=lambda event: said.append(event.message), pause=deliver
    )
    assert said[0].startswith("joins.users: the source has no files for 2026-11-20 yet; waiting at most ")
    assert said[1] == "the source has changed; planned again: 2026-11-20"
    assert not now.joins["users"].days[-1].missing
    assert not source_changed(now)
    put_users(world, D1, [("a", 1, NOON, "corrected", 1)])
    assert source_changed(now)


def test_no_rows_are_purged_by_a_joined_column(tmp_path: Path) -> None:
    world = filled(tmp_path)
    planned_run(world, publish=True)
    with pytest.raises(ConfigurationError, match=r"'plan' is joined from joins\.users: .* would not last") as caught:
        purge(world.store, "clicks", "plan", ["free"], by="me", because="asked", do=True)
    assert caught.value.remedy.endswith("it has user_id, region, shown_at, price, clicked")
