"""The end of an attempt whose task was told to stop, seen to by a process of its own.

Run as `python -m ratchet.runs.ending CONTAINER GRACE_S STORE LEASE HOLDER`.

A change here violates the promise of the project when a container is told to stop that another attempt has taken over.
"""

import sys
from contextlib import suppress

from ratchet.contracts.errors import Unavailable
from ratchet.runners.apart import start_apart, undisturbed

_MODULE = "ratchet.runs.ending"


def end_later(handle: str, grace_s: float, *, store: str, lease: str, holder: str) -> None:
    """Return at once, and have a container told to stop, killed if it is still there after its grace, and removed.

    Nothing happens to it if another has the lease by then. No word is said to the engine or the store from here, so
    that a signal's handler may call this, in the middle of another word to them.
    """
    start_apart(_MODULE, handle, f"{grace_s}", store, lease, holder)


def main(arguments: list[str]) -> None:
    """See to the end of one container, unless another has taken it over."""
    handle, grace, store, lease, holder = arguments
    undisturbed(float(grace))
    from ratchet.runners.finisher import finish
    from ratchet.store.lease import conclude
    from ratchet.store.opening import open_store

    with suppress(Unavailable):  # a container that nobody may follow any more is worse than one that was stopped
        if not conclude(open_store(store), lease, holder):
            return
    finish(handle, float(grace))


if __name__ == "__main__":
    main(sys.argv[1:])
