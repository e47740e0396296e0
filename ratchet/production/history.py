"""`history`: every record of a ledger with its time in office."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from ratchet.store.base import Store
from ratchet.store.ledger import Record, records, tenures


@dataclass(frozen=True, kw_only=True)
class Reign:
    """A record, and the data dates for which its version is the champion.

    first is the day after the last date that had a night when it was recorded. last is None while it is in office; both
    are None for a record that moves nothing, or that was replaced before any date had a night.
    """

    record: Record
    first: date | None
    last: date | None


def history(store: Store, model: str) -> tuple[Reign, ...]:
    """The whole ledger, oldest first. Raises CorruptArtifact if it is not whole."""
    return reigns(records(store, model))


def reigns(found: Sequence[Record]) -> tuple[Reign, ...]:
    """The same of records that were read."""
    afters = tenures(found)
    shown = []
    for index, (record, after) in enumerate(zip(found, afters, strict=True)):
        if not record.moves_production:
            shown.append(Reign(record=record, first=None, last=None))
            continue
        ends = [
            end for later, end in zip(found[index + 1 :], afters[index + 1 :], strict=True) if later.moves_production
        ]
        empty = bool(ends) and ends[0] == after
        first = None if empty else date.fromordinal(after.toordinal() + 1)
        shown.append(Reign(record=record, first=first, last=ends[0] if ends and not empty else None))
    return tuple(shown)
