"""Alerts on their way: an event is claimed once, and its letters are sent until each address has them.

A letter is stored before its event is claimed, and goes once a mark says that it was sent. So a process that is killed
anywhere leaves a letter that another one sends; only a kill between an address's answer and its mark doubles it.

A change here violates the promise of the project when an event can be claimed without letters in the store, when a
letter goes before each address has it, or when two processes send one letter at the same time.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from ratchet.contracts import outbox_paths
from ratchet.contracts.errors import CorruptArtifact, OtherRelease, RatchetError, Unavailable
from ratchet.contracts.masking import masked_logger
from ratchet.contracts.stored import read_stored, with_unknown
from ratchet.outbox.letter import TAKEN, Letter, address_digest, delay
from ratchet.outbox.lost_letters import note_lost_letter
from ratchet.store.base import Entry, Store
from ratchet.store.documents import read_document, replace_document

_log = masked_logger("ratchet.alerts")
Addresses = Callable[[str], list[str] | None]
"""The addresses of a receiver; an empty list if it is to have none, None if nobody has said.

Raises Unavailable while nobody can be asked. A letter waits for as long: what was never tried is not given up.
"""
Send = Callable[[Letter, str], bool]
"""Sends a letter to an address; whether it took it. Does not raise."""

Waiting = tuple[Letter, str]
"""A letter that waits, with its etag."""
_THREADS = 8
One = TypeVar("One")
Made = TypeVar("Made")

Clock = Callable[[], datetime]


def utc() -> datetime:
    """Now."""
    return datetime.now(UTC)


def in_threads(do: Callable[[One], Made], each: Iterable[One]) -> list[Made]:
    """What it makes of each, several at a time: a store may take long to answer."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(do, list(each)))


