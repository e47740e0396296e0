import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.contracts import paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, PublishConflict
from ratchet.contracts.request import StageRequest
from ratchet.contracts.result import Artifact, PublishedResult
from ratchet.contracts.stages import Resources
from ratchet.runtime.context import Finished
from ratchet.runtime.days import DayParts, NewPart, workers
from ratchet.runtime.parts_index import indexed_parts
from ratchet.store.artifacts import read_bytes
from ratchet.store.base import Store
from ratchet.store.collecting import collect
from ratchet.store.publishing import Transaction, discard_damaged, find_result, read_manifest
from tests.store_calls import counted_calls
from tests.waiting import until
from tests.world import LAST, World, clicks

LOCAL_AND_REMOTE = ("file", "memory")


@dataclass(frozen=True)
class Delivery:
    """A day's rows are one text."""

    day: date
    text: str


class TextPart(Document):
    """A part is the text in capitals."""

    text: Artifact


@dataclass
class Parts:
    """Builds parts of deliveries in a world. made: the days that were made, in any order."""

    world: World
    answer: Callable[[Delivery], str] = lambda delivery: delivery.text.upper()
    made: list[date] = field(default_factory=list)
    scratch: list[Path] = field(default_factory=list)
    checks: bool = False

    def build(self, days: Iterable[Delivery], request: StageRequest | None = None) -> dict[date, TextPart]:
        with self.opened(request) as parts:
            return parts.build(days, memory=1)

    def rebuild(self, days: Iterable[Delivery]) -> dict[date, TextPart]:
        return self.build(days, self.world.request("features", parts={"rebuild": "run-7"}))

    @contextmanager
    def opened(self, request: StageRequest | None = None) -> Iterator[DayParts[Delivery, TextPart]]:
        with self.world.open(request or self.world.request("features")) as ctx:
            yield DayParts(
                ctx=ctx,
                name="features.day",
                verb="wrote",
                common={"code": "1"},
                identity=lambda delivery: {"rows": delivery.text, "day": f"{delivery.day}"},
                make=self._make,
                read=self._read,
            )

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = map(json.loads, self.world.log.getvalue().splitlines())
        return [line for line in lines if line["event"] == name]

    def text(self, kept: TextPart) -> str:
        return read_bytes(self.world.store, kept.text).decode()

    def damage(self, kept: TextPart, change: Callable[[bytes], bytes]) -> None:
        data, entry = self.world.store.read(kept.text.key), self.world.store.head(kept.text.key)
        assert entry
        assert self.world.store.replace(kept.text.key, change(data), expected=entry.etag)

    def _make(self, delivery: Delivery, transaction: Transaction, scratch: Path) -> NewPart:
        assert not list(scratch.iterdir())
        self.scratch.append(scratch)
        self.made.append(delivery.day)
        path = scratch / "text"
        path.write_text(self.answer(delivery), encoding="utf-8")
        artifact = transaction.add("text", path)
        return NewPart(content=artifact.sha256, rows=1, summary=TextPart(text=artifact))

    def _read(self, found: PublishedResult) -> TextPart:
        kept = TextPart.model_validate(found.result.summary)
        if self.checks:
            read_bytes(self.world.store, kept.text)
        return kept


def world_of(folder: Path, kind: str) -> World:
    return clicks(folder, f"mem://{folder}" if kind == "memory" else None)


@pytest.fixture(params=LOCAL_AND_REMOTE)
def parts(tmp_path: Path, request: pytest.FixtureRequest) -> Parts:
    return Parts(world_of(tmp_path, request.param))


@pytest.fixture
def local(tmp_path: Path) -> Parts:
    return Parts(world_of(tmp_path, "file"))


@pytest.fixture
def remote(tmp_path: Path) -> Parts:
    """Of a store whose bytes are far away: sizes are compared first."""
    return Parts(world_of(tmp_path, "memory"))


