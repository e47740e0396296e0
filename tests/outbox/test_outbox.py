"""The outbox with a clock that the test moves."""

import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ratchet.contracts import outbox_paths, paths
from ratchet.contracts.errors import Unavailable
from ratchet.outbox.causes import STORE, shared_cause
from ratchet.outbox.deadline import Deadline
from ratchet.outbox.incidents import join, summarise
from ratchet.outbox.letter import LIMIT, TAKEN, Letter, delay
from ratchet.outbox.lost_letters import lost_letters
from ratchet.outbox.outbox import Outbox
from ratchet.outbox.spool import Spool
from ratchet.runs.history_page import page
from ratchet.store.memory import MemoryStore

START = datetime(2026, 11, 27, 2, tzinfo=UTC)


class Post:
    """An outbox of its own, its addresses, and what they took."""

    def __init__(self, name: str, *addresses: str) -> None:
        self.now, self.there = START, list(addresses)
        self.took: list[tuple[str, str]] = []
        self.asked, self.nobody_knows = 0, False
        self.bodies: list[str] = []
        self.away: set[str] = set()
        self.refused: set[str] = set()
        self.lost: list[str] = []
        self.store = MemoryStore(name)

    def outbox(self) -> Outbox:
        """As a new process has it."""
        return Outbox(
            store=self.store,
            installation="here",
            addresses=self._addresses,
            send=self._send,
            given_up=lambda letter: self.lost.append(letter.title),
            now=lambda: self.now,
        )

    def _addresses(self, _: str) -> list[str]:
        self.asked += 1
        if self.nobody_knows:
            raise Unavailable("Airflow's server does not answer")
        return self.there

    def _send(self, letter: Letter, address: str) -> bool:
        if address in self.away or letter.title in self.refused:
            return False
        self.took.append((letter.title, address))
        self.bodies.append(letter.body)
        return True

    def write(
        self,
        title: str,
        *,
        pipeline: str = "p",
        occasion: str = "failure",
        cause: str = "",
        waits: timedelta | None = None,
    ) -> bool:
        """What a callback does: post, and send what is not held."""
        outbox = self.outbox()
        event = paths.alert(pipeline, "r", f"train.{occasion}.{title.replace(' ', '-')}")
        letter = join(
            outbox,
            Letter(
                event=event,
                receiver="oncall",
                pipeline=pipeline,
                occasion=occasion,
                title=title,
                body=title,
                kind="failure",
                cause=cause,
                reason=cause,
                made=self.now,
                due=self.now + TAKEN,
                until=self.now + waits if waits else None,
            ),
        )
        new = outbox.post(event, b"{}", [letter])
        if new and not letter.held:
            outbox.deliver(letter)
        return new

    def watch(self, after: timedelta) -> None:
        """A scan of the watch, some time later."""
        self.now += after
        outbox = self.outbox()
        outbox.deliver_due(summarise(outbox))

    def titles(self) -> list[str]:
        return [title for title, _ in self.took]

    def waits(self) -> Sequence[str]:
        return [letter.title for letter, _ in self.outbox().waiting()]


def test_a_letter_is_sent_to_each_address_once_whatever_is_away() -> None:
    post = Post("addresses", "one", "two")
    post.away = {"two"}
    assert post.write("a")
    assert not post.write("a")
    post.watch(timedelta(minutes=5))
    assert post.took == [("a", "one")]
    post.away = set()
    post.watch(timedelta(minutes=30))
    post.watch(timedelta(minutes=30))
    assert post.took == [("a", "one"), ("a", "two")]
    assert post.waits() == []


def test_a_letter_belongs_to_the_process_that_sends_it_for_a_while() -> None:
    post = Post("taken", "one")
    outbox, letter = post.outbox(), None
    post.away = {"one"}
    post.write("a")
    ((letter, etag),) = outbox.waiting()
    taken = letter.model_copy(update={"due": post.now + TAKEN})
    assert outbox.store.replace(outbox.key(letter), taken.model_dump_json().encode(), expected=etag)
    post.away = set()
    post.watch(TAKEN - timedelta(seconds=1))
    assert post.took == []
    post.watch(timedelta(seconds=1))
    assert post.titles() == ["a"]


def test_a_letter_that_nobody_takes_is_given_up_after_the_limit_and_no_sooner() -> None:
    post = Post("limit", "one")
    post.away = {"one"}
    post.write("a")
    for _ in range(int(LIMIT / timedelta(minutes=40)) - 1):
        post.watch(timedelta(minutes=40))
    assert post.lost == []
    post.watch(timedelta(hours=2))
    assert post.lost == ["a"]
    assert post.waits() == []
    (lost,) = lost_letters(post.store, "here", "p")
    assert "Alerts that reached nobody" in page("p", [], undelivered=[lost.title])
    assert "Alerts that reached nobody" not in page("p", [])


