"""What pipelines share: packed folders, the code of releases, the chains of backfills, and old messages of the outbox.

They are looked at once all pipelines were; messages, which go by their age alone, whatever pipelines do.

A change here violates the promise of the project when a bundle goes that a plan or the record of a version names, or
the mark of the last backup, without which the watch misses none.
"""

from collections import defaultdict

from ratchet.collection.findings import Findings, Named, Wholes
from ratchet.collection.kept_runs import DAY_NS
from ratchet.collection.roots import Roots
from ratchet.contracts import left_paths, outbox_paths, paths
from ratchet.contracts.collection import Policy
from ratchet.store.base import Entry, Store


def survey_shared(store: Store, roots: Roots, plans: Named, policy: Policy, now_ns: int) -> Findings:
    """plans: what the plans of runs name that stay, of all pipelines."""
    found = Findings()
    before_ns = now_ns - policy.grace * DAY_NS
    for kind, place, named in (
        ("bundles", paths.FIRST[0], plans.bundles | roots.bundles),
        ("code of releases", paths.release(), plans.releases),
    ):
        for entry in list(store.list(place)):
            if entry.key in named:
                found.keep(kind, "a plan or the record of a version names it", [entry])
            elif entry.modified_ns > before_ns:
                found.keep(kind, f"younger than {policy.grace} days", [entry])
            else:
                found.rest.append(Wholes(kind, "no plan that stays names it", entry, ()))
    by_chain: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in store.list(paths.shadow()):
        _, model, chain, *_ = entry.key.split("/")
        by_chain[model, chain].append(entry)
    for (_, chain), entries in by_chain.items():
        if chain in plans.chains or any(entry.modified_ns > before_ns for entry in entries):
            found.keep("winners of backfills", "a run of the backfill stays, or it is young", entries)
        else:
            found.rest.append(Wholes("winners of backfills", "no run of the backfill stays", None, tuple(entries)))
    return found


def survey_aged(store: Store, policy: Policy, now_ns: int) -> Findings:
    """What no plan names, and goes by its age."""
    found = Findings()
    for kind, place in (("messages", outbox_paths.EVERY), ("what followers of hosts have said", left_paths.EVERY)):
        entries = list(store.list(place))
        found.keep(kind, "the watch looks at it", filter(_is_looked_at, entries))
        _by_age(found, kind, [entry for entry in entries if not _is_looked_at(entry)], policy, now_ns)
    return found


def _is_looked_at(entry: Entry) -> bool:
    return outbox_paths.is_backup(entry.key)


def _by_age(found: Findings, kind: str, entries: list[Entry], policy: Policy, now_ns: int) -> None:
    """What stays as long as results do."""
    for entry in entries:
        if now_ns - entry.modified_ns < policy.results * DAY_NS:
            found.keep(kind, f"younger than {policy.results} days", [entry])
        else:
            found.rest.append(Wholes(kind, f"older than {policy.results} days", entry, ()))
