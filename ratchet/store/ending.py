"""What a lease says of a job that is ending, or has ended, written by who does not hold it.

A change here violates the promise of the project when a lease is written that another one has taken over meanwhile.
"""

from ratchet.store.base import Store
from ratchet.store.lease import Found, read
from ratchet.store.place import End
from ratchet.store.sealed import seal_again


def mark_ending(store: Store, key: str, holder: str, *, ended: bool = False) -> bool:
    """Record that a holder's job is ending, or has ended. False if another one has taken over: the job continues."""
    while (found := read(store, key)) is not None:
        if found.lease.holder != holder:
            return False
        ending = found.lease.model_copy(update={"ending": True, **({"place": None} if ended else {})})
        if store.replace(key, seal_again(found.data, found.lease, ending), expected=found.etag):
            return True
    return True


def leave_end(store: Store, key: str, found: Found, end: End) -> bool:
    """Leave a lease, as it was found, without a holder and a place, with how its job ended. False if it has changed."""
    free = {"holder": "", "process": None, "place": None, "end": end}
    return store.replace(
        key, seal_again(found.data, found.lease, found.lease.model_copy(update=free)), expected=found.etag
    )