def test_a_letter_that_nobody_can_say_where_to_send_waits_for_days_and_is_not_tried() -> None:
    post = Post("unasked", "one")
    post.nobody_knows = True
    for title in ("a", "b"):
        post.write(title)
    for _ in range(3 * 24):
        post.asked = 0
        post.watch(timedelta(hours=1))
        assert post.asked == 1  # an answer that does not come takes long
    assert post.lost == []
    assert [letter.tries for letter, _ in post.outbox().waiting()] == [0, 0]
    post.nobody_knows = False
    post.watch(timedelta(minutes=5))
    assert post.titles() == ["a", "b"]


def test_an_old_letter_is_tried_for_a_while_before_it_is_given_up() -> None:
    """As one that waited on a host for a store that was away."""
    post = Post("old", "one")
    post.away = {"one"}
    post.write("a")
    post.watch(LIMIT + timedelta(hours=1))
    for minutes in (2, 3, 5, 10):
        post.watch(timedelta(minutes=minutes))
        assert post.lost == []
    post.away = set()
    post.watch(timedelta(minutes=20))
    assert post.titles() == ["a"]


def test_nobody_to_send_to_is_no_letter_and_an_unknown_address_is_waited_for() -> None:
    post = Post("nobody")
    post.write("a")
    assert post.waits() == []
    post.there = None  # type: ignore[assignment]
    post.write("b")
    assert post.waits() == ["b"]
    post.there = ["one"]
    post.watch(timedelta(minutes=5))
    assert post.titles() == ["b"]


def test_the_pauses_between_tries_grow_to_half_an_hour_and_never_shrink() -> None:
    for _ in range(50):
        pauses = [delay(tries) for tries in range(1, 40)]
        assert pauses == sorted(pauses)
        assert timedelta(minutes=1) <= pauses[0] <= timedelta(minutes=1.25)
        assert pauses[-1] == timedelta(minutes=30)


def test_one_cause_of_many_pipelines_is_a_first_alert_a_summary_and_an_end() -> None:
    post = Post("incident", "one")
    for number in range(200):
        post.write(f"retry {number}", pipeline=f"p{number:03}", occasion="retry", cause="engine away")
    post.watch(timedelta(minutes=5))
    for number in range(187):
        post.write(f"up {number}", pipeline=f"p{number:03}", occasion="recovered", cause="engine away")
    for number in range(187, 200):
        post.write(f"down {number}", pipeline=f"p{number:03}", cause="engine away")
    for _ in range(12):
        post.watch(timedelta(minutes=5))
    assert post.titles() == ["retry 0", "200 pipelines: engine away", "200 pipelines: 13 not recovered: engine away"]
    assert post.waits() == []


@pytest.mark.parametrize(("waits", "hours"), [(None, 4), (timedelta(hours=12), 12)])
def test_an_outage_is_not_over_while_a_stage_may_wait_for_it(waits: timedelta | None, hours: int) -> None:
    post = Post(f"long-{hours}", "one")
    for number in range(60):
        post.write(f"retry {number}", pipeline=f"p{number:03}", occasion="retry", cause="engine away", waits=waits)
    for _ in range(hours * 12):
        post.watch(timedelta(minutes=5))
    assert post.titles() == ["retry 0", "60 pipelines: engine away"]
    for number in range(60):  # the engine is back, and the stages end one after the other
        post.write(f"up {number}", pipeline=f"p{number:03}", occasion="recovered", cause="engine away")
        post.watch(timedelta(minutes=0.5))
    for _ in range(12):
        post.watch(timedelta(minutes=5))
    assert post.titles() == ["retry 0", "60 pipelines: engine away", "60 pipelines: over: engine away"]
    assert post.waits() == []


def test_who_recovers_after_the_end_was_said_is_no_message_each() -> None:
    post = Post("after", "one")
    for number in range(60):
        post.write(f"retry {number}", pipeline=f"p{number:03}", occasion="retry", cause="engine away")
    for _ in range(6 * 12):
        post.watch(timedelta(minutes=5))
    end = "60 pipelines: 60 not recovered: engine away"
    assert post.titles() == ["retry 0", "60 pipelines: engine away", end]
    assert "go on by themselves" in post.bodies[-1]
    for number in range(60):
        post.write(f"up {number}", pipeline=f"p{number:03}", occasion="recovered", cause="engine away")
    post.watch(timedelta(minutes=5))
    assert post.titles()[3:] == ["60 pipelines: over: engine away"]
    post.write("again", occasion="retry", cause="engine away")
    assert post.titles()[4:] == ["again"]  # the next outage is another one
    for _ in range(30):
        post.watch(timedelta(hours=1))
    assert not [*post.store.list(outbox_paths.incidents("here"))]


