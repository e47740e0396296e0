"""Results of long ago that are taken again: their manifest is written again first, so that `ratchet gc` leaves them.

A collection deletes a manifest only in the state in which it saw it. So of a reuse and a collection at one time, one is
first: either the manifest is written again and stays, or it is gone and the result is computed again.

A change here violates the promise of the project when a result of long ago is taken whose manifest this has not seen.
"""

from datetime import UTC, datetime, timedelta

from ratchet.contracts.errors import CorruptArtifact, NoAnswer
from ratchet.contracts.result import PublishedResult
from ratchet.store.base import Store
from ratchet.store.publishing import parse
from ratchet.store.sealed import seal_again

_YOUNG = timedelta(days=1)
"""Less than the shortest grace of a collection, by as much as two clocks may differ."""
_TRIES = 20


def renew(store: Store, found: PublishedResult) -> bool:
    """Whether a published result may be taken; its manifest is written again if it is old. False if it is gone."""
    for _ in range(_TRIES):
        if _is_young(found):
            return True
        entry = store.head(found.key)
        if entry is None:
            return False
        try:
            data = store.read(found.key)
            found = parse(store, found.key, data)
        except (CorruptArtifact, FileNotFoundError):
            return False
        if _is_young(found):
            return True
        renewed = found.result.model_copy(update={"used": datetime.now(UTC)})
        if store.replace(found.key, seal_again(data, found.result, renewed), expected=entry.etag):
            return True
    raise NoAnswer(f"{store.uri}/{found.key}: other processes keep writing it")


def _is_young(found: PublishedResult) -> bool:
    return datetime.now(UTC) - (found.result.used or found.result.finished) < _YOUNG
