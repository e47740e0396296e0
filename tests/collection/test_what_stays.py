"""Alerts that are about no run, checkpoints that are read meanwhile, and a pipeline without a plan."""

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta

import pytest

from ratchet.contracts import left_paths, outbox_paths, paths
from ratchet.runs.history import rebuild_plan, report_of
from ratchet.runs.standstill import only_removal
from ratchet.store.lease import new_lease
from ratchet.store.process import Process
from ratchet.store.publishing import Transaction, find_result
from ratchet.store.sealed import seal
from tests.collection.test_collect import kinds, nights
from tests.collection.village import FIRST, NAME, POLICY, Village


@pytest.fixture
def village() -> Iterator[Village]:
    with Village() as made:
        yield made


def test_alerts_that_are_about_no_run_stay_as_long_as_records_of_runs(village: Village) -> None:
    """As of a DAG that is paused: without them, it would be reported again after each collection."""
    about = [paths.alert(NAME, f"{of}-{NAME}", "event") for of in ("production", "night", "days")]
    for key in about:
        village.store.create(key, b"{}")
    nights(village, 3)
    village.clock.days += POLICY.runs - 4
    village.collect()
    assert {*about} <= {entry.key for entry in village.store.list(paths.alerts(NAME))}
    village.clock.days += 2
    village.collect()
    assert not {*about} & {entry.key for entry in village.store.list(paths.alerts(NAME))}


def test_old_alerts_that_are_about_no_run_go_although_newer_ones_come(village: Village) -> None:
    """As of nights that were missing, which all lie in one place."""
    place = f"night-{NAME}"
    for number in range(5):
        village.store.create(paths.alert(NAME, place, f"event-{number}"), b"{}")
        nights(village, 1)
        village.clock.days += POLICY.runs / 2
        village.collect()
    assert [paths.last(entry.key) for entry in village.store.list(paths.alerts(NAME, place))] == ["event-4.json"]


def test_checkpoints_stay_of_a_training_that_begins_again_while_they_are_deleted(village: Village) -> None:
    nights(village, 1)
    village.crash(FIRST)
    village.clock.days += 4
    before = [entry.key for entry in village.store.list("checkpoints")]
    origin = next(key for key in before if key.endswith("/origin.json"))

    def begin_again() -> None:
        """As `StoreCheckpointFolder.names` does."""
        entry = village.store.head(origin)
        assert entry is not None
        assert village.store.replace(origin, b'{"again": 1}', expected=entry.etag)

    with village.meanwhile(1, begin_again, "delete"):
        found = village.collect()
    assert [entry.key for entry in village.store.list("checkpoints")] == before
    assert sum(each.objects for one in found for (kind, _), each in one.goes.items() if "checkpoints" in kind) == 0
    village.clock.days += 4
    assert "checkpoints of train" in kinds(village.collect())
    assert list(village.store.list("checkpoints")) == []


def test_a_pipeline_of_which_only_a_mark_is_there_holds_up_no_other(village: Village) -> None:
    """As where its first run could not be planned, and it was never tried again."""
    village.store.create(paths.night("tried-once", FIRST, "a-run"), b"")
    village.night(code="old")
    nights(village, 2)
    found = village.collect()
    assert [one.unchecked or one.left for one in found] == ["", "", ""]
    assert [entry.key for entry in village.store.list(paths.nights("tried-once"))] != []
    village.clock.days += 60
    nights(village, 3)
    found = village.collect()
    assert [one.unchecked or one.left for one in found] == ["", "", ""]
    assert {"marks of dates", "bundles"} <= kinds(found)
    assert [entry.key for entry in village.store.list(paths.nights("tried-once"))] == []
    assert [one.pipeline for one in village.collect()] == [NAME, ""]


def test_the_records_of_a_run_that_the_ledger_names_stay_although_its_plan_is_lost(village: Village) -> None:
    """As after a restore that was not whole. Of a run that no ledger names, they are what a kill has left."""
    promoted, other = village.night(), village.night()
    village.promote(promoted)
    village.clock.days += POLICY.grace + 1
    nights(village, 1)
    for run_id in (promoted, other):
        assert village.store.delete(paths.plan(NAME, run_id))
    village.collect()
    left = {entry.key.split("/")[2] for entry in village.store.list(paths.runs(NAME))}
    assert (promoted in left, other in left) == (True, False)


def test_the_answer_of_a_rebuild_stays_as_long_as_records_of_runs(village: Village) -> None:
    """Its run has no plan, as one that crashed before it was planned."""
    answer = paths.kept(NAME, "reproduction-20261128T020000-abcdef", paths.REPRODUCTION, "report.json")
    begun = rebuild_plan(NAME, "reproduction-20261128T030000-abcdef")  # one that was given up
    crashed = paths.kept(NAME, "run-crashed", "ingest", "validation.json")
    for key in (answer, begun, crashed):
        village.store.create(key, b"{}")
    nights(village, 3)
    village.clock.days += POLICY.runs - 4
    village.collect()
    assert village.store.head(answer) is not None
    assert village.store.head(crashed) is None
    village.clock.days += 2
    village.collect()
    assert village.store.head(answer) is None
    assert village.store.head(begun) is None