DAYS = [Delivery(LAST - timedelta(days=back), f"rows of {back}") for back in (0, 2, 1)]
ONE = DAYS[:1]


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def test_parts_are_made_once_and_come_back_oldest_first(parts: Parts) -> None:
    first = parts.build(DAYS)
    assert list(first) == sorted(parts.made) == sorted(day.day for day in DAYS)
    assert [parts.text(kept) for kept in first.values()] == ["ROWS OF 2", "ROWS OF 1", "ROWS OF 0"]
    assert parts.build(DAYS) == first
    assert len(parts.made) == 3


@settings(max_examples=20)
@given(st.lists(st.dictionaries(st.integers(0, 4), st.sampled_from("abc"), min_size=1), min_size=1, max_size=4))
def test_whatever_is_delivered_in_whatever_order_each_part_is_made_once_and_true(runs: list[dict[int, str]]) -> None:
    with TemporaryDirectory() as folder:
        parts = Parts(world_of(Path(folder), "memory"))
        for delivered in runs:
            days = [Delivery(LAST - timedelta(days=back), text) for back, text in delivered.items()]
            built = parts.build(days)
            assert list(built) == sorted(day.day for day in days)
            assert {day: parts.text(kept) for day, kept in built.items()} == {day.day: day.text.upper() for day in days}
        assert len(parts.made) == len({item for delivered in runs for item in delivered.items()})


def test_a_night_asks_for_the_new_day_and_not_for_each_day_again(local: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for count in (3, 29):
        days = [Delivery(LAST - timedelta(days=back), f"rows of {back}") for back in range(1, count)]
        local.build(days)
        with counted_calls(monkeypatch) as made:
            local.build([*days, Delivery(LAST, f"new, the {count}th")])
        calls.append(len(made))
    assert calls[0] >= 8
    assert calls[1] <= calls[0] + 8, calls  # a day's turn to be compared costs 3


def index_key(parts: Parts) -> str:
    return paths.parts_index("clicks", "features.day")


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"sha256": "0", "document": {"parts": 3}}'])
def test_an_index_that_cannot_be_read_is_written_again(parts: Parts, damage: bytes) -> None:
    first = parts.build(DAYS)
    store, key = parts.world.store, index_key(parts)
    whole, entry = indexed_parts(store, key), store.head(key)
    assert entry is not None
    assert store.replace(key, damage, expected=entry.etag)
    assert parts.build(DAYS) == first
    assert len(parts.made) == 3
    assert indexed_parts(store, key) == whole
    assert len(whole) == 3


def test_a_byte_that_nobody_wrote_is_found_when_it_is_the_turn_of_its_day(local: Parts) -> None:
    turn = LAST - timedelta(days=2 * LAST.toordinal() % 30)
    days = [Delivery(turn, "its turn"), Delivery(turn - timedelta(days=1), "not its turn")]
    built = local.build(days)
    for kept in built.values():
        path = local.world.store.local(kept.text.key)
        assert path is not None
        times = path.stat()
        with path.open("r+b") as file:
            file.write(flipped(path.read_bytes()))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    local.made.clear()
    local.build(days)
    assert local.made == [turn]


def test_progress_says_of_each_day_what_was_done(parts: Parts) -> None:
    parts.build(ONE)
    parts.build(DAYS)
    said = parts.events("progress")
    assert [(line["done"], line["total"]) for line in said] == [(1, 1), (1, 3), (2, 3), (3, 3)]
    assert sorted(line["message"] for line in said[1:]) == [
        f"reused {LAST}",
        f"wrote 1 rows of {LAST - timedelta(days=2)}",
        f"wrote 1 rows of {LAST - timedelta(days=1)}",
    ]


def test_the_folder_of_a_day_is_its_own_and_gone_afterwards(parts: Parts) -> None:
    parts.build(DAYS)
    assert len(set(parts.scratch)) == 3
    assert not [folder for folder in parts.scratch if folder.exists()]


def test_a_day_that_cannot_be_made_is_not_published_and_the_others_may_be(parts: Parts) -> None:
    def refuse(delivery: Delivery) -> str:
        if delivery.day == LAST:
            raise ValueError(delivery.text)
        return delivery.text.upper()

    with pytest.raises(ValueError, match="rows of 0"):
        Parts(parts.world, refuse).build(DAYS)
    parts.build(DAYS)
    assert LAST in parts.made


