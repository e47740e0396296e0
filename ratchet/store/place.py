"""The engine in which a job lives that outlives its follower, and when nothing lives there any more.

A host that is gone cannot say that its containers are. So a stage shows a sign of life in the store, beside the beat of
its follower, and stops by itself when it has not reached the store for CUT_OFF_S. Where the store has had neither for
LOST_S, by its own clock alone, the job does not run.

A change here violates the promise of the project when LOST_S is not longer than CUT_OFF_S and the grace of a stage, or
when a clock of a host decides.
"""

import secrets

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.store.base import Entry, Store

CUT_OFF_S = 3 * 3600.0
LOST_S = 3.5 * 3600
LOOK_S = 20.0
"""Seconds between two looks of a stage at its lease, each with a sign of life."""
QUIET_S = 120.0
"""Seconds after which a person may say that a host is gone: several beats, and several signs."""
_NS = 1_000_000_000


class Place(Document):
    """Where a job lives, written before it is made."""

    engine: str = Field(description="The id of the Docker engine, with its host's name.")
    host: str = Field(description="What the engine calls its host, for people.")
    sign: str = Field(description="The key under which the job shows that it lives.")


class End(Document):
    """How a job ended that has no result: for an attempt that goes on where it does not see the job."""

    exit_code: int = Field(description="128 + n if signal n ended it.")
    out_of_memory: bool = Field(default=False, description="Whether the kernel killed it for its memory.")
    cause: str = Field("", description="Who killed it, in words, where its engine shows that.")
    host: str = Field(description="Where it ran, for people.")
    lines: tuple[str, ...] = Field(
        (), description="Its last lines, without secrets; with no log only what its failure says beside its words."
    )
    log: str | None = Field(None, description="The key of its log; None where nobody has read it.")


def is_lost(store: Store, lease: Entry | None, place: Place) -> bool:
    """Whether a job elsewhere has ended for sure, although nobody there says so. lease: as it was read."""
    return lease is not None and quiet_s(store, lease, place) > LOST_S


def quiet_s(store: Store, lease: Entry, place: Place) -> float:
    """For how many seconds neither the follower of a job nor the job has been heard, by the store's clock alone."""
    probe = f"{place.sign}-{secrets.token_hex(4)}"
    try:
        store.create(probe, b"")
        now, sign = store.head(probe), store.head(place.sign)
    finally:
        store.delete(probe)
    heard = max(lease.modified_ns, sign.modified_ns if sign is not None else 0)
    return (now.modified_ns - heard) / _NS if now is not None else 0.0
