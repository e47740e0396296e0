"""The alerts about a pipeline that reached nobody, the newest ones in one document, for its page.

It is a copy of letters that were given up, never the authority. The process that gives a letter up writes it before it
takes the letter out of the outbox, so that who is killed in between leaves that to the next one; the watch mends it.

A change here violates the promise of the project when an alert that reached nobody is not shown.
"""

from collections.abc import Callable

from pydantic import AwareDatetime, Field

from ratchet.contracts import outbox_paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.masking import masked_logger
from ratchet.outbox.letter import Letter
from ratchet.store.base import Entry, Store
from ratchet.store.documents import read_document, write_shared

MOST = 20
"""So many of a pipeline are shown."""
_MOST_READ = 5 * MOST
"""Of those that a document lacks, as after a release that wrote none."""
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


def note_lost_letter(store: Store, installation: str, key: str, letter: Letter) -> None:
    """Add a letter that was given up. key: where it is kept."""

    def change(before: LostLetters) -> LostLetters:
        return _newest(*(one for one in before.letters if one.key != key), _line(key, letter))

    _write(store, installation, letter.pipeline, change)


def renew_lost_letters(store: Store, installation: str, pipeline: str) -> None:
    """Write the document as the letters are now. Reads those that it does not have, the newest of them."""

    def change(before: LostLetters) -> LostLetters:
        there = sorted(store.list(outbox_paths.undelivered(installation, pipeline)), key=lambda one: one.modified_ns)
        keys = {entry.key for entry in there}
        known = [one for one in before.letters if one.key in keys]
        others = [entry for entry in there if entry.key not in {one.key for one in known}]
        read = (_read_line(store, entry.key) for entry in others[-_MOST_READ:])
        return _newest(*known, *(one for one in read if one is not None))

    _write(store, installation, pipeline, change)


def _write(store: Store, installation: str, pipeline: str, change: Callable[[LostLetters], LostLetters]) -> None:
    key = outbox_paths.newest_undelivered(installation, pipeline)

    def make(entry: Entry | None) -> bytes | None:
        before = _read(store, key) if entry else LostLetters()
        after = change(before)
        return after.model_dump_json().encode() if after != before else None

    if not write_shared(store, key, make):
        _log.warning("alerts: the list of those about %s that reached nobody is not written: others write it", pipeline)


def _newest(*letters: LostLetter) -> LostLetters:
    """By when they were made: files have other times in a copy of a store."""
    return LostLetters(letters=tuple(sorted(letters, key=lambda one: (one.made, one.key))[-MOST:]))


def _line(key: str, letter: Letter) -> LostLetter:
    return LostLetter(key=key, made=letter.made, receiver=letter.receiver, title=letter.title)


def _read(store: Store, key: str) -> LostLetters:
    try:
        return read_document(store, key, LostLetters)
    except (FileNotFoundError, CorruptArtifact, OtherRelease):
        return LostLetters()


def _read_line(store: Store, key: str) -> LostLetter | None:
    try:
        return _line(key, read_document(store, key, Letter))
    except FileNotFoundError:
        return None  # removed meanwhile
    except (OtherRelease, CorruptArtifact) as error:
        _log.warning("alerts: the letter is left: %s", error)
        return None