@pytest.mark.parametrize("damage", ["cut", "gone", "manifest"])
def test_what_is_damaged_is_reported_and_made_again(parts: Parts, damage: str) -> None:
    kept = parts.build(DAYS)[LAST]
    (manifest,) = [entry for entry in parts.world.store.list("published") if entry.key.endswith("manifest.json")
                   and kept.text.key.startswith(entry.key.rpartition("/")[0])]  # fmt: skip
    match damage:
        case "cut":
            parts.damage(kept, lambda data: data[:-1])
        case "gone":
            parts.world.store.delete(kept.text.key)
        case _:
            data = parts.world.store.read(manifest.key)
            assert parts.world.store.replace(manifest.key, data[:-9], expected=manifest.etag)
    assert parts.text(parts.build(DAYS)[LAST]) == "ROWS OF 0"
    assert parts.made.count(LAST) == 2
    assert len(parts.made) == 4
    (event,) = parts.events("damaged")
    assert event["level"] == "warning"
    assert (
        f"{'manifest' if damage == 'manifest' else 'text'} damaged; the stage computes the part again"
        in event["message"]
    )


def test_on_a_local_disk_a_changed_byte_is_found_at_once(local: Parts) -> None:
    local.damage(local.build(ONE)[LAST], flipped)
    assert local.text(local.build(ONE)[LAST]) == "ROWS OF 0"
    assert local.events("damaged")


def test_over_a_network_a_changed_byte_is_the_reader_s_until_the_result_was_found_damaged(remote: Parts) -> None:
    request = remote.world.request("features")
    with remote.opened(request) as parts:
        kept = parts.build(ONE, memory=1)[LAST]
        parts.ctx.transaction.refer("text", kept.text)
        remote.world.commit(parts.ctx, Finished(content=kept.text.sha256, summary=kept))
    remote.damage(kept, flipped)
    with pytest.raises(CorruptArtifact):
        remote.text(remote.build(ONE)[LAST])

    assert discard_damaged(remote.world.store, request.prefix) == ["text"]
    assert remote.text(remote.build(ONE, request)[LAST]) == "ROWS OF 0"
    assert len(remote.made) == 2


def test_a_part_that_its_own_reader_finds_changed_is_made_again(remote: Parts) -> None:
    remote.checks = True
    remote.damage(remote.build(ONE)[LAST], flipped)
    assert remote.text(remote.build(ONE)[LAST]) == "ROWS OF 0"
    assert remote.events("damaged")


def test_a_rebuild_makes_every_day_again_and_the_same_content_changes_nothing(parts: Parts) -> None:
    first = parts.build(DAYS)
    before = list(parts.world.store.list("published"))
    assert parts.rebuild(DAYS) == first
    assert len(parts.made) == 6
    assert list(parts.world.store.list("published")) == before
    assert not parts.events("superseded")


def test_other_content_of_a_rebuild_is_what_later_runs_take_and_earlier_ones_keep_theirs(parts: Parts) -> None:
    old = parts.build(DAYS)
    changed = Parts(parts.world, lambda delivery: f"other {delivery.text}")
    new = changed.rebuild(ONE)
    assert parts.build(DAYS) == {**old, **new}
    assert len(parts.made) == 3
    assert parts.text(new[LAST]) == "other rows of 0"
    (event,) = parts.events("superseded")
    assert event["level"] == "warning"

    prefix = old[LAST].text.key.rsplit("/", 2)[0]
    assert [entry.key in event["message"] for entry in parts.world.store.list(paths.superseded(prefix))] == [True]
    assert collect(parts.world.store, prefix, older_than_s=-1) == []
    assert parts.text(old[LAST]) == "ROWS OF 0"


def test_a_rebuild_does_not_yield_to_a_damaged_part(parts: Parts) -> None:
    parts.damage(parts.build(ONE)[LAST], flipped)
    assert parts.text(parts.rebuild(ONE)[LAST]) == "ROWS OF 0"


def test_without_a_rebuild_other_content_is_refused(parts: Parts) -> None:
    def meanwhile(delivery: Delivery) -> str:
        parts.build([delivery])
        return "other"

    with pytest.raises(PublishConflict, match="make the stage deterministic"):
        Parts(parts.world, meanwhile).build(ONE)
    assert parts.text(parts.build(ONE)[LAST]) == "ROWS OF 0"


