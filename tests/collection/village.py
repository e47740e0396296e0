"""A store of one pipeline whose nights publish small results with the real code, and a clock that can be moved on.

A night makes the rows of each day of its window, a part of it, features of them, a model and an evaluation, and takes
what it finds. Each night finds other rows of the day before than the night before did. A backfill takes the rows that
the first run of its date saw.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from threading import RLock, get_ident
from threading import enumerate as threads
from typing import Self

from ratchet.collection.collector import Collected, Collector
from ratchet.contracts import paths
from ratchet.contracts.collection import Policy
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import Outcome, RunKind, SourceDay
from ratchet.contracts.result import Artifact, PublishedResult
from ratchet.production.loading import _keep
from ratchet.runs.history import first_judged, seen_days
from ratchet.runs.outcomes import outcome_of
from ratchet.runtime.held_days import table_of
from ratchet.store.ledger import Change, Record, append, records
from ratchet.store.publishing import Transaction, find_result, read_manifest, verify
from ratchet.store.renewal import renew
from ratchet.store.version_records import keep_record, versions, versions_of
from tests.collection.village_rows import Tables, snapshot_of
from tests.collection.village_store import Clock, WatchedStore
from tests.runs.test_requests import plan
from tests.store.test_version_records import record

NAME, MODEL = "small", "small"
FIRST = datetime.now(UTC).date()
WINDOW = 3
POLICY = Policy(results=10, runs=40, last=2, grace=3)
PART = paths.day_part("features")


class Killed(BaseException):
    """The process ends here."""


class Village:
    """See above. nights: how many there were."""

    def __init__(self) -> None:
        self.store, self.clock, self.nights = WatchedStore(uuid.uuid4().hex), Clock(), 0
        self.corrected: set[date] = set()
        """Days of which the source has other rows again."""

    @property
    def tables(self) -> Tables:
        return Tables(self.store, NAME, table_of(plan().spec))

    def rows(self, day: date) -> str:
        """The rows of a day as the source has them now."""
        is_whole = FIRST + timedelta(days=int(self.clock.days)) > day
        return f"{'corrected' if day in self.corrected else 'all' if is_whole else 'some'} rows of {day}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clock.stop()

    def night(self, day: date | None = None, *, code: str = "1", run_id: str = "", kind: RunKind = "scheduled") -> str:
        """A run of a date, of code of so many versions; the id of the run."""
        self.nights += 1
        run_id, day = run_id or f"run-{self.nights}", day or FIRST + timedelta(days=int(self.clock.days))
        self.store.create(paths.night(NAME, day, run_id), b"")
        bundle = Artifact(key=paths.bundle(digest(code.encode())), sha256=digest(code.encode()), bytes=len(code))
        if self.store.head(bundle.key) is None:
            self.store.create(bundle.key, code.encode())
        days = [day - timedelta(days=back) for back in reversed(range(WINDOW))]
        made = plan({"source.window_days": WINDOW}, run_id=run_id, data_date=day, bundle=bundle, kind=kind)
        first = first_judged(self.store, NAME, day) if kind == "backfill" else None
        then = seen_days(self.store, first, made.spec) if first is not None else {}
        source = tuple(then.get(one, SourceDay(day=one, files=())) for one in days)
        made = made.model_copy(update={"source": source, "as_of": "then" if first is not None else "now"})
        self.store.create(paths.plan(NAME, run_id), made.model_dump_json(by_alias=True).encode())
        held = {one.day: one.held for one in source if one.held is not None}
        ingest = self.tables.ingest({one: self.rows(one) for one in days}, held, f"attempt-{self.nights}")
        self._end(run_id, ingest)
        of = {one.day: one.file.sha256 for one in snapshot_of(ingest).days}
        parts = [self._take(PART, f"{of[one]} {code}", {"rows": f"rows of {of[one]}"}) for one in days]
        days = [of[one] for one in days]
        rows = {f"rows.{one}": part.result.outputs["rows"] for one, part in zip(days, parts, strict=True)}
        features = self._take("features", f"{days} {code}", {"fitted": f"{day}"}, refers=rows)
        self._end(run_id, features)
        train = self._take("train", f"{days} {code}", {"weights": f"weights {day}" * 50, "code": code})
        self._end(run_id, train)
        self._end(run_id, self._take("evaluate", f"{days} {code}", {"scoring": f"scores {day}"}))
        key = paths.log(NAME, run_id, "train", 1)
        self.store.replace(key, b"a line", expected=getattr(self.store.head(key), "etag", None))
        self.store.create(paths.alert(NAME, run_id, "failure"), b"{}")
        return run_id

    def crash(self, day: date) -> None:
        """An attempt leaves a file, and a checkpoint, and is never heard of again."""
        Transaction(self.store, paths.published(NAME, "train", digest(f"{day}".encode())), "dead").add_bytes("w", b"x")
        place = paths.checkpoints(NAME, "train", digest(b"key"), digest(f"{day}".encode()))
        self.store.create(f"{place}/origin.json", b"{}")
        self.store.create(f"{place}/step-1.safetensors", b"weights")
        self.store.create(f"{place}/step-1.json", b"{}")

    def promote(self, run_id: str) -> Record | None:
        """By hand, of a run whose results are there; None where they are not any more."""
        manifests = self.manifests(run_id)
        change = self.change(run_id, manifests)
        _keep(self.store, Record(number=1, after=FIRST, **change.model_dump(exclude={"after"})))
        return append(self.store, change, after=len(records(self.store, MODEL)))

    def register(self, run_id: str) -> None:
        """A version that does not go into production."""
        ingest = read_manifest(self.store, self.manifests(run_id)["ingest"])
        made = record(f"{len(versions(self.store, MODEL)) + 1}", digest(run_id.encode()))
        keep_record(self.store, made.model_copy(update={"snapshot": snapshot_of(ingest)}))

    def roll_back(self) -> None:
        history = records(self.store, MODEL)
        if len(history) > 1:
            change = history[-2].model_dump(exclude={"number", "previous", "after"}) | {"action": "rollback"}
            append(self.store, Change(**change), after=len(history))

    def hold(self) -> None:
        history = records(self.store, MODEL)
        if history:
            change = history[-1].model_dump(exclude={"number", "previous", "after"}) | {"action": "hold"}
            append(self.store, Change(**change), after=len(history))

    def collect(self, policy: Policy = POLICY, *, apply: bool = True) -> list[Collected]:
        return Collector(self.store, None, policy, apply=apply).collect()

    def manifests(self, run_id: str) -> dict[str, str]:
        """Of a run's outcomes."""
        found = {}
        for stage in ("ingest", "features", "train", "evaluate"):
            key = paths.outcome(NAME, run_id, stage)
            if self.store.head(key) is not None:
                found[stage] = Outcome.model_validate_json(self.store.read(key)).manifest or ""
        return found

    def check(self, policy: Policy = POLICY) -> None:
        """Whatever there is, is whole; and all that has to be there, is."""
        for entry in list(self.store.list(paths.published(NAME))):
            if entry.key == paths.manifest(paths.published_prefix(entry.key)):
                assert verify(self.store, read_manifest(self.store, entry.key)) == [], entry.key
        needed = [key for record in records(self.store, MODEL) for key in record.manifests.values()]
        for run_id in self.whole_runs(policy):
            needed += self.manifests(run_id).values()
        for key in needed:
            assert verify(self.store, read_manifest(self.store, key)) == [], key
        ingests = [read_manifest(self.store, key) for key in needed if key.split("/")[2] == "ingest"]
        registered = [one.snapshot for one in versions_of(self.store, NAME)]
        self.tables.check([*map(snapshot_of, ingests), *registered])
        for run_id in self.runs():
            made = paths.plan(NAME, run_id)
            assert self.store.head(made) is not None
        for _, bundle in self.bundles():
            assert self.store.head(bundle) is not None

    def runs(self) -> list[str]:
        """Those with a plan, the newest first."""
        listed = [entry for entry in self.store.list(paths.runs(NAME)) if paths.run_of_plan(entry.key) is not None]
        return [entry.key.split("/")[2] for entry in sorted(listed, key=lambda one: one.modified_ns, reverse=True)]

    def bundles(self) -> Iterator[tuple[str, str]]:
        """The run and the bundle of each plan."""
        from ratchet.runs.history import plan_of

        for run_id in self.runs():
            if (found := plan_of(self.store, NAME, run_id)) is not None:
                yield run_id, found.bundle.key

    def whole_runs(self, policy: Policy = POLICY) -> list[str]:
        """Those that the policy keeps whole."""
        now = self.clock.now.timestamp() * 1e9
        found = []
        for place, run_id in enumerate(self.runs()):
            newest = max(entry.modified_ns for entry in self.store.list(paths.run(NAME, run_id)))
            if place < policy.last or now - newest < (policy.results - 0.01) * 86_400e9:
                found.append(run_id)
        return found

    @contextmanager
    def killed_at(self, call: int, name: str = "") -> Iterator[None]:
        """The process ends at the call of this number to the store; with a name, only calls of that name count."""

        def die() -> None:
            raise Killed

        with self.meanwhile(call, die, name), suppress(Killed):
            yield

    @contextmanager
    def meanwhile(self, call: int, act: Callable[[], object], name: str = "") -> Iterator[None]:
        """Something happens before the call of this number, while no other call goes on."""
        left, mine, lock, dies = [call], [False], RLock(), getattr(act, "__name__", "") == "die"
        others = set[int]()
        """The threads that there were when the act began, and that wait for its end. Those of its own pools go on."""

        def before(called: str, key: str) -> None:
            if key.startswith(paths.leases(NAME)) or name not in {"", called}:
                return  # the beat of a lease is in another thread
            if mine[0] and get_ident() not in others:
                return
            with lock:
                if mine[0]:
                    return
                left[0] -= 1
                others.clear()
                others.update(one.ident or 0 for one in threads() if one.ident != get_ident())
                mine[0] = True
                if left[0] == 0 or (left[0] < 0 and dies):
                    act()
                mine[0] = False

        self.store.before = before  # type: ignore[method-assign]
        try:
            yield
        finally:
            del self.store.before

    def _take(
        self, stage: str, of: str, outputs: dict[str, str], refers: dict[str, Artifact] | None = None
    ) -> PublishedResult:
        """Find a result, or make it, as a run does."""
        made = digest(f"{stage} {of}".encode())
        prefix = paths.published(NAME, stage, made)
        found = find_result(self.store, prefix)
        if found is not None and renew(self.store, found):
            return found
        transaction = Transaction(self.store, prefix, f"attempt-{self.nights}")
        for name, text in outputs.items():
            transaction.add_bytes(name, text.encode())
        for name, artifact in (refers or {}).items():
            transaction.refer(name, artifact)
        return transaction.commit(stage=stage, fingerprint=made, parts={}, content=digest(of.encode()))

    def _end(self, run_id: str, found: PublishedResult) -> None:
        key = paths.outcome(NAME, run_id, found.result.stage)
        entry = self.store.head(key)
        data = outcome_of(found, cached=False, because="").model_dump_json(by_alias=True).encode()
        self.store.replace(key, data, expected=entry.etag if entry else None)

    def change(self, run_id: str, manifests: dict[str, str]) -> Change:
        """A promotion of a run, as the ledger has it."""
        return Change(
            model=MODEL, action="promote", version=run_id, fingerprint=digest(run_id.encode()),
            model_digest=digest(run_id.encode()), manifests=manifests, data_date=FIRST, window_start=FIRST,
            pipeline=NAME, run_id=run_id, reason="better", baseline=None, recorded=self.clock.now,
        )  # fmt: skip
