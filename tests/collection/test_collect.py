"""What a collection takes and what it leaves, of nights with the real code in memory."""

from collections.abc import Iterator

import pytest

from ratchet.collection.collector import Collected
from ratchet.contracts import outbox_paths, paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.fingerprint import digest, digest_of
from ratchet.contracts.result import Artifact
from ratchet.runs.history import plan_of
from ratchet.store.lease import Waiter, new_lease
from ratchet.store.ledger import append, records
from ratchet.store.publishing import Transaction, find_result
from tests.collection.village import FIRST, MODEL, NAME, PART, POLICY, Village
from tests.collection.village_rows import DAY
from tests.turned_times import turn_round


@pytest.fixture
def village() -> Iterator[Village]:
    with Village() as made:
        yield made


def kinds(found: list[Collected]) -> set[str]:
    return {kind for one in found for kind, _ in one.goes}


def nights(village: Village, count: int) -> list[str]:
    """A night on each date."""
    made = []
    for _ in range(count):
        made.append(village.night())
        village.clock.days += 1
    return made


def published(village: Village, stage: str) -> set[str]:
    return {paths.published_prefix(entry.key) for entry in village.store.list(paths.published(NAME, stage))}


def test_a_dry_run_changes_nothing_and_says_what_apply_then_deletes(village: Village) -> None:
    nights(village, 20)
    village.crash(FIRST)
    village.clock.days += 4
    before = list(village.store.list())
    said = village.collect(apply=False)
    assert list(village.store.list()) == before
    done = village.collect()
    assert [one.goes for one in done] == [one.goes for one in said]
    assert kinds(done) >= {"results of train", "results of features", f"parts of days: {PART}", "checkpoints of train"}
    freed = sum(each.bytes for one in done for each in one.goes.values())
    left = sum(entry.bytes for entry in village.store.list())
    assert freed == sum(entry.bytes for entry in before) - left > 0
    village.check()
    assert kinds(village.collect()) == set()


def test_runs_within_the_days_and_the_last_ones_stay_whole_and_others_keep_their_records(village: Village) -> None:
    runs = nights(village, 20)
    village.collect()
    assert {*village.runs()} == {*runs}
    gone = [run for run in runs if village.store.head(village.manifests(run)["train"]) is None]
    assert gone == runs[:11]
    assert all(village.store.head(paths.log(NAME, run, "train", 1)) is None for run in gone)
    village.clock.days += 30
    village.collect()
    assert {*village.runs()} == {*runs[-9:]}
    whole = [run for run in runs[-9:] if village.store.head(village.manifests(run)["train"]) is not None]
    assert whole == runs[-2:]


def test_the_last_runs_are_those_that_were_planned_last_in_a_copy_of_the_store(village: Village) -> None:
    runs = nights(village, 4)
    turn_round(village.store)
    village.clock.days += POLICY.results + 5
    village.collect()
    whole = [run for run in runs if village.store.head(village.manifests(run)["train"]) is not None]
    assert whole == runs[-POLICY.last :]
    assert {entry.key.split("/")[2] for entry in village.store.list(paths.alerts(NAME))} == {*runs[-9:]}
    village.clock.days += 100
    village.collect()
    assert {*village.runs()} == {*runs[-2:]}
    marks = [entry.key for entry in village.store.list(paths.nights(NAME))]
    assert [paths.last(key) for key in marks] == runs[-2:]
    village.check()


def test_what_the_ledger_names_stays_for_ever_also_what_a_rollback_may_go_back_to(village: Village) -> None:
    first, second, *_ = nights(village, 6)
    village.promote(first)
    village.promote(second)
    village.roll_back()
    village.clock.days += 400
    village.night()
    village.collect()
    assert published(village, "train") >= {
        paths.published_prefix(village.manifests(one)["train"]) for one in (first, second)
    }
    named = {key for record in records(village.store, MODEL) for key in record.manifests.values()}
    assert len(named) == 8
    village.check()