def test_one_that_recovers_after_the_end_waits_an_hour_for_others_that_do_not() -> None:
    post = Post("trickle", "one")
    for name in ("a", "b", "c"):
        post.write(name, pipeline=name, cause="engine away")
    for _ in range(6):
        post.watch(timedelta(minutes=5))
    assert post.titles()[1:] == ["3 pipelines: engine away", "3 pipelines: 3 not recovered: engine away"]
    post.write("up", pipeline="a", occasion="recovered", cause="engine away")
    post.watch(timedelta(minutes=59))
    assert len(post.titles()) == 3
    post.watch(timedelta(minutes=1))
    assert post.titles()[3:] == ["3 pipelines: 2 not recovered: engine away"]
    for _ in range(26):
        post.watch(timedelta(hours=1))
    assert not [*post.store.list(outbox_paths.incidents("here"))]


def _say_away(spool: Spool, post: Post) -> int:
    """Two looks in a row that find the store away. How many messages that makes."""
    said: list[str] = []
    for _ in range(2):
        spool.store_is_away({"oncall": ["one"]}, lambda name, _: said.append(name) is None, post.now)
    return len(said)


def test_an_incident_that_is_over_keeps_no_failure_from_being_said_at_once(tmp_path: Path) -> None:
    post = Post("reopened", "one")
    for name in ("a", "b"):
        post.write(name, pipeline=name, cause=STORE)
    for _ in range(6):
        post.watch(timedelta(minutes=5))
    said = len(post.titles())
    spool = Spool(tmp_path)
    _say_away(spool, post)
    spool.store_is_back(post.outbox())  # whoever heard that the store was away hears how it ended
    post.watch(timedelta(minutes=5))
    assert len(post.titles()) == said + 1
    post.write("c", pipeline="c", cause=STORE)
    assert post.titles()[-1] == "c"


def test_who_heard_that_the_store_was_away_hears_that_it_is_back_also_where_no_alert_waited(tmp_path: Path) -> None:
    post, spool = Post("back", "one"), Spool(tmp_path)
    _say_away(spool, post)
    post.now += timedelta(hours=6)
    spool.store_is_back(post.outbox())
    for _ in range(12):
        post.watch(timedelta(minutes=5))
    assert post.titles() == ["over: the store did not answer"]
    assert post.bodies[-1].endswith("Alerts that wait on the hosts of workers come with the next task there")


def test_one_look_that_finds_the_store_away_is_no_message_and_no_end(tmp_path: Path) -> None:
    post, spool = Post("slow", "one"), Spool(tmp_path)
    spool.store_is_away({"oncall": ["one"]}, lambda *_: pytest.fail("said"), post.now)
    spool.store_is_back(post.outbox())
    for _ in range(12):
        post.watch(timedelta(minutes=5))
    assert post.titles() == []


def test_a_store_that_is_away_again_within_the_hour_is_said_only_after_a_quarter_of_one(tmp_path: Path) -> None:
    post, spool = Post("flaps", "one"), Spool(tmp_path)
    assert _say_away(spool, post) == 1
    spool.store_is_back(post.outbox())
    post.watch(timedelta(minutes=5))
    ended = ["over: the store did not answer"]
    assert post.titles() == ended
    post.now += timedelta(minutes=5)
    assert _say_away(spool, post) == 0
    spool.store_is_back(post.outbox())
    post.watch(timedelta(minutes=5))
    assert post.titles() == ended  # what nobody heard of does not end for them
    assert _say_away(Spool(tmp_path), post) == 0  # a watch that was started again
    post.now += timedelta(minutes=15)
    assert _say_away(spool, post) == 1
    assert _say_away(spool, post) == 0
    spool.store_is_back(post.outbox())
    post.now += timedelta(hours=1)
    assert _say_away(spool, post) == 1


