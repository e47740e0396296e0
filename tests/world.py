"""One pipeline, its source and its store, and its stages run as a container runs them: what tests of stages start from."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts import bundle, dates, paths
from ratchet.contracts.champion import Champion
from ratchet.contracts.day_record import DayStates
from ratchet.contracts.fingerprint import digest, fingerprint, flatten
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import AsOf, Input, Outcome, Pins, Promotion, RunKind, SourceDay, StageRequest
from ratchet.contracts.result import Artifact, PublishedResult
from ratchet.contracts.stages import Stage, stage_module
from ratchet.runtime.context import Finished, StageContext
from ratchet.runtime.further_days import further_days
from ratchet.runtime.logs import StageLog
from ratchet.runtime.release import stage_libraries
from ratchet.runtime.sources import list_days
from ratchet.store.base import Store
from ratchet.store.opening import open_store

SPEC: dict[str, Any] = {
    "name": "clicks",
    "source": {"kind": "files", "uri": "", "window_days": 3},
    "columns": {
        "query_id": {"role": "group", "type": "int64"},
        "shown_at": {"role": "time", "type": "timestamp"},
        "country": {"role": "categorical", "type": "string"},
        "price": {"role": "numeric", "type": "float64"},
        "clicked": {"role": "label", "type": "int64"},
    },
    "train": {"objective": "binary"},
}
LAST = date(2026, 11, 20)
PINS = Pins(commit="c0ffee", image=f"sha256:{digest(b'image')}", python="3.11", libraries=stage_libraries())
Planned = tuple[str, tuple[SourceDay, ...]]
Inputs = Mapping[Stage, PublishedResult]


def rows(count: int, day: date = LAST) -> dict[str, list[Any]]:
    """A day that breaks no rule."""
    noon = datetime(day.year, day.month, day.day, 12)
    return {
        "query_id": [i // 4 for i in range(count)],
        "shown_at": [noon] * count,
        "country": [("DE", "FR", "US")[i % 3] for i in range(count)],
        "price": [float(1 + i % 97) for i in range(count)],
        "clicked": [int(i % 5 == 0) for i in range(count)],
    }


@dataclass(kw_only=True)
class World:
    """Below one folder: `source`, the files of its days; `pipeline`, its Python files. document: its file, to change.

    log: what the stages have logged. number: how many runs there were; each has a fingerprint of its own.
    """

    folder: Path
    store: Store
    document: dict[str, Any]
    data_date: date = LAST
    champion: Champion | None = None
    promotion: Promotion = field(default_factory=lambda: Promotion(mode="auto"))
    tracking_uri: str | None = None
    run_id: str = "run-1"
    kind: RunKind = "manual"
    as_of: AsOf = "now"
    listed: datetime | None = None
    days: DayStates = field(default_factory=DayStates)
    log: StringIO = field(default_factory=StringIO)
    number: int = 0

    def __post_init__(self) -> None:
        for folder in (self.source, self.pipeline):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def pipeline(self) -> Path:
        return self.folder / "pipeline"

    @property
    def spec(self) -> PipelineSpec:
        return PipelineSpec.model_validate(self.document)

    def put(self, day: date, columns: Any = None, name: str = "part-0.parquet", count: int = 60) -> Path:
        """Write a day of the source."""
        path = self.source / f"date={day}" / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns or rows(count, day)), path)
        return path

    def put_window(self, count: int = 60, last: date = LAST) -> None:
        """Write every day of the window."""
        for day in dates.window(last, self.spec.source.window_days):
            self.put(day, count=count)

    def plan(self, data_date: date | None = None) -> Planned:
        """What the source holds now."""
        days = dates.window(data_date or self.data_date, self.spec.source.window_days)
        return list_days(self.spec.source, days, self.spec.day_bounds)

    def request(
        self,
        stage: Stage,
        data_date: date | None = None,
        inputs: Inputs | None = None,
        planned: Planned | None = None,
        parts: Mapping[str, str] | None = None,
        accumulation: int = 1,
        attempt: str | None = None,
        measured_on: str = "",
    ) -> StageRequest:
        """What a stage is asked to do. attempt: one of several at the same work; without it, the work is new."""
        self.number += 1
        root, source = planned or (self.plan(data_date) if stage == "ingest" else ("/data", ()))
        identity = {
            "stage": stage,
            **flatten(self.spec.columns, "config.columns"),
            **{f"input.{name}": given.key for name, given in (inputs or {}).items()},
            "champion": self.champion.digest if self.champion else "none",
            "champion.evaluate": self.champion.manifests.get("evaluate", "") if self.champion else "",
            **({} if attempt else {"run": str(self.number)}),
            **(parts or {}),
        }
        packed = bundle.pack(self.pipeline)
        self.store.create(paths.bundle(digest(packed)), packed)
        return StageRequest(
            stage=stage,
            run_id=self.run_id,
            attempt=attempt or f"attempt-{self.number}",
            spec=self.spec,
            bundle=Artifact(key=paths.bundle(digest(packed)), sha256=digest(packed), bytes=len(packed)),
            data_date=data_date or self.data_date,
            source_root=root,
            source=source,
            joins=further_days(self.store, self.spec, [day.day for day in source if not day.missing]),
            inputs={
                name: Input(manifest=given.key, content=given.result.content) for name, given in (inputs or {}).items()
            },
            champion=self.champion,
            promotion=self.promotion,
            kind=self.kind,
            store=self.store.uri,
            tracking_uri=self.tracking_uri,
            pins=PINS,
            accumulation=accumulation,
            measured_on=measured_on,
            as_of=self.as_of,
            listed=self.listed,
            days=self.days,
            fingerprint=fingerprint(identity),
            parts=identity,
        )

    @contextmanager
    def open(self, request: StageRequest) -> Iterator[StageContext]:
        """A stage's context, as the stage's own process opens it."""
        with StageContext.open(request, store=self.store, log=StageLog(request.stage, self.log)) as ctx:
            yield ctx

    def commit(self, ctx: StageContext, finished: Finished) -> PublishedResult:
        """Publish a stage's result, and record its outcome as a run does."""
        published = ctx.commit(finished)
        outcome = Outcome(
            stage=ctx.request.stage,
            state="done",
            seconds=1.5,
            manifest=published.key,
            content=published.result.content,
            because="no result is stored yet",
            result=published.result,
        )
        key = paths.outcome(self.spec.name, self.run_id, ctx.request.stage)
        entry = self.store.head(key)
        self.store.replace(key, outcome.model_dump_json(by_alias=True).encode(), expected=entry.etag if entry else None)
        return published

    def finish(self, request: StageRequest) -> tuple[Finished, PublishedResult]:
        """Run a stage: what it says itself, and what is published."""
        with self.open(request) as ctx:
            finished: Finished = import_module(stage_module(request.stage)).run(ctx)
            return finished, self.commit(ctx, finished)

    def run(self, stage: Stage, *given: Any, **named: Any) -> PublishedResult:
        """Run a stage to its published manifest; the arguments are those of `request`."""
        return self.finish(self.request(stage, *given, **named))[1]


def clicks(folder: Path, store: str | None = None, **changes: Any) -> World:
    """The pipeline of clicks below a folder. changes: sections of its file."""
    opened = open_store(store or (folder / "store").as_uri())
    opened.prepare()
    document: dict[str, Any] = json.loads(json.dumps(SPEC))
    document["source"]["uri"] = f"{folder / 'source'}/date={{date}}/*"
    for name, value in changes.items():
        document[name] = {**document[name], **value} if name == "source" else value
    return World(folder=folder, store=opened, document=document)