def test_the_next_night_makes_two_days_that_are_new_and_no_more_although_everything_else_went(village: Village) -> None:
    nights(village, 30)
    village.collect()
    before, days = published(village, PART), published(village, DAY)
    village.night()
    assert len(published(village, PART) - before) == len(published(village, DAY) - days) == 2


def test_the_manifests_of_days_of_the_snapshot_stay_and_rows_kept_for_another_model_go(village: Village) -> None:
    stage = paths.day_part("ingest")
    rows = Artifact(key=f"{paths.table(NAME, digest(b'1'))}/x.parquet", sha256=digest(b"r"), bytes=1)
    for name, files in (("day", {}), ("kept", {"day": b"rows"})):
        made = Transaction(village.store, paths.published(NAME, stage, digest(name.encode())), "a")
        for output, data in files.items():
            made.add_bytes(output, data)
        if not files:
            made.refer("rows.parquet", rows)
        made.commit(stage=stage, fingerprint=digest(name.encode()), parts={}, content=digest(b"c"))
    day = paths.published(NAME, stage, digest(b"day"))
    village.store.create(f"{day}/of-a-killed-attempt/rest", b"rest")
    village.store.create(
        paths.manifest_aside(paths.superseded(day), digest(b"0")), village.store.read(paths.manifest(day))
    )
    nights(village, 3)
    village.clock.days += 60
    village.night()
    village.collect()
    assert day in published(village, stage)
    assert paths.published(NAME, stage, digest(b"kept")) not in published(village, stage)
    assert village.store.head(f"{day}/of-a-killed-attempt/rest") is None


def test_the_winners_of_a_backfill_that_goes_on_stay_however_long_ago_they_won(village: Village) -> None:
    run = village.night(kind="backfill")
    manifests = village.manifests(run)
    place = paths.shadow(MODEL, "chain")
    append(village.store, village.change(run, manifests), after=0, place=place)
    nights(village, 6)
    for _ in range(20):
        village.clock.days += 5
        village.store.create(f"{place}/lost/{village.clock.days}", b"")  # as a sign that the chain is young
        village.collect()
    assert all(village.store.head(key) is not None for key in manifests.values())


def test_checkpoints_wait_while_a_training_may_run_and_parts_of_days_while_a_stage_that_takes_them_may(
    village: Village,
) -> None:
    nights(village, 20)
    village.crash(FIRST)
    village.clock.days += 4

    def collected_beside(stage: str) -> list[Collected]:
        hold = Waiter(village.store, paths.lease(NAME, stage, digest(b"now")), new_lease("run-x", "a")).take()
        assert hold is not None
        found = village.collect()
        hold.release()
        return found

    found = collected_beside("features")
    assert "features may run now; parts of days are left for the next time" in [one.left for one in found]
    assert "results of train" in kinds(found)
    assert f"parts of days: {PART}" not in kinds(found)
    village.crash(FIRST)
    village.clock.days += 4
    found = collected_beside("train")  # a training that runs at each collection lets nothing grow
    assert [one.left for one in found] == ["", ""]
    assert f"parts of days: {PART}" in kinds(found)
    assert "checkpoints of train" not in kinds(found)
    assert "checkpoints of train" in kinds(village.collect())
    village.check()


def test_files_of_an_attempt_under_way_stay_however_old_they_are(village: Village) -> None:
    nights(village, 1)
    village.crash(FIRST)
    key = paths.lease(NAME, "train", digest(f"{FIRST}".encode()))
    village.clock.days += 30
    hold = Waiter(village.store, key, new_lease("run-x", "a")).take()
    assert hold is not None
    before = published(village, "train")
    village.collect()
    assert published(village, "train") == before
    hold.release()


