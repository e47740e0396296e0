"""Alerts while the store is away: in a folder of this host, until the store answers again.

A change here violates the promise of the project when a file goes before the store has what it says.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

from pydantic import AwareDatetime

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.masking import masked_logger
from ratchet.contracts.stored import read_stored
from ratchet.outbox.incidents import announce_store, join
from ratchet.outbox.letter import Letter, address_digest
from ratchet.outbox.outbox import Outbox

_log = masked_logger("ratchet.alerts")
_Kind = TypeVar("_Kind", bound=Document)
_AWAY = "store-away.json"
_SAID = "store-away-said.json"
_WINDOW, _LONG = timedelta(hours=1), timedelta(minutes=15)
"""Within a window after it was said that the store is away, it is said again only of an outage that is so long."""


class Kept(Document):
    """An event that could not be claimed: its key, its file's text, and its letters."""

    event: str
    content: str
    letters: tuple[Letter, ...]


class _Away(Document):
    """heard: each receiver and the digest of one of its addresses that has heard it."""

    since: AwareDatetime
    heard: tuple[str, ...] = ()


class _Said(Document):
    """When somebody heard last that the store is away. It outlives that outage."""

    last: AwareDatetime


class Spool:
    """The folder. It is made when it is needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, event: str, content: bytes, letters: Sequence[Letter]) -> bool:
        """Keep an event for later. Whether it is new here. Raises OSError if the disk does not take it."""
        name = f"{hashlib.sha256(event.encode()).hexdigest()[:32]}.event"
        if (self.folder / name).exists():
            return False
        self._write(name, Kept(event=event, content=content.decode(), letters=tuple(letters)))
        return True

    def drain(self, outbox: Outbox) -> int:
        """Post what was kept, as soon as the store answers; how much. Raises RatchetError while it does not."""
        posted = 0
        for file in self.files():
            try:
                kept = read_stored(Kept, file.read_bytes(), where=str(file))
            except FileNotFoundError:
                continue  # another process posts it
            except OtherRelease as error:
                _log.warning("alerts: what is kept is left: %s", error)
                continue
            except CorruptArtifact as error:
                _log.warning("alerts: what is kept is set aside: %s", error)
                file.rename(file.with_suffix(".damaged"))
                continue
            letters = [join(outbox, letter.model_copy(update={"due": outbox.now()})) for letter in kept.letters]
            posted += outbox.post(kept.event, kept.content.encode(), letters)
            file.unlink(missing_ok=True)
        return posted

    def files(self) -> list[Path]:
        """What is kept."""
        return sorted(self.folder.glob("*.event"))

    def is_of_the_watch(self) -> bool:
        """Whether a watch here has seen that the store is away. It sees, too, that it is back, before it posts."""
        return (self.folder / _AWAY).exists()

    def store_is_away(
        self, receivers: Mapping[str, Sequence[str]], say: Callable[[str, str], bool], now: datetime
    ) -> None:
        """Say so once to each address of each receiver. say: whether one took it. Call it at each look that finds so.

        A first look may have met no more than one slow answer, so nothing is said before the second in a row.
        """
        known = self._away()
        if known is None:
            self._write(_AWAY, _Away(since=now))
            return
        if not known.heard and now - known.since < _LONG and self._was_said_lately(now):
            return
        for receiver, addresses in receivers.items():
            for address in addresses:
                one = f"{receiver} {address_digest(address)}"
                if one not in known.heard and say(receiver, address):
                    known = known.model_copy(update={"heard": (*known.heard, one)})
                    self._write(_AWAY, known)
                    self._write(_SAID, _Said(last=now))

    def store_is_back(self, outbox: Outbox) -> int:
        """Post what was kept; who has heard that the store was away hears how it ended. How much was posted."""
        known = self._away()
        for receiver in sorted({one.partition(" ")[0] for one in known.heard}) if known else ():
            announce_store(outbox, receiver, known.since if known else outbox.now())
        posted = self.drain(outbox)
        (self.folder / _AWAY).unlink(missing_ok=True)
        return posted

    def _away(self) -> _Away | None:
        return self._read(_AWAY, _Away)

    def _was_said_lately(self, now: datetime) -> bool:
        said = self._read(_SAID, _Said)
        return said is not None and now - said.last < _WINDOW

    def _read(self, name: str, kind: type[_Kind]) -> _Kind | None:
        file = self.folder / name
        with suppress(FileNotFoundError, OtherRelease, CorruptArtifact):
            return read_stored(kind, file.read_bytes(), where=str(file))
        return None

    def _write(self, name: str, what: Document) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{name}.{token_hex(4)}.tmp"
        with file.open("wb") as writing:
            writing.write(what.model_dump_json().encode())
            writing.flush()
            os.fsync(writing.fileno())
        file.replace(self.folder / name)