@dataclass(kw_only=True)
class Outbox:
    """The outbox of an installation. given_up: called with a letter that no address took in time.

    away: digests of the addresses that refused two letters in a row; this object does not ask them again.
    refused: the event that an address refused last, if it has taken none since. unasked: receivers of whose addresses
    nobody could be asked; nor does this object ask again.
    """

    store: Store
    installation: str
    addresses: Addresses
    send: Send
    given_up: Callable[[Letter], None]
    now: Clock = utc
    away: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    unasked: set[str] = field(default_factory=set)

    def post(self, event: str, content: bytes, letters: Sequence[Letter]) -> bool:
        """Claim an event, with its letters. Whether it is new; False if some process has claimed it before."""
        if self.store.head(event) is not None:
            return False
        for letter in letters:
            self.store.create(self.key(letter), _bytes(letter))
        return self.store.create(event, content)

    def holds(self, letter: Letter) -> bool:
        """Whether the letter that waits is this one; else it is a killed process's, which the watch sends."""
        try:
            there = read_document(self.store, self.key(letter), Letter)
        except (FileNotFoundError, OtherRelease, CorruptArtifact):
            return False
        return (there.made, there.due) == (letter.made, letter.due)

    def key(self, letter: Letter) -> str:
        """Where a letter waits."""
        return outbox_paths.letter(self.installation, letter.receiver, letter.event)

    def waiting(self) -> list[Waiting]:
        """Each letter that waits, with its etag."""
        return self.read(self.store.list(outbox_paths.letters(self.installation)))

    def read(self, entries: Iterable[Entry]) -> list[Waiting]:
        """Those that are letters, several at a time."""
        return [found for found in in_threads(self._read, entries) if found is not None]

    def _read(self, entry: Entry) -> Waiting | None:
        try:
            return read_document(self.store, entry.key, Letter), entry.etag
        except FileNotFoundError:
            return None  # another process has sent it meanwhile
        except (OtherRelease, CorruptArtifact) as error:
            _log.warning("alerts: the letter is left: %s", error)
            return None

    def deliver_due(self, waits: Iterable[Waiting] | None = None, *, until: Callable[[], bool] = lambda: False) -> int:
        """Send every letter that is due, at least one, until there is no time left; how many were sent.

        waits: what waits, if it was read a moment ago.
        """
        sent, looked = 0, False
        known = self.waiting() if waits is None else waits
        for letter, etag in sorted(known, key=lambda pair: (pair[0].due, pair[0].made)):
            if letter.held or letter.due > self.now():
                continue
            if looked and until():
                break
            if self._is_away(letter):
                continue
            looked = True
            if self._gone(letter):
                continue
            taken = letter.model_copy(update={"due": self.now() + TAKEN})
            if self.replace(taken, expected=etag):
                sent += self.deliver(taken)
        return sent

    def deliver(self, letter: Letter) -> bool:
        """Send a letter that this process has taken, or has just posted. Whether each address has it now."""
        try:
            there = self.addresses(letter.receiver)
        except Unavailable as error:
            _log.warning("alerts: it waits, since nobody can be asked where to send it: %s: %s", letter.title, error)
            return False
        if there == []:
            _log.warning("alerts: %s has no address; not sent: %s", letter.receiver, letter.title)
            self._set_aside(letter)
            return False
        return self._gone(letter) or self._send_to(there or [], letter)

    def _send_to(self, there: Sequence[str], letter: Letter) -> bool:
        """Send it to each address that lacks it. Whether each has it now."""
        reached, untried = list(letter.sent), False
        for address in there:
            digest = address_digest(address)
            if digest in reached:
                continue
            if digest in self.away:
                untried = True
                continue
            if not self.send(letter, address):
                if self.refused.setdefault(digest, letter.event) != letter.event:
                    self.away.add(digest)
                continue
            self.refused.pop(digest, None)
            reached.append(digest)
            if len(there) > 1:
                self._update(letter.model_copy(update={"sent": tuple(reached)}))
        if there and all(address_digest(address) in reached for address in there):
            self.finish(letter)
            return True
        self._postpone(letter.model_copy(update={"sent": tuple(reached)}), give_up=not untried)
        return False

    def finish(self, letter: Letter) -> None:
        """Mark a letter as sent, and take it out."""
        self.store.create(outbox_paths.sent(letter.event, letter.receiver), b"{}")
        self.store.delete(self.key(letter))

    def replace(self, letter: Letter, *, expected: str) -> bool:
        """Store a changed letter, with what only a newer release knows of it; whether no other process was faster."""
        try:
            return replace_document(self.store, self.key(letter), letter, expected=expected)
        except (OtherRelease, CorruptArtifact) as error:
            _log.warning("alerts: the letter is left: %s", error)
            return False

    def _gone(self, letter: Letter) -> bool:
        """Whether it was sent already, by a process that was killed before it took the letter out."""
        if self.store.head(outbox_paths.sent(letter.event, letter.receiver)) is None:
            return False
        self.store.delete(self.key(letter))
        return True

    def _is_away(self, letter: Letter) -> bool:
        """Whether each address that lacks it did not answer a moment ago; its next try comes with the next round.

        Also if nobody can be asked for them; it is not taken then, so no try of it counts.
        """
        if letter.receiver in self.unasked:
            return True
        try:
            there = self.addresses(letter.receiver) or ()
        except Unavailable as error:
            self.unasked.add(letter.receiver)
            _log.warning("alerts: what is for %s waits, since nobody can be asked where: %s", letter.receiver, error)
            return True
        lacking = {address_digest(address) for address in there} - {*letter.sent}
        return bool(lacking) and lacking <= self.away

    def _set_aside(self, letter: Letter) -> None:
        """Keep it among those that reached nobody."""
        place = outbox_paths.given_up(self.installation, letter.pipeline, letter.receiver, letter.event)
        with suppress(FileNotFoundError, OtherRelease, CorruptArtifact):
            written = self.store.read(self.key(letter))
            before = read_stored(Letter, written, where=f"{self.store.uri}/{self.key(letter)}")
            whole = with_unknown(before, json.loads(written), letter)
            self.store.create(place, json.dumps(whole, ensure_ascii=False).encode())
            note_lost_letter(self.store, self.installation, place, letter)
            self.store.delete(self.key(letter))

    def _postpone(self, letter: Letter, *, give_up: bool) -> None:
        """Try it again later, or never if it is old. give_up: whether each address that lacks it was asked now."""
        if give_up and letter.is_old(self.now()):
            self.given_up(letter)
            self._set_aside(letter)
            return
        tries = letter.tries + 1
        self._update(letter.model_copy(update={"tries": tries, "due": self.now() + delay(tries)}))

    def _update(self, letter: Letter) -> None:
        """Store what became of a letter. What cannot be stored is as if this process had been killed."""
        with suppress(RatchetError):
            entry = self.store.head(self.key(letter))
            if entry is not None:
                self.replace(letter, expected=entry.etag)


def _bytes(letter: Letter) -> bytes:
    return letter.model_dump_json().encode()