@pytest.mark.parametrize("of", ["manifest", "plan", "outcome", "ledger"])
def test_where_something_cannot_be_read_nothing_of_the_pipeline_goes_and_one_line_says_so(
    village: Village, of: str
) -> None:
    run = nights(village, 20)[-1]
    village.promote(run)
    key = {
        "manifest": village.manifests(run)["train"],
        "plan": paths.plan(NAME, run),
        "outcome": paths.outcome(NAME, run, "train"),
        "ledger": paths.record_below(paths.ledger(MODEL), 1),
    }[of]
    village.store.delete(key)
    village.store.create(key, b"{}")
    before = [entry.key for entry in village.store.list()]
    (found, shared) = village.collect()
    assert [entry.key for entry in village.store.list()] == before
    assert key in found.unchecked
    assert shared.left == "what they share is looked at when all pipelines can be"


def test_a_bundle_goes_when_no_plan_and_no_version_names_it(village: Village) -> None:
    village.night(code="old")
    village.clock.days += 1
    nights(village, 3)
    village.clock.days += 60
    found = village.collect()
    assert "bundles" in kinds(found)
    assert [entry.key for entry in village.store.list("bundles")] == [paths.bundle(digest(b"1"))]


def test_code_of_releases_and_messages_go_when_nothing_needs_them(village: Village) -> None:
    run = nights(village, 3)[-1]
    made = plan_of(village.store, NAME, run)
    assert made is not None
    named = paths.release(digest_of(made.code))
    for key in (named, paths.release("0" * 64), outbox_paths.message("here", "summary")):
        village.store.create(key, b"{}")
    village.clock.days += 60
    village.night()
    young = outbox_paths.message("here", "young")
    village.store.create(young, b"{}")
    found = village.collect()
    assert {"code of releases", "messages"} <= kinds(found)
    assert [entry.key for entry in village.store.list(paths.release())] == [named]
    assert [entry.key for entry in village.store.list(outbox_paths.EVERY)] == [young]


def test_sums_of_the_window_stay_when_the_newest_runs_are_a_few_of_a_narrow_window_by_hand(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.collection.village.WINDOW", 15)
    village.night()
    made = village._take("features.sums", "days that the next night reads", {"sum": "1"})
    village.clock.days += 8
    village.night()
    monkeypatch.setattr("tests.collection.village.WINDOW", 3)
    for number in range(POLICY.last + 1):
        village.night(run_id=f"narrow-{number}")
    village.collect()
    assert village.store.head(made.key) is not None
    village.clock.days += 30
    nights(village, 3)
    village.collect()
    assert village.store.head(made.key) is None


def test_an_engine_that_cannot_be_asked_for_its_images_is_said_and_the_rest_is_collected(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights(village, 20)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    *found, images = village.collect(POLICY.model_copy(update={"images": True}))
    assert (images.of, images.goes) == ("images of the engine here", {})
    assert "does not answer" in images.unchecked
    assert "results of train" in kinds(found)


def test_a_pipeline_that_the_store_does_not_have_is_refused(village: Village) -> None:
    nights(village, 1)
    from ratchet.collection.collector import Collector

    with pytest.raises(ConfigurationError, match="has no run of smal;"):
        Collector(village.store, None, POLICY, apply=False).collect(["smal"])


def test_a_version_whose_files_went_cannot_be_promoted(village: Village) -> None:
    first, *_ = nights(village, 20)
    manifests = village.manifests(first)
    village.collect()
    with pytest.raises(CorruptArtifact, match=r"manifest.json is gone"):
        village.promote(first)
    assert records(village.store, MODEL) == ()
    assert manifests["evaluate"] not in [entry.key for entry in village.store.list()]


def test_an_old_night_that_is_run_again_has_what_it_takes(village: Village) -> None:
    first, *_ = nights(village, 20)
    village.night(FIRST, run_id=first)
    village.collect()
    assert first in village.whole_runs()
    village.check()
    assert find_result(village.store, paths.published_prefix(village.manifests(first)["train"])) is not None
