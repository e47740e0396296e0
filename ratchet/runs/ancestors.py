"""The versions that a version began with, as far as they have to be built again before it.

A change here violates the promise of the project when a version is built again from weights whose digest nobody has
compared with its record.
"""

from ratchet.contracts.parent import Parent
from ratchet.contracts.result import StageResult
from ratchet.contracts.version_record import VersionRecord
from ratchet.runs.ingredients import lack
from ratchet.store.base import Store
from ratchet.store.version_records import find_record


def ancestors(store: Store, record: VersionRecord, *, whole: bool) -> tuple[list[VersionRecord], str]:
    """(the versions to build again before a version, oldest first; which weights are gone for good, or nothing).

    whole: all of them, although the store still has their weights. Otherwise only those whose weights it does not have.
    """
    found: list[VersionRecord] = []
    while (parent := (found[0] if found else record).parent) is not None:
        lacking = _lacking(store, parent)
        if not whole and not lacking:
            break
        older = find_record(store, parent.model, parent.version, parent.digest)
        if older is None:
            return found, f"the parent, {parent.title}: {lacking}, and it has no record" if lacking else ""
        found.insert(0, older)
    return found, ""


def rebuilt(parent: Parent | None, shipped: StageResult | None) -> Parent | None:
    """A parent with the files of its rebuild, where there is one."""
    if parent is None or shipped is None:
        return parent
    files = {name: shipped.outputs[name] for name in ("weights", "description")}
    return parent.model_copy(update=files)


def _lacking(store: Store, parent: Parent) -> str:
    files = (parent.weights, parent.description)
    return ", ".join(f"{one.key} {found}" for one in files if (found := lack(store, one)))
