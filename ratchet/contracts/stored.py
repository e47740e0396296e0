"""Reading stored documents of other releases: older ones and newer ones. Files that people write are not read here.

A newer release may have added keys. They are left out, unless the document says that its reader must know them: `needs`
maps a name to the release that began with it. A release with a key that an older reader must not leave out writes its
name there, at the top of the document, and has it in KNOWN.

A document that is changed and written again keeps what this release does not know, see `with_unknown`.

A document that takes any key, as an expectation does for its arguments, keeps these by a validator of its own.

A change here violates the promise of the project when a document of another release is taken for a damaged one, or is
acted on without what it needs.
"""

import json
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from pydantic import ValidationError

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.fingerprint import canonical
from ratchet.contracts.release_number import RELEASE

KNOWN: frozenset[str] = frozenset()
"""The needs that this release knows. Names only come in addition: documents last longer than releases."""
_NEEDS = "needs"
_Document = TypeVar("_Document", bound=Document)


def read_stored(kind: type[_Document], data: bytes, *, where: str, known: Collection[str] = KNOWN) -> _Document:
    """A stored document. where: its address, for errors.

    Raises OtherRelease for one that this release cannot read, CorruptArtifact for bytes that are no document at all.
    """
    if b'"needs"' in data:
        _refuse_needs(data, where, known)
    try:
        return kind.model_validate_json(data, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid" or not first["loc"]:
            raise CorruptArtifact(f"{where} is damaged: {first['msg']}", remedy="restore it from a backup") from error
        raise _of_another_release(error, where) from error


def take(kind: type[_Document], plain: object, *, where: str = "") -> _Document:
    """A document inside one that was read, such as the summary of a result; see `read_stored`.

    where: what it is, for errors. Raises OtherRelease then; without it, pydantic's own error.
    """
    try:
        return kind.model_validate(plain, extra="ignore")
    except ValidationError as error:
        if not where:
            raise
        raise _of_another_release(error, where) from error


def _of_another_release(error: ValidationError, where: str) -> OtherRelease:
    first = error.errors(include_url=False, include_input=False)[0]
    key = ".".join(map(str, first["loc"]))
    return OtherRelease(
        f"{where} cannot be read by Ratchet {RELEASE}: {key}: {first['msg']}; another release wrote it",
        remedy="install that release, or restore the file from a backup if it is damaged",
    )


def as_it_is(plain: Any) -> Any:
    """What another release wrote, unchanged."""
    return plain


def with_unknown(before: Document, written: Any, after: Document, unknown: Callable[[Any], Any] = as_it_is) -> Any:
    """The JSON of a changed document, with the keys of another release that reading it left out, at each depth.

    written: the JSON that `before` was read from. An entry of a list is found again by what is known of it. unknown:
    gives what is written of each such key.
    """

    def joined(known: Any, written: Any, changed: Any) -> Any:
        match known, written, changed:
            case dict(), dict(), dict():
                kept = {key: joined(known.get(key), written.get(key), each) for key, each in changed.items()}
                return kept | {key: unknown(each) for key, each in written.items() if key not in known}
            case list(), list(), list() if len(known) == len(written):
                places = {canonical(each): place for place, each in enumerate(known)}
                found = [(each, places.get(canonical(each))) for each in changed]
                return [each if at is None else joined(each, written[at], each) for each, at in found]
        return changed

    return joined(_plain(before), written, _plain(after))


def _plain(document: Document) -> Any:
    return document.model_dump(mode="json", by_alias=True)


def _refuse_needs(data: bytes, where: str, known: Collection[str]) -> None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return  # what reads the rest says what is wrong
    needs = found.get(_NEEDS) if isinstance(found, dict) else None
    lacking = {name: since for name, since in needs.items() if name not in known} if isinstance(needs, dict) else {}
    if lacking:
        name, since = next(iter(lacking.items()))
        raise OtherRelease(
            f"{where} was written by Ratchet {since} or newer and needs {name}; this is Ratchet {RELEASE}",
            remedy=f"upgrade to {since} or newer",
        )
