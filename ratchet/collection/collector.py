"""`ratchet gc`: looks at the pipelines of a store, one after the other, and deletes what nothing keeps.

One pipeline is collected under the lease of purges and expiries. It is looked at, and then once more for whether a run
was planned or a result was published meanwhile. Then results go before the parts of days that they are made of, and of
each the manifest first, only as it was seen. See docs/adr/059.

A change here violates the promise of the project when something is deleted that was named since it was looked at, or
when a kill leaves a manifest that names a file which is gone.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress

from ratchet.collection.beside import collect_images, collect_trainings
from ratchet.collection.deleting import UsedMeanwhile, delete
from ratchet.collection.findings import Collected, Findings, Named, Wholes, added
from ratchet.collection.kept_runs import DAY_NS, models_of
from ratchet.collection.marks import is_part
from ratchet.collection.roots import Roots, read_roots
from ratchet.collection.shared import survey_aged, survey_shared
from ratchet.collection.survey import REMOVAL, Survey, pipelines_of, survey, taking_parts
from ratchet.contracts import paths
from ratchet.contracts.collection import Policy
from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable
from ratchet.contracts.stages import TRAININGS
from ratchet.runs.standstill import only_removal
from ratchet.store.base import Store

_TRIES = 3
_NOT_ALL = "what they share is looked at when all pipelines can be"
_MEANWHILE = "runs of it were planned or ended meanwhile; the rest is left for the next time"


class Collector:
    """One collection of a store. apply: whether it deletes; else it only says what would go."""

    def __init__(self, store: Store, tracking_uri: str | None, policy: Policy, *, apply: bool) -> None:
        self._store, self._policy, self._apply = store, policy, apply
        self._tracking_uri = tracking_uri
        self._now_ns = 0
        """By the store's clock."""
        self._plans = Named()
        """What the plans of all pipelines name of what these share."""

    def collect(self, only: Collection[str] = ()) -> list[Collected]:
        """Collect all pipelines, or some. Raises ConfigurationError for one that the store does not have."""
        known = list(pipelines_of(self._store))
        if unknown := sorted({*only} - {*known}):
            raise ConfigurationError(
                f"{self._store.uri} has no run of {', '.join(unknown)}",
                remedy=f"check --store, or name one of: {', '.join(known) or 'none'}",
            )
        self._now_ns = self._store.now_ns()
        planned = self._planned()
        roots = read_roots(self._store, self._tracking_uri)
        blocked = self._blocked(roots, known)
        found = []
        for pipeline in known:
            if only and pipeline not in only:
                continue
            try:
                if pipeline in blocked:
                    raise blocked[pipeline]
                found.append(self._delete(pipeline, roots) if self._apply else self._look(pipeline, roots))
            except RatchetError as error:
                found.append(Collected(pipeline=pipeline, unchecked=str(error)))
        whole = not only and not any(one.unchecked for one in found)
        found.append(self._shared(roots, planned, whole=whole, aged=not only))
        if whole and not found[-1].left:
            found += self._beside(roots, known)
        if self._apply:
            self._store.sweep(older_than_s=self._policy.grace * DAY_NS / 1e9)
        return found

    def _blocked(self, roots: Roots, known: list[str]) -> dict[str, RatchetError]:
        """Pipelines that may have made versions of a model whose ledger, records or registry cannot be read."""
        if not roots.unread:
            return {}
        models = {pipeline: models_of(self._store, pipeline) for pipeline in known}
        found: dict[str, RatchetError] = {}
        for model, error in roots.unread.items():
            its = [pipeline for pipeline, names in models.items() if model in names]
            found |= dict.fromkeys(its or known, error)
        return found

    def _look(self, pipeline: str, roots: Roots) -> Collected:
        seen = survey(self._store, pipeline, roots, self._policy, self._now_ns)
        self._plans.add(seen.findings.named)
        return Collected(pipeline=pipeline, goes=seen.findings.goes, stays=seen.findings.stays, left=_waits(seen))

    def _delete(self, pipeline: str, roots: Roots) -> Collected:
        store, left, gone = self._store, _MEANWHILE, list[Wholes]()
        with only_removal(store, pipeline, "ratchet gc", wait_s=0, outlives=True) as hold:
            for _ in range(_TRIES):
                lease = store.head(paths.lease(pipeline, REMOVAL, "rows"))
                if lease is None:
                    raise Unavailable(f"the lease of the collection of {pipeline} is gone", remedy="run it again")
                self._now_ns = lease.modified_ns
                before = _state(store, pipeline)
                seen = survey(store, pipeline, roots, self._policy, lease.modified_ns)
                if not _is_as_before(store, pipeline, before):
                    continue
                try:
                    delete(store, seen.findings.results, hold, gone.append)
                    left = _waits(seen)
                    if not left and (left := self._why_parts_wait(pipeline, before)) == "":
                        delete(store, seen.findings.parts, hold, gone.append)
                    if not TRAININGS & self._working(pipeline):
                        delete(store, seen.findings.checkpoints, hold, gone.append)
                    delete(store, seen.findings.rest, hold, gone.append)
                except UsedMeanwhile:
                    left = _MEANWHILE
                    continue
                break
        self._plans.add(seen.findings.named)
        return Collected(pipeline=pipeline, goes=added(gone), stays=seen.findings.stays, left=left)

    def _why_parts_wait(self, pipeline: str, before: dict[str, str]) -> str:
        """Why parts of days are left: a stage may have found one. In this order, as a stage has its lease first."""
        if taking_parts(self._working(pipeline)):
            return "a stage runs now; parts of days are left for the next time"
        return "" if _is_as_before(self._store, pipeline, before) else _MEANWHILE

    def _working(self, pipeline: str) -> frozenset[str]:
        """Stages that hold a lease. One that died with its lease counts until the lease is older than the grace."""
        listed = list(self._store.list(paths.leases(pipeline)))
        now = max((entry.modified_ns for entry in listed), default=0)  # our own lease is among them
        young = (entry for entry in listed if now - entry.modified_ns <= self._policy.grace * DAY_NS)
        return frozenset(entry.key.split("/")[2] for entry in young) - {REMOVAL}

    def _shared(self, roots: Roots, planned: set[str], *, whole: bool, aged: bool) -> Collected:
        """planned: see `_planned`, before any pipeline was seen. whole: whether all were. aged: see `survey_aged`."""
        store, gone, left = self._store, list[Wholes](), "" if whole else _NOT_ALL
        old = survey_aged(store, self._policy, self._now_ns) if aged else Findings()
        if not self._apply:
            seen = survey_shared(store, roots, self._plans, self._policy, self._now_ns) if whole else Findings()
            return Collected(goes=added((*old.rest, *seen.rest)), stays={**old.stays, **seen.stays}, left=left)
        stays = {**old.stays}
        with suppress(UsedMeanwhile):
            delete(store, old.rest, None, gone.append)
        if whole:
            left = _MEANWHILE
            try:
                settled = self._look_again(roots, planned)
            except RatchetError as error:
                return Collected(goes=added(gone), stays=stays, unchecked=str(error))
            if settled is not None:
                stays |= settled.stays
                with suppress(UsedMeanwhile):
                    delete(store, settled.rest, None, gone.append)
                    left = ""
        return Collected(goes=added(gone), stays=stays, left=left)

    def _look_again(self, roots: Roots, planned: set[str]) -> Findings | None:
        """What they share, looked at while no run was planned; None where one is being planned, or too many were."""
        for _ in range(_TRIES):
            seen = survey_shared(self._store, roots, self._plans, self._policy, self._now_ns)
            later = {entry.key for entry in self._store.list(paths.FIRST[2])} - planned
            if not later:
                return seen
            if any(map(self._lacks_plan, later)):  # it may take a bundle that it has found, and name it in a moment
                return None
            planned |= later
            for pipeline in {key.split("/")[1] for key in later}:
                self._plans.add(survey(self._store, pipeline, roots, self._policy, self._now_ns).findings.named)
        return None

    def _planned(self) -> set[str]:
        """The marks of runs that have a plan now, and of those whose planning was given up."""
        marks = list(self._store.list(paths.FIRST[2]))
        young = (mark.key for mark in marks if self._now_ns - mark.modified_ns < DAY_NS)
        return {mark.key for mark in marks} - {*filter(self._lacks_plan, young)}

    def _lacks_plan(self, mark: str) -> bool:
        return self._store.head(paths.plan(mark.split("/")[1], paths.last(mark))) is None

    def _beside(self, roots: Roots, known: list[str]) -> Iterator[Collected]:
        """What is not in the store, where the settings and the policy name it."""
        if self._policy.images:
            yield collect_images(self._plans.gone_images - self._plans.images - roots.images, apply=self._apply)
        if (self._tracking_uri or "").startswith(("http://", "https://")):
            before_ms = (self._now_ns - self._policy.grace * DAY_NS) // 10**6
            uri, store = str(self._tracking_uri), self._store.uri
            yield collect_trainings(uri, store, known, self._plans.runs, before_ms, apply=self._apply)


def _waits(seen: Survey) -> str:
    """Why parts of days wait. A training or a report does not hold them up: it runs at every hour in some set-ups."""
    working = taking_parts(seen.working)
    if seen.findings.parts and working:
        return f"{', '.join(sorted(working))} may run now; parts of days are left for the next time"
    return ""


def _state(store: Store, pipeline: str) -> dict[str, str]:
    """The etags of what names others: records of runs, manifests of stages, and indexes of parts."""
    runs = [entry for entry in store.list(paths.runs(pipeline)) if entry.key.endswith(".json")]
    published = [
        entry
        for entry in store.list(paths.published(pipeline))
        if (not is_part(entry.key) and entry.key == paths.manifest(paths.published_prefix(entry.key)))
        or entry.key == paths.parts_index(pipeline, entry.key.split("/")[2])
    ]
    return {entry.key: entry.etag for entry in (*runs, *published)}


def _is_as_before(store: Store, pipeline: str, before: dict[str, str]) -> bool:
    """Whether nothing of it is new or has changed; some may be gone."""
    return _state(store, pipeline).items() <= before.items()
