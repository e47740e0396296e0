"""A document that needs another release, at each place that decides: nothing is deleted, moved, cut, or decided."""

import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import OtherRelease, RatchetError
from ratchet.contracts.request import Outcome
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.run_index import RunIndex
from ratchet.production.accept_loss import accept_loss
from ratchet.production.reconcile import reconcile
from ratchet.production.request_parts import live_parts, was_replaced
from ratchet.runs import reaping
from ratchet.runs.accumulation import double_micro_batches
from ratchet.runs.compared import compare_all
from ratchet.runs.history import is_local
from ratchet.runs.parents import find_parent
from ratchet.runs.run_index import nights, note_end, note_plan
from ratchet.runtime.held_days import table_of
from ratchet.store import lease
from ratchet.store.base import Store
from ratchet.store.lease import Waiter, holder_of, new_lease
from ratchet.store.ledger import append
from ratchet.store.ledger_cut import cut_to_whole
from ratchet.store.memory import MemoryStore
from ratchet.store.publishing import Transaction, discard_damaged, read_manifest
from ratchet.store.removals import removals
from ratchet.store.renewal import renew
from ratchet.store.sealed import seal
from tasks.keeping.expire import expire
from tests.collection.village import MODEL, NAME, Village
from tests.keeping.test_purge import _newest, do, made
from tests.releases.another import NEEDS, state, write
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import DAY, plan
from tests.store.test_ledger import change
from tests.waiting import until
from tests.world import LAST, World

SAID = "written by Ratchet 9.9 or newer and needs tides"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def nothing_changes(store: Store, act: Callable[[], object]) -> None:
    """The act raises OtherRelease, and all files are as they were."""
    before = state(store)
    with pytest.raises(OtherRelease, match=SAID):
        act()
    assert state(store) == before


def published(store: Store) -> PublishedResult:
    transaction = Transaction(store, paths.published("shop", "train", "f" * 64), "a")
    transaction.add_bytes("weights", b"0123456789")
    return transaction.commit(stage="train", fingerprint="f" * 64, parts={}, content="c" * 64)


def test_a_result_is_not_moved_aside_renewed_or_replaced(store: MemoryStore) -> None:
    found = published(store)
    write(store, found.key, NEEDS)
    prefix = paths.published_prefix(found.key)
    nothing_changes(store, lambda: discard_damaged(store, prefix))
    long_ago = found.result.model_copy(update={"finished": found.result.finished - timedelta(days=9)})
    nothing_changes(store, lambda: renew(store, found.model_copy(update={"result": long_ago})))
    before, ours = state(store), Transaction(store, prefix, "b")
    ours.add_bytes("weights", b"another")
    with pytest.raises(OtherRelease):
        ours.commit(stage="train", fingerprint="f" * 64, parts={}, content="d" * 64, rebuild=True)
    ours.abandon()  # nobody can say what the manifest names: all stays
    assert state(store).items() >= before.items()
    (compared,) = compare_all(store, "shop")
    assert (compared.damaged, SAID in compared.unread) == ([], True)


@pytest.mark.parametrize("name", ["record", "head"])
def test_a_ledger_is_not_cut_and_decides_nothing(store: MemoryStore, name: str) -> None:
    for number in range(2):
        append(store, change(str(number + 1), number + 1), after=number)
    model = "ranker"
    place = paths.ledger(model)
    write(store, paths.record_below(place, 2) if name == "record" else paths.head_below(place), NEEDS)
    made = plan()
    spec = made.spec.model_copy(
        update={
            "register_": made.spec.register_.model_copy(update={"model": model}),
            "train": made.spec.train.model_copy(update={"init": "champion"}),
        }
    )
    assert spec.model_name == model
    for act in (
        lambda: append(store, change("3", 3), after=2),
        lambda: was_replaced(store, model, "d" * 64),
        lambda: live_parts(store, model),
        lambda: find_parent(store, spec, DAY, "scheduled"),
    ):
        nothing_changes(store, act)
    if name == "record":
        nothing_changes(store, lambda: cut_to_whole(store, model))
    before = state(store)
    found = reconcile(store, None, model)
    assert (found.finding, found.agrees, SAID in found.unchecked) == (None, False, True)
    with pytest.raises(RatchetError):
        accept_loss(store, None, model, by="Ada", because="none has it")
    assert {key: data for key, data in state(store).items() if key.startswith("ledger/")} == {
        key: data for key, data in before.items() if key.startswith("ledger/")
    }


