"""gc: the bytes that a simulated year of nights ends with, relative to what the policy asks for, collected once a week.

Nights publish small results with the real code, in a store in memory whose clock goes on by a day after each. The
policy's bytes are those of a store that had only the runs which the policy keeps whole, and the records of all runs.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from unittest.mock import patch

from benchmarks.measure import Result
from ratchet.collection.collector import Collector
from ratchet.collection.words import total
from ratchet.contracts import paths
from ratchet.contracts.collection import Policy
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.loading import loads
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import Pins, Promotion, RunPlan
from ratchet.contracts.result import Artifact, PublishedResult
from ratchet.runs.outcomes import outcome_of
from ratchet.runtime.held_days import table_of
from ratchet.store.memory import MemoryStore
from ratchet.store.publishing import Transaction, find_result
from tests.collection.village_rows import Tables

_POLICY = Policy()
_DAYS, _WEEK = 365, 7
_WINDOW = 7
_WEIGHTS, _ARRAYS, _CHECKPOINT, _ROWS = 20_000, 2_000, 60_000, 3_000
_REWRITTEN = 3
"""The source rewrites so many days before the newest one each night."""
_FAILS = 10
"""One training in so many fails for good, and leaves a checkpoint."""
_CALLS = ("read", "create", "replace", "upload", "list", "head", "delete")
_SPEC = f"""
source: {{kind: files, uri: "/data/date={{date}}/*.parquet", window_days: {_WINDOW}}}
columns:
  x: {{role: numeric, type: float64}}
  y: {{role: label, type: int64}}
