"""The lease of a fingerprint has one holder at a time, whatever happens to it."""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.store import lease as leases
from ratchet.store.base import Store
from ratchet.store.ending import mark_ending
from ratchet.store.lease import Hold, Lease, Waiter, holder_of, new_lease
from ratchet.store.opening import open_store
from ratchet.store.process import Process
from tests.waiting import until

FUTURE = datetime(2036, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[2]
KEY = paths.lease("shop", "train", "f" * 64)


@pytest.fixture
def store(store_uri: str) -> Store:
    made = open_store(store_uri)
    made.prepare()
    return made


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beats in quick succession; none of them waits for a busy disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr(leases, "BEAT_S", 0.05)
    monkeypatch.setattr(leases, "STALE_S", 1.5)
    monkeypatch.setattr(leases, "STALL_S", 1.0)  # a test's process that is frozen for longer has looked no longer


def take(store: Store, run: str, attempt: str) -> Hold | None:
    return Waiter(store, KEY, new_lease(run, attempt)).take()


def held(taken: Hold | None) -> Hold:
    assert taken is not None
    return taken


def stored(store: Store) -> Lease:
    found = holder_of(store, KEY)
    assert found is not None
    return found


def test_a_free_lease_is_taken_and_released(store: Store) -> None:
    hold = held(take(store, "run-1", "a"))
    assert take(store, "run-2", "b") is None
    assert hold.release()
    assert holder_of(store, KEY) is None
    held(take(store, "run-2", "b")).release()


def test_a_holder_that_was_frozen_asks_whether_it_is_still_its_own(store: Store) -> None:
    hold = held(take(store, "run-1", "a"))
    assert hold.is_ours()
    successor = held(take(store, "run-1", "b"))
    assert not hold.is_ours()
    assert hold.lost.is_set()
    assert successor.is_ours()
    assert not hold.release()
    assert successor.release()


def test_a_lease_that_was_deleted_although_the_answer_was_lost_was_its_holders(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket's client asks again then, and hears that the file is not there."""
    hold, delete = held(take(store, "run-1", "a")), store.delete
    monkeypatch.setattr(store, "delete", lambda key, **given: delete(key, **given) and False)
    assert hold.release()
    assert not hold.lost.is_set()
    assert holder_of(store, KEY) is None


@pytest.fixture
def meanwhile(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Run an action once, between the read and the write of the next change in the store."""

    def happens(what: Callable[[], object]) -> None:
        swap, replace, delete = store.swap, store.replace, store.delete

        def first(change: Callable[..., object]) -> Callable[..., object]:
            def changed(*arguments: object, **named: object) -> object:
                monkeypatch.setattr(store, "swap", swap)
                monkeypatch.setattr(store, "replace", replace)
                monkeypatch.setattr(store, "delete", delete)
                what()
                return change(*arguments, **named)

            return changed

        monkeypatch.setattr(store, "swap", first(swap))
        monkeypatch.setattr(store, "replace", first(replace))
        monkeypatch.setattr(store, "delete", first(delete))

    return happens


def test_a_concurrent_beat_does_not_stop_a_takeover(
    store: Store, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    hold = held(take(store, "run-1", "a"))
    meanwhile(hold._beat)
    successor = held(take(store, "run-1", "b"))
    assert successor.is_ours()

    started = stored(store).started
    meanwhile(lambda: mark_ending(store, KEY, "b"))
    successor.point_at("a", started)
    assert stored(store).attempt == "a"

    meanwhile(lambda: mark_ending(store, KEY, "b"))
    assert successor.release()
    assert holder_of(store, KEY) is None
    assert not hold.release()


def test_the_mark_of_an_ending_job_outlives_the_beats_of_its_holder(store: Store, quick: None) -> None:
    hold = held(take(store, "run-1", "a"))
    assert mark_ending(store, KEY, "a")
    beat = stored(store).beat
    until(lambda: stored(store).beat > beat + 2, seconds=20)
    assert stored(store).ending
    waiting = Waiter(store, KEY, new_lease("run-1", "b"))
    successor = held(waiting.take())
    assert waiting.predecessor is not None
    assert waiting.predecessor.ending
    assert not stored(store).ending
    hold.release()
    successor.release()


def test_one_of_many_concurrent_waiters_gets_the_lease(store: Store) -> None:
    got: list[Hold] = []
    together = threading.Barrier(8)

    def ask(number: int) -> None:
        together.wait()
        taken = take(store, f"run-{number}", f"a{number}")
        if taken is not None:
            got.append(taken)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    got[0].release()


@pytest.mark.usefixtures("quick")
def test_a_living_holder_keeps_the_lease_and_a_dead_one_loses_it(store: Store) -> None:
    hold = held(take(store, "run-1", "a"))
    waiting = Waiter(store, KEY, new_lease("run-2", "b"))
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:  # twice as long as it takes to become stale
        assert waiting.take() is None
        time.sleep(0.02)
    hold._over.set()  # as if its process had been killed: it beats no more, and gives nothing back
    hold._thread.join()
    successors: list[Hold] = []

    def succeeded() -> bool:
        taken = waiting.take()
        successors.extend([taken] if taken else [])
        return taken is not None

    until(succeeded, seconds=20)
    assert waiting.predecessor is not None
    assert waiting.predecessor.attempt == "a"
    successors[0].release()


@pytest.mark.usefixtures("quick")
def test_a_later_try_of_the_same_run_takes_over_at_once_and_the_earlier_one_notices(store: Store) -> None:
    first = held(take(store, "run-1", "a"))
    second = held(take(store, "run-1", "b"))
    until(first.lost.is_set, seconds=20)
    assert not first.release()
    found = holder_of(store, KEY)
    assert found is not None
    assert found.holder == "b"
    second.release()


@pytest.mark.usefixtures("quick")
def test_a_holder_that_follows_an_earlier_job_names_it_in_every_beat(store: Store) -> None:
    first = held(take(store, "run-1", "a"))
    second = held(take(store, "run-1", "b"))
    second.point_at("a", first._found.lease.started)
    before = holder_of(store, KEY)
    assert before is not None

    def beaten() -> bool:
        now = holder_of(store, KEY)
        return now is not None and now.beat > before.beat

    until(beaten, seconds=20)
    now = holder_of(store, KEY)
    assert now is not None
    assert (now.attempt, now.holder) == ("a", "b")
    first.release()
    second.release()


@pytest.mark.usefixtures("quick")
def test_a_damaged_lease_becomes_stale(store: Store) -> None:
    store.create(KEY, b"{")
    waiting = Waiter(store, KEY, new_lease("run-1", "a"))
    assert waiting.take() is None
    until(lambda: (taken := waiting.take()) is not None and (taken.release() or True), seconds=20)


HOLDER = """
import sys
from ratchet.store.lease import Waiter, new_lease
from ratchet.store.opening import open_store

assert Waiter(open_store(sys.argv[1]), sys.argv[2], new_lease("run-1", "a")).take() is not None
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lease_of_a_dead_process_of_this_host_is_taken_at_once(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    store.prepare()
    command = [sys.executable, "-c", HOLDER, store.uri, KEY]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        waiting = Waiter(store, KEY, new_lease("run-2", "b"))
        assert waiting.take() is None
        process.send_signal(signal.SIGSTOP)  # a frozen process is not dead
        assert waiting.take() is None
        process.kill()
        successor = until(waiting.take, seconds=30)
    assert waiting.predecessor is not None
    assert waiting.predecessor.attempt == "a"
    assert successor.release()


def test_only_the_same_host_says_that_a_process_is_dead() -> None:
    ours = Process.current()
    assert ours is not None
    assert not ours.is_dead()
    assert ours.model_copy(update={"started": ours.started + 1}).is_dead()
    assert not ours.model_copy(update={"started": ours.started + 1, "host": "elsewhere"}).is_dead()


def test_a_lease_of_before_names_no_process(store: Store) -> None:
    old = new_lease("run-1", "a").model_dump(mode="json", exclude={"process"})
    assert Lease.model_validate(old).process is None


def test_a_run_of_the_same_id_in_another_installation_is_no_earlier_try(store: Store) -> None:
    ours, theirs = (new_lease("run-1", name, installation=name) for name in ("production", "staging"))
    hold = held(Waiter(store, KEY, ours).take())
    try:
        assert Waiter(store, KEY, theirs).take() is None
    finally:
        hold.release()


@pytest.mark.usefixtures("quick")
def test_a_stall_of_the_store_for_everybody_takes_no_lease_from_its_living_holder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = open_store(f"mem://{uuid.uuid4().hex}")
    hold, waiting = held(take(store, "run-1", "a")), Waiter(store, KEY, new_lease("run-2", "b"))
    answers, head, swap = threading.Event(), store.head, store.swap
    answers.set()

    def stalled(key: str) -> object:
        answers.wait()
        return head(key)

    def stalled_beat(key: str, data: bytes, *, expected: str) -> object:
        late = not answers.is_set()
        answers.wait()
        if late:
            threading.Event().wait(0.5)  # the holder's request hangs a little longer than the waiter's
        return swap(key, data, expected=expected)

    monkeypatch.setattr(store, "head", stalled)
    monkeypatch.setattr(store, "swap", stalled_beat)
    monkeypatch.setattr(leases, "STALL_S", 0.2)
    assert waiting.take() is None
    answers.clear()
    threading.Timer(2.0, answers.set).start()  # longer than STALE_S
    assert waiting.take() is None
    beat = stored(store).beat
    while stored(store).beat == beat:
        assert waiting.take() is None
    assert hold.is_ours()
    assert hold.release()


def test_how_long_a_job_was_followed_is_counted_without_any_clock_on_a_wall(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"mem://{uuid.uuid4().hex}")
    first = held(Waiter(store, KEY, new_lease("run-1", "a").model_copy(update={"started": FUTURE})).take())
    until(lambda: stored(store).seconds > 0.2, seconds=20)
    waiting = Waiter(store, KEY, new_lease("run-1", "b"))
    second = held(waiting.take())
    assert waiting.predecessor is not None
    before = waiting.predecessor.seconds
    second.point_at("a", waiting.predecessor.started, seconds=before)
    until(lambda: stored(store).seconds > before + 0.1, seconds=20)
    assert 0.2 < stored(store).seconds < 20
    first.release()
    second.release()


@pytest.mark.usefixtures("quick")
def test_a_holder_whose_keys_are_refused_for_a_moment_goes_on_beating(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(f"mem://{uuid.uuid4().hex}")
    hold, refused = held(take(store, "run-1", "a")), threading.Event()

    def refuse(*_: object, **__: object) -> bool:
        refused.set()
        raise ConfigurationError("refused with AccessDenied")

    with monkeypatch.context() as keys:
        keys.setattr(store, "swap", refuse)
        assert refused.wait(20)
    beat = stored(store).beat
    until(lambda: stored(store).beat > beat, seconds=20)
    assert hold.release()


def test_a_lease_that_is_handed_over_waits_for_a_later_attempt_of_its_run(store: Store, quick: None) -> None:
    hold = held(take(store, "run-1", "a"))
    hold.point_at("a", datetime.now(UTC), seconds=5)
    assert hold.hand_over()
    assert hold.release()
    assert (stored(store).holder, stored(store).process) == ("a", None)
    assert take(store, "run-2", "b") is None  # not before it is stale
    later = held(take(store, "run-1", "c"))
    later.hand_over(60)
    beat = stored(store).beat
    until(lambda: stored(store).beat > beat, seconds=60)
    last = held(take(store, "run-1", "d"))
    until(later.lost.is_set, seconds=60)
    assert not later.hand_over()
    assert last.release()
    assert holder_of(store, KEY) is None