def test_a_lease_counts_as_held_while_its_etag_changes_and_is_free_when_it_is_silent(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "STALE_S", 0.2)
    key = paths.lease("shop", "train", "f" * 64)
    theirs = new_lease("theirs", "their-attempt").model_copy(update={"process": None})
    assert store.create(key, seal(theirs))
    write(store, key, NEEDS)
    known = holder_of(store, key)
    assert known is not None
    assert known.attempt == lease.OF_ANOTHER_RELEASE
    waiter = Waiter(store, key, new_lease("ours", "our-attempt"))

    def beat(number: int) -> None:
        write(store, key, {**NEEDS, "beat": number})

    beats, end = count(1), time.monotonic() + 0.6  # three times as long as silence may last
    while time.monotonic() < end:
        assert waiter.take() is None
        beat(next(beats))
    monkeypatch.setattr(reaping.time, "sleep", lambda _: beat(next(beats)))
    assert reaping._held(store, [(key, "their-attempt")]) == {(key, "their-attempt")}
    monkeypatch.undo()
    monkeypatch.setattr(lease, "STALE_S", 0.2)
    hold = until(waiter.take, seconds=10)
    assert hold.release()


def test_what_ran_out_of_memory_is_not_forgotten(store: MemoryStore) -> None:
    made = plan()
    assert double_micro_batches(store, made, used=1) == 2
    (entry,) = store.list("accumulation")
    write(store, entry.key, NEEDS)
    nothing_changes(store, lambda: double_micro_batches(store, made, used=2))


def test_a_plan_is_shown_as_one_of_another_release_and_never_settled(store: MemoryStore) -> None:
    theirs = keep_plan(store, plan(run_id="theirs", data_date=DAY - timedelta(days=1)))
    note_plan(store, theirs.model_copy(update={"created": theirs.created - timedelta(days=30)}))
    write(store, paths.plan(theirs.spec.name, "theirs"), NEEDS)
    assert not is_local(store, theirs.spec.name, "theirs")  # so it is not reaped
    ours = keep_plan(store, plan(run_id="ours"))
    note_plan(store, ours)
    shown = {line.run_id: line for line in nights(store, ours.spec.name)}
    assert (shown["theirs"].standing, SAID in shown["theirs"].cause) == ("failed", True)
    index = paths.run_index(ours.spec.name)
    lines = RunIndex.model_validate_json(store.read(index)).runs
    assert [run.ended for run in lines if run.run_id == "theirs"] == [False]

    write(store, index, NEEDS)  # it repeats what is on record, and is made again from that
    assert [line.run_id for line in nights(store, ours.spec.name)] == ["theirs", "ours"]
    assert store.head(index) is not None
    note_end(store, ours)
    assert store.head(index) is None


def test_a_collection_stops(tmp_path: Path) -> None:
    with Village() as village:
        run_id = village.night()
        village.promote(run_id)
        village.clock.days += 30
        village.night()
        store = village.store
        manifests = village.manifests(run_id)
        for key in (
            paths.record_below(paths.ledger(MODEL), 1),
            paths.plan(NAME, run_id),
            paths.outcome(NAME, run_id, "train"),
            manifests["train"],
        ):
            was = store.read(key)
            write(store, key, NEEDS)
            before = state(store)
            (found,) = [one for one in village.collect() if one.pipeline == NAME]
            assert SAID in found.unchecked, key
            assert state(store) == before
            entry = store.head(key)
            assert entry is not None
            store.replace(key, was, expected=entry.etag)


def validate_again(world: World, ingested: PublishedResult) -> None:
    world.run("validate", None, {"ingest": ingested})


def test_a_purge_and_an_expiry_remove_nothing(tmp_path: Path) -> None:
    world = made(tmp_path)
    store = world.store
    ingested = read_manifest(store, _newest(world, "ingest"))
    ended = Outcome(stage="report", state="done").model_dump_json(by_alias=True).encode()
    store.create(paths.outcome("clicks", world.run_id, "report"), ended)
    for key in [
        next(entry.key for entry in store.list(paths.published("clicks", part)) if entry.key.endswith("manifest.json"))
        for part in ("ingest", "ingest.day", "validate.day", "features")
    ] + [paths.outcome("clicks", world.run_id, "validate"), paths.snapshot_index(table_of(world.spec))]:
        was = store.read(key)
        write(store, key, NEEDS)
        nothing_changes(store, lambda: do(store))
        if "/ingest.day/" in key:
            nothing_changes(store, lambda: expire(store, "clicks", 1, do=True, by="Ada", because="policy", today=LAST))
        if key.startswith("published/clicks/validate.day"):
            nothing_changes(store, lambda: validate_again(world, ingested))
        if key.startswith("tables/"):
            nothing_changes(store, lambda: world.run("ingest"))
        entry = store.head(key)
        assert entry is not None
        store.replace(key, was, expected=entry.etag)
    do(store)
    (removal,) = store.list(paths.removals("clicks"))
    write(store, removal.key, NEEDS)
    nothing_changes(store, lambda: removals(store, "clicks"))