def test_one_of_a_kind_is_sent_at_once_and_so_is_what_becomes_of_it() -> None:
    post = Post("single", "one")
    post.write("retry", occasion="retry", cause="engine away")
    post.write("down", cause="engine away")
    post.write("other", pipeline="q", cause="database away")
    assert post.titles() == ["retry", "down", "other"]
    for _ in range(20):
        post.watch(timedelta(minutes=5))
    assert post.titles() == ["retry", "down", "other"]
    assert not [*post.store.list(outbox_paths.incidents("here"))]


def test_what_is_held_by_an_incident_that_has_ended_is_let_out() -> None:
    post = Post("orphan", "one")
    post.write("first", pipeline="p", cause="engine away")
    post.write("second", pipeline="q", cause="engine away")
    for entry in [*post.store.list(outbox_paths.incidents("here"))]:
        post.store.delete(entry.key)
    post.watch(timedelta(minutes=5))
    assert post.titles() == ["first", "second"]


def test_a_call_that_does_not_end_in_time_is_left() -> None:
    held = threading.Event()
    with pytest.raises(Unavailable, match=r"no answer within 0\.05 s"):
        Deadline(0.05).call(held.wait)
    held.set()
    with pytest.raises(ZeroDivisionError):
        Deadline(5).call(lambda: 1 // 0)
    assert Deadline(5).call(lambda: 3) == 3


@pytest.mark.parametrize("text", [b"{", b'{"receiver": 1}'])
def test_what_cannot_be_read_silences_nothing_else(text: bytes, tmp_path: Path) -> None:
    post = Post(f"unreadable-{len(text)}", "one")
    post.store.create(outbox_paths.incident("here", "oncall", "engine away"), text)
    post.store.create(outbox_paths.letter("here", "oncall", "other"), text)
    post.store.create(outbox_paths.given_up("here", "p", "oncall", "other"), text)
    post.write("a", cause="engine away")
    post.write("b", pipeline="q", cause="engine away")
    spool = Spool(tmp_path)
    (tmp_path / "first.event").write_bytes(text)
    letter = Letter.model_validate(
        {"event": "e/f", "receiver": "oncall", "pipeline": "p", "occasion": "failure", "title": "kept", "body": ""}
        | {"kind": "failure", "made": post.now, "due": post.now}
    )
    spool.keep("e/f", b"{}", [letter])
    assert spool.store_is_back(post.outbox()) == 1
    post.watch(timedelta(minutes=5))
    assert post.titles() == ["a", "b", "kept"]
    assert lost_letters(post.store, "here", "p") == ()


def test_a_letter_of_a_newer_release_is_read() -> None:
    post = Post("newer", "one")
    post.away = {"one"}
    post.write("a")
    ((letter, etag),) = post.outbox().waiting()
    newer = letter.model_dump_json().replace("{", '{"colour": "red", ', 1)
    assert post.store.replace(post.outbox().key(letter), newer.encode(), expected=etag)
    post.away = set()
    post.watch(timedelta(minutes=30))
    assert post.titles() == ["a"]


def _add(store: MemoryStore, key: str) -> None:
    """As a newer release writes it."""
    entry = store.head(key)
    assert entry is not None
    newer = json.loads(store.read(key)) | {"thread": "1234.5"}
    assert store.replace(key, json.dumps(newer).encode(), expected=entry.etag)


def _has(store: MemoryStore, prefix: str) -> list[bool]:
    return [json.loads(store.read(entry.key)).get("thread") == "1234.5" for entry in [*store.list(prefix)]]


def test_a_letter_keeps_what_only_a_newer_release_knows_until_it_is_given_up() -> None:
    post = Post("newer-letter", "one")
    post.away = {"one"}
    post.write("a")
    ((letter, _),) = post.outbox().waiting()
    _add(post.store, post.outbox().key(letter))
    post.watch(timedelta(minutes=30))
    ((letter, _),) = post.outbox().waiting()
    assert letter.tries == 2
    assert _has(post.store, outbox_paths.letters("here")) == [True]
    for _ in range(4):
        post.watch(timedelta(minutes=40))
    post.watch(LIMIT)
    assert post.waits() == []
    assert _has(post.store, outbox_paths.undelivered("here")) == [True]


def test_an_incident_keeps_what_only_a_newer_release_knows() -> None:
    post = Post("newer-incident", "one")
    post.write("a", pipeline="a", occasion="retry", cause="disk")
    incidents = outbox_paths.incidents("here")
    _add(post.store, outbox_paths.incident("here", "oncall", "disk"))
    post.write("a again", pipeline="a", cause="disk")
    assert _has(post.store, incidents) == [True]
    post.write("b", pipeline="b", cause="disk")
    post.watch(timedelta(minutes=2))
    assert post.titles() == ["a", "a again", "2 pipelines: disk"]
    assert _has(post.store, incidents) == [True]


def test_a_letter_that_is_let_out_keeps_what_only_a_newer_release_knows() -> None:
    post = Post("newer-held", "one")
    for name in ("a", "b"):
        post.write(name, pipeline=name, cause="disk")
    held = next(letter for letter, _ in post.outbox().waiting() if letter.held)
    _add(post.store, post.outbox().key(held))
    for entry in [*post.store.list(outbox_paths.incidents("here"))]:
        post.store.delete(entry.key)
    outbox = post.outbox()
    assert [letter.title for letter, _ in summarise(outbox)] == ["b"]
    assert _has(post.store, outbox_paths.letters("here")) == [True]


def test_a_letter_that_is_always_refused_holds_no_other_and_alone_is_given_up() -> None:
    post = Post("poison", "one")
    post.refused = {"bad", "worse"}
    post.away = {"one"}
    for title in ("bad", "worse", "good", "better"):
        post.write(title)
    post.away = set()
    for _ in range(4):
        post.watch(timedelta(minutes=40))
    assert sorted(post.titles()) == ["better", "good"]
    for _ in range(3):
        post.watch(LIMIT)
    assert sorted(post.lost) == ["bad", "worse"]


def test_an_old_letter_that_was_not_tried_is_not_given_up() -> None:
    post = Post("untried", "one")
    post.away = {"one"}
    for title in ("a", "b", "c"):
        post.write(title)
    for _ in range(10):
        post.watch(timedelta(minutes=40))
    post.watch(LIMIT)
    assert len(post.lost) == 2
    post.away = set()
    post.watch(timedelta(minutes=40))
    assert len(post.titles()) == 1


def test_a_letter_for_an_address_that_was_set_empty_is_kept_as_undelivered() -> None:
    post = Post("emptied", "one")
    post.away = {"one"}
    post.write("a")
    post.there = []
    post.watch(timedelta(minutes=40))
    assert post.waits() == []
    assert [letter.title for letter in lost_letters(post.store, "here", "p")] == ["a"]


def test_what_is_sent_before_its_event_is_claimed_is_not_sent_again() -> None:
    post = Post("unclaimed", "one")
    post.write("a")
    post.store.delete(paths.alert("p", "r", "train.failure.a"))  # as if its process had been killed before the claim
    post.write("a")
    assert post.titles() == ["a"]
    assert post.waits() == []


def test_a_failure_for_good_that_joins_waits_minutes_and_not_an_hour() -> None:
    post = Post("final", "one")
    for name in ("a", "b", "c"):
        post.write(name, pipeline=name, occasion="retry", cause="disk")
    post.watch(timedelta(minutes=1))
    assert len(post.titles()) == 2
    post.write("d", pipeline="d", occasion="retry", cause="disk")
    post.watch(timedelta(minutes=11))
    assert len(post.titles()) == 2
    post.write("e", pipeline="e", cause="disk")
    post.watch(timedelta(minutes=10))
    assert len(post.titles()) == 3


def test_the_letter_of_a_process_that_was_killed_before_its_claim_is_left_to_the_watch() -> None:
    post = Post("killed", "one")
    outbox, event = post.outbox(), paths.alert("p", "r", "e")
    old = Letter(
        event=event, receiver="oncall", pipeline="p", occasion="failure", title="a", body="a", kind="failure",
        made=post.now, due=post.now,
    )  # fmt: skip
    post.store.create(outbox.key(old), old.model_dump_json().encode())
    new = old.model_copy(update={"made": post.now + timedelta(seconds=1), "due": post.now + TAKEN})
    assert outbox.post(event, b"{}", [new])
    assert not outbox.holds(new)
    post.watch(timedelta(0))
    assert post.titles() == ["a"]
    assert not outbox.holds(old)


@pytest.mark.parametrize(
    ("text", "is_store"),
    [
        ("s3://data/ratchet/plans/x.json: other processes keep writing it", True),
        ("bucket data at https://s3.example (region eu): answered SlowDown: x", True),
        ("bucket data at https://s3.example (region eu): does not answer: timed out", True),
        ("s3://data/ratchet-2/x does not answer", False),
        ("bucket data-lake at https://s3.example (region eu): does not answer", False),
    ],
)
def test_all_that_fails_in_the_store_is_one_cause_and_a_store_of_a_longer_name_another(
    text: str, is_store: bool
) -> None:
    assert (shared_cause(text, pipeline="p", store="s3://data/ratchet") == STORE) is is_store
