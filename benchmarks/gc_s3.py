"""gc-s3: the requests of a collection in a bucket, for each object that it keeps or deletes.

The nights of the benchmark gc, without a collection in between, in the S3 server of the tests. They are copied there
with their ages: a file has the time at which it was written, until it is written again.
"""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from typing_extensions import override

from benchmarks.gc import Clock, make_night
from benchmarks.measure import Result
from ratchet.collection.collector import Collector
from ratchet.collection.words import total
from ratchet.contracts.collection import Policy
from ratchet.store.base import Entry
from ratchet.store.memory import MemoryStore
from ratchet.store.s3 import S3Store
from tests.s3 import s3_running

_NIGHTS = 60
_GOAL = 1.5
"""Requests for each object: a listing is one for a thousand, a document is one, a deletion is two."""


class _Dated(S3Store):
    """A bucket whose files have the ages that they were copied with, and whose clock is ahead."""

    def __init__(self, bucket: str, ahead_ns: int) -> None:
        super().__init__(bucket)
        self.ahead_ns, self.dates, self.requests = ahead_ns, dict[str, int](), Counter[str]()
        self._client.meta.events.register("before-send.s3", self._count)

    def _count(self, event_name: str, **_: object) -> None:
        self.requests[event_name.rpartition(".")[2]] += 1

    def _dated(self, entry: Entry) -> Entry:
        return entry._replace(modified_ns=self.dates.get(entry.key, entry.modified_ns + self.ahead_ns))

    @override
    def now_ns(self) -> int:
        return super().now_ns() + self.ahead_ns

    @override
    def list(self, prefix: str = "") -> Iterator[Entry]:
        yield from map(self._dated, super().list(prefix))

    @override
    def head(self, key: str) -> Entry | None:
        found = super().head(key)
        return None if found is None else self._dated(found)

    @override
    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        self.dates.pop(key, None)
        return super().replace(key, data, expected=expected)


def run(*, full: bool) -> Result:
    """Sixty nights of one pipeline, or of five."""
    names, clock = [f"pipeline-{number}" for number in range(5 if full else 1)], Clock()
    made = MemoryStore(f"benchmark-gc-s3-{time.time_ns()}")
    today = datetime.now(UTC).date()
    with patch("ratchet.store.memory.time", clock):
        for number in range(_NIGHTS):
            for name in names:
                make_night(made, name, today + timedelta(days=number), number=number)
            clock.days += 1
    objects = list(made.list())
    with (
        tempfile.TemporaryDirectory() as folder,
        s3_running(Path(folder) / "log") as server,
        patch.dict(os.environ, server.environment),
    ):
        store = _Dated(server.bucket, clock.days * 86_400 * 10**9)
        for entry in objects:
            store.create(entry.key, made.read(entry.key))
        store.dates = {entry.key: entry.modified_ns for entry in objects}
        looks, looked = _collect(store, apply=False)
        deletions, freed = _collect(store, apply=True)
    number = len(objects)
    return Result(
        name="gc-s3",
        ratio=deletions[0] / number,
        goal=_GOAL,
        unit="requests for each object of the bucket",
        ours=deletions[0],
        peer=number,
        peer_name="objects",
        rows=(
            ("objects", f"{number:,}, {len(names)} pipelines, {_NIGHTS} nights"),
            ("a dry run", f"{looks[0]:,} requests, {looks[1]:.1f} s; {looked:,} objects would go"),
            ("with --apply", f"{deletions[0]:,} requests, {deletions[1]:.1f} s; {freed:,} objects gone"),
            ("of these", ", ".join(f"{name} {count:,}" for name, count in deletions[2].most_common())),
        ),
    )


def _collect(store: _Dated, *, apply: bool) -> tuple[tuple[int, float, Counter[str]], int]:
    """Requests, seconds, the requests by name; and how many objects went, or would."""
    store.requests.clear()
    begin = time.perf_counter()
    found = Collector(store, None, Policy(), apply=apply).collect()
    taken = time.perf_counter() - begin
    return (store.requests.total(), taken, Counter(store.requests)), total(found).objects