train: {{objective: binary}}
"""


def run(*, full: bool) -> Result:
    """A year of two pipelines, or of 200 for --full."""
    today = datetime.now(UTC).date()
    store, clock = MemoryStore("benchmark-gc"), Clock()
    names = [f"pipeline-{number}" for number in range(200 if full else 2)]
    seconds, calls, seen, gone = 0.0, 0, 0, 0
    with patch("ratchet.store.memory.time", clock):
        for number in range(_DAYS):
            for name in names:
                make_night(store, name, today + timedelta(days=number), number=number)
            clock.days += 1
            if number % _WEEK == _WEEK - 1 or number == _DAYS - 1:
                objects = sum(1 for _ in store.list())
                with _counted() as counted:
                    begin = time.perf_counter()
                    freed = total(Collector(store, None, _POLICY, apply=True).collect())
                    seconds += time.perf_counter() - begin
                seen, calls, gone = seen + objects, calls + counted.total(), gone + freed.objects
    ends = sum(entry.bytes for entry in store.list())
    policy = _bytes_of_policy(store, names)
    per = seen / 10_000
    return Result(
        name="gc",
        ratio=ends / policy,
        goal=1.2,
        unit="of the policy's bytes",
        ours=ends / 1e6,
        peer=policy / 1e6,
        peer_name="what the policy keeps, MB",
        rows=(
            ("a year ends with", f"{ends / 1e6:.1f} MB, {len(names)} pipelines"),
            ("the policy asks for", f"{policy / 1e6:.1f} MB"),
            ("deleted", f"{gone:,} objects in 52 weeks"),
            ("per 10,000 objects of the store", f"{seconds / per:.2f} s, {calls / per:,.0f} calls"),
        ),
    )


def make_night(store: MemoryStore, name: str, day: date, *, number: int) -> None:
    """The results and records of a night. number: how many were before it."""
    run_id = f"scheduled__{day}"
    store.create(paths.night(name, day, run_id), b"")
    packed = f"{name} {number // 30}".encode()  # a new version of the pipeline each month
    bundle = Artifact(key=paths.bundle(digest(packed)), sha256=digest(packed), bytes=len(packed))
    store.create(bundle.key, packed)
    plan = _plan(name, run_id, day, bundle)
    store.create(paths.plan(name, run_id), plan.model_dump_json(by_alias=True).encode())
    days = [day - timedelta(days=back) for back in range(_WINDOW)]
    _end(store, name, run_id, _ingest(store, plan, {one: min((day - one).days, _REWRITTEN) for one in days}))
    parts = {f"rows.{one}": _take(store, name, paths.day_part("features"), f"{one}", _ARRAYS) for one in days}
    rows = {key: part.result.outputs["rows"] for key, part in parts.items()}
    _end(store, name, run_id, _take(store, name, "features", f"{day}", 500, rows))
    if number % _FAILS == 0:
        place = paths.checkpoints(name, "train", digest(b"key"), digest(f"{day}".encode()))
        for file, size in (("step-1.safetensors", _CHECKPOINT), ("step-1.json", 200)):
            store.create(f"{place}/{file}", os.urandom(size))
        return
    _end(store, name, run_id, _take(store, name, "train", f"{day}", _WEIGHTS))
    _end(store, name, run_id, _take(store, name, "evaluate", f"{day}", 3_000))
    store.create(paths.log(name, run_id, "train", 1), os.urandom(2_000))


def _ingest(store: MemoryStore, plan: RunPlan, revisions: dict[date, int]) -> PublishedResult:
    """revisions: how often the source has rewritten each day."""
    tables = _tables(store, plan.spec.name, table_of(plan.spec))
    texts = {day: f"{day} {revision}".ljust(_ROWS) for day, revision in revisions.items()}
    return tables.ingest(texts, {}, "attempt")


_tables = cache(Tables)


@cache
def _spec(name: str) -> PipelineSpec:
    return loads(f"name: {name}\n{_SPEC}")


def _plan(name: str, run_id: str, day: date, bundle: Artifact) -> RunPlan:
    return RunPlan(
        run_id=run_id, kind="scheduled", spec=_spec(name), bundle=bundle, user_files={},
        data_date=day, source_root="/data", source=(), promotion=Promotion(mode="auto"), champion=None,
        store="file:///", tracking_uri=None, pins=Pins(commit="c", image="process", python="3.11", libraries={}),
        created=datetime.now(UTC),
    )  # fmt: skip


def _take(
    store: MemoryStore, name: str, stage: str, of: str, size: int, refers: dict[str, Artifact] | None = None
) -> PublishedResult:
    made = digest(f"{stage} {of}".encode())
    prefix = paths.published(name, stage, made)
    if (found := find_result(store, prefix)) is not None:
        return found
    transaction = Transaction(store, prefix, "attempt")
    transaction.add_bytes("rows", os.urandom(size))
    for key, artifact in (refers or {}).items():
        transaction.refer(key, artifact)
    return transaction.commit(stage=stage, fingerprint=made, parts={}, content=digest(of.encode()))


def _end(store: MemoryStore, name: str, run_id: str, found: PublishedResult) -> None:
    data = outcome_of(found, cached=False, because="").model_dump_json(by_alias=True).encode()
    store.create(paths.outcome(name, run_id, found.result.stage), data)


class Clock:
    """The clock of the store and of the collection: real time, and so many days more."""

    days = 0

    def time_ns(self) -> int:
        """As `time.time_ns`."""
        return time.time_ns() + self.days * 86_400 * 10**9


def _bytes_of_policy(store: MemoryStore, names: list[str]) -> float:
    """Results and logs of the days that the policy names, by their size; and all records of runs and bundles."""
    kept = _POLICY.results
    a_night = _ARRAYS + 500 + (_WEIGHTS + 3_000 + 2_000) * (1 - 1 / _FAILS)
    listed = list(store.list())
    records = [one for one in listed if one.key.startswith((paths.FIRST[0], paths.FIRST[1])) and ".log" not in one.key]
    manifests = [one.bytes for one in listed if one.key == paths.manifest(paths.published_prefix(one.key))]
    mean = sum(manifests) / max(len(manifests), 1)
    of_results = (a_night + mean * 5) * kept + _ARRAYS * (_WINDOW - 1)
    of_rows = _ROWS * (_DAYS + _WINDOW - 1 + _REWRITTEN * kept)
    of_tables = tuple(f"{paths.table(name)}/" for name in names)
    logs = [one.bytes for one in listed if one.key.startswith(of_tables) and not one.key.endswith(".parquet")]
    days = mean * of_rows / _ROWS  # the manifests of days
    return sum(one.bytes for one in records) + sum(logs) + (of_results + of_rows + days) * len(names)


@contextmanager
def _counted() -> Iterator[Counter[str]]:
    """The calls to the store."""
    calls: Counter[str] = Counter()
    patches = [patch.object(MemoryStore, name, _count(name, calls)) for name in _CALLS]
    for one in patches:
        one.start()
    try:
        yield calls
    finally:
        for one in patches:
            one.stop()


def _count(name: str, calls: Counter[str]) -> Any:
    real = getattr(MemoryStore, name)

    def call(*given: Any, **named: Any) -> Any:
        calls[name] += 1
        return real(*given, **named)

    return call