def test_what_a_rebuild_has_computed_stays_while_its_training_takes_longer_than_the_grace(village: Village) -> None:
    """No record names it. It goes once the rebuild has its answer, or has begun longer ago than any goes on for."""
    nights(village, 3)
    runs = [f"reproduction-20261128T03000{number}-abcdef-1-01234567.here" for number in range(2)]
    prefixes = [paths.published(NAME, "features", str(number) * 64) for number in range(2)]
    for run, prefix in zip(runs, prefixes, strict=True):
        village.store.create(rebuild_plan(NAME, run), b"{}")
        Transaction(village.store, prefix, "a").commit(
            stage="features", fingerprint=prefix[-64:], parts={"reproduction": run}, content=prefix[-64:], summary={},
            metrics={}, timings={}, environment=None,
        )  # fmt: skip
    village.clock.days += POLICY.grace + 1
    nights(village, 1)
    village.collect()
    assert None not in [find_result(village.store, prefix) for prefix in prefixes]
    for run in runs:
        village.store.create(report_of(NAME, run), b"{}")
    village.collect()
    assert [find_result(village.store, prefix) for prefix in prefixes] == [None, None]


def test_the_logs_of_a_rebuild_go_with_the_results_as_those_of_a_night(village: Village) -> None:
    run = "reproduction-20261128T020000-abcdef"
    answer = paths.kept(NAME, run, paths.REPRODUCTION, "report.json")
    log = paths.log(NAME, run, "train", 1)
    for key in (answer, log):
        village.store.create(key, b"{}")
    nights(village, 3)
    village.clock.days += POLICY.results - 4
    village.collect()
    assert village.store.head(log) is not None
    village.clock.days += 2
    village.collect()
    assert village.store.head(log) is None
    assert village.store.head(answer) is not None


@pytest.mark.parametrize("case", ["a pipeline cannot be read", "a run is planned meanwhile"])
def test_old_messages_go_by_their_age_whatever_pipelines_do(village: Village, case: str) -> None:
    old = (outbox_paths.message("here", "summary"), left_paths.why(left_paths.left("here", "engine", "attempt")))
    backup = outbox_paths.presence("here", outbox_paths.BACKUP)
    for key in (*old, backup):
        village.store.create(key, b"{}")
    run = nights(village, 3)[-1]
    village.clock.days += 60
    if case == "a pipeline cannot be read":
        key = paths.plan(NAME, run)
        village.store.delete(key)
        village.store.create(key, b"damaged")
    else:
        nights(village, 3)
    young = outbox_paths.message("here", "young")
    village.store.create(young, b"{}")
    meanwhile = village.meanwhile(1, village.night, "delete") if case != "a pipeline cannot be read" else nullcontext()
    with meanwhile:
        found = village.collect()
    assert bool(found[-1].left) == (case == "a pipeline cannot be read")
    assert {"messages", "what followers of hosts have said"} <= kinds(found)
    assert [*map(village.store.head, old)] == [None, None]
    assert village.store.head(backup) is not None  # without it the watch would no longer say that it is old
    assert village.store.head(young) is not None


def test_where_a_run_is_planned_during_each_collection_what_pipelines_share_goes_all_the_same(village: Village) -> None:
    old = f"{paths.FIRST[0]}/old.tar"
    village.store.create(old, b"")
    nights(village, 3)
    village.clock.days += 60
    nights(village, 3)
    made: list[str] = []
    with village.meanwhile(1, lambda: made.append(village.night()), "delete"):
        found = village.collect()
    assert village.runs()[0] == made[0]
    assert not found[-1].left
    assert village.store.head(old) is None
    assert all(village.store.head(bundle) is not None for _, bundle in village.bundles())


@pytest.mark.parametrize("begins", ["before", "meanwhile"])
def test_what_a_run_has_found_that_is_being_planned_stays(village: Village, begins: str) -> None:
    """Its mark is written before its plan, and a bundle that is there is not written again."""
    old = village.night(code="9")
    bundle = dict(village.bundles())[old]
    village.store.delete(paths.plan(NAME, old))
    nights(village, 3)
    village.clock.days += 60
    nights(village, 3)
    day, planned = FIRST + timedelta(days=70), list[str]()
    mark = paths.night(NAME, day, "slow")

    def meanwhile() -> None:
        village.store.create(mark, b"")
        if begins == "before":
            planned.append(village.night(day, run_id="slow", code="9"))

    if begins == "before":
        village.store.create(mark, b"")
    with village.meanwhile(1, meanwhile, "delete"):
        found = village.collect()
    assert village.store.head(bundle) is not None
    assert bool(found[-1].left) == (begins == "meanwhile")
    if not planned:
        village.night(day, run_id="slow", code="9")
        assert not village.collect()[-1].left
    assert all(village.store.head(one) is not None for _, one in village.bundles())


def test_a_collection_follows_one_whose_host_has_died(village: Village, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its container was replaced: nobody sees that its process is dead, and its lease stays."""
    monkeypatch.setattr("ratchet.store.lease.STALE_S", 0.2)
    nights(village, 20)
    dead = new_lease("removal-1 by ratchet gc", "removal-1").model_copy(
        update={"process": Process(host="another container", pid=1, started=1)}
    )
    village.store.create(paths.lease(NAME, "removal", "rows"), seal(dead))
    found = village.collect()
    assert [one.unchecked for one in found] == ["", ""]
    assert "results of train" in kinds(found)
    assert list(village.store.list(paths.leases(NAME))) == []


def test_a_collection_leaves_a_pipeline_whose_rows_a_living_process_holds(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.store.lease.BEAT_S", 0.2)
    nights(village, 20)
    before = list(village.store.list(paths.published(NAME)))
    with only_removal(village.store, NAME, "Ada", wait_s=0):
        (found, _) = village.collect()
    assert f"by Ada holds the rows of {NAME}" in found.unchecked
    assert list(village.store.list(paths.published(NAME))) == before