def test_the_same_part_of_a_quicker_attempt_is_taken(parts: Parts) -> None:
    quicker: list[dict[date, TextPart]] = []

    def meanwhile(delivery: Delivery) -> str:
        quicker.append(parts.build([delivery]))
        return delivery.text.upper()

    assert [Parts(parts.world, meanwhile).build(ONE)] == quicker


@pytest.mark.parametrize(
    ("cpus", "day", "expected"),
    [
        (2, 1, 2),
        (0.5, 1, 2),  # while one day waits for the store, the other computes
        (8, 1, 8),
        (8, 512 << 20, 4),
        (8, 3 << 30, 1),
        (2, 0, 2),
    ],
)
def test_as_many_days_at_once_as_processors_and_half_of_the_memory_allow(cpus: float, day: int, expected: int) -> None:
    assert workers(Resources.model_validate({"cpus": cpus, "memory": "4g"}), day) == expected


def test_at_every_step_of_a_rebuild_a_reader_finds_the_old_part_or_the_new_one(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = parts.world.store
    prefix = parts.build(ONE)[LAST].text.key.rsplit("/", 2)[0]
    found: list[PublishedResult | None] = []
    for name in ("create", "replace", "delete"):
        monkeypatch.setattr(type(store), name, _then(getattr(type(store), name), prefix, found))
    Parts(parts.world, lambda delivery: f"other {delivery.text}").rebuild(ONE)
    assert len(found) >= 2
    assert None not in found
    assert len({result.result.content for result in found if result}) == 2


def _then(step: Callable[..., bool], prefix: str, found: list[PublishedResult | None]) -> Callable[..., bool]:
    def stepped(store: Store, *given: Any, **named: Any) -> bool:
        done = step(store, *given, **named)
        found.append(find_result(store, prefix))
        return done

    return stepped


@pytest.mark.parametrize("other_is", [{"run_id": "run-2"}, {"share": 1}], ids=["run", "share"])
def test_two_tasks_share_the_days_of_a_window_and_neither_waits_while_a_day_is_left(
    parts: Parts, other_is: dict[str, Any]
) -> None:
    """The first run is held in the days that it began until the second one, or a share, has made all others."""
    days = [Delivery(LAST - timedelta(days=back), f"{back}") for back in range(6)]
    others_made = threading.Event()
    first = Parts(world=parts.world, answer=lambda one: one.text if others_made.wait(300) else "too late")
    second = Parts(world=parts.world, answer=lambda one: one.text)
    other = parts.world.request("features").model_copy(update=other_is)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(first.build, days, parts.world.request("features"))]
        until(lambda: len(first.made) == 2, seconds=300)
        runs.append(pool.submit(second.build, days, other))
        until(lambda: len(second.made) == 4, seconds=300)
        others_made.set()
        texts = [[read_bytes(parts.world.store, one.text) for one in run.result(300).values()] for run in runs]
    whole = [day.text.encode() for day in reversed(days)]
    assert texts[0] == whole
    assert texts[1][:4] == whole[:4]
    assert "share" in other_is or texts[1] == whole, "a share waits for no day, and a run for all"
    assert sorted(first.made + second.made) == sorted(day.day for day in days), "each day is made once"


def test_of_two_rebuilds_at_once_both_end_and_what_either_made_is_kept(parts: Parts) -> None:
    old = parts.build(ONE)
    makers = [Parts(parts.world, partial("{0} {1.text}".format, name)) for name in ("left", "right")]
    with ThreadPoolExecutor(2) as pool:
        new = list(pool.map(lambda maker: maker.rebuild(ONE)[LAST], makers))
    assert {parts.text(part) for part in new} == {"left rows of 0", "right rows of 0"}
    assert parts.build(ONE)[LAST] in new
    prefix = old[LAST].text.key.rsplit("/", 2)[0]
    kept = [read_manifest(parts.world.store, entry.key) for entry in parts.world.store.list(paths.superseded(prefix))]
    assert len(kept) == 2
    assert collect(parts.world.store, prefix, older_than_s=-1) == []
