"""The alerts about a pipeline that reached nobody, the newest ones in one document, for its page.

It is a copy of letters that were given up, never the authority. The process that gives a letter up writes it before it
takes the letter out of the outbox, so that who is killed in between leaves that to the next one; the watch mends it.

A change here violates the promise of the project when an alert that reached nobody is not shown.
"""

import random
import time

from pydantic import AwareDatetime, Field

from ratchet.contracts import outbox_paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.masking import masked_logger
from ratchet.outbox.letter import Letter
from ratchet.store.base import Entry, Store
from ratchet.store.documents import read_document

MOST = 20
"""So many of a pipeline are shown."""
_TRIES = 10
_WAIT_S = 0.05
_log = masked_logger("ratchet.alerts")


class LostLetter(Document):
    """A letter that was given up, in one line. key: of the letter."""

    key: str
    made: AwareDatetime
    receiver: str
    title: str


class LostLetters(Document):
    """The newest ones, oldest first."""

    letters: tuple[LostLetter, ...] = Field((), description="Of one pipeline.")


def lost_letters(store: Store, installation: str, pipeline: str) -> tuple[LostLetter, ...]:
    """The newest ones of a pipeline, oldest first. One request."""
    return _read(store, outbox_paths.newest_undelivered(installation, pipeline)).letters


def note_lost_letters(store: Store, installation: str, pipeline: str) -> None:
    """Write the document, as the letters are now. Reads those that it does not have yet."""
    key = outbox_paths.newest_undelivered(installation, pipeline)
    for attempt in range(_TRIES):
        entry = store.head(key)
        before = _read(store, key) if entry else LostLetters()
        there = sorted(store.list(outbox_paths.undelivered(installation, pipeline)), key=lambda one: one.modified_ns)
        known = {letter.key: letter for letter in before.letters}
        found = [known.get(one.key) or _line(store, one) for one in there[-MOST:]]
        after = LostLetters(letters=tuple(sorted((one for one in found if one is not None), key=lambda one: one.made)))
        data = after.model_dump_json().encode()
        if after == before or store.replace(key, data, expected=entry.etag if entry else None):
            return
        time.sleep(random.uniform(0, _WAIT_S * 2**attempt))
    _log.warning("alerts: the list of those about %s that reached nobody is not written: others write it", pipeline)


def _read(store: Store, key: str) -> LostLetters:
    try:
        return read_document(store, key, LostLetters)
    except (FileNotFoundError, CorruptArtifact, OtherRelease):
        return LostLetters()


def _line(store: Store, entry: Entry) -> LostLetter | None:
    try:
        letter = read_document(store, entry.key, Letter)
    except FileNotFoundError:
        return None  # removed meanwhile
    except (OtherRelease, CorruptArtifact) as error:
        _log.warning("alerts: the letter is left: %s", error)
        return None
    return LostLetter(key=entry.key, made=letter.made, receiver=letter.receiver, title=letter.title)
