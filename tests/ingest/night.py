"""One pipeline's nights, stage by stage, without a runner: what the tests of the stages stand on."""

import json
from datetime import date, datetime
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts import bundle, dates, paths
from ratchet.contracts.fingerprint import digest, fingerprint, flatten
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import Input, Pins, Promotion, SourceDay, StageRequest
from ratchet.contracts.result import Artifact, Published
from ratchet.contracts.summaries import Champion
from ratchet.runtime.context import StageContext
from ratchet.runtime.logs import StageLog
from ratchet.runtime.sources import list_days
from ratchet.store.opening import open_store
from ratchet.store.publishing import Transaction

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


def rows(count: int, day: date = LAST) -> dict[str, list[Any]]:
    """A day that breaks no rule."""
    noon = datetime(day.year, day.month, day.day, 12)  # noqa: DTZ001 - snapshots have no zones
    return {
        "query_id": [i // 4 for i in range(count)],
        "shown_at": [noon] * count,
        "country": [("DE", "FR", "US")[i % 3] for i in range(count)],
        "price": [float(1 + i % 97) for i in range(count)],
        "clicked": [int(i % 5 == 0) for i in range(count)],
    }


class Nights:
    """Source, store and stages below one folder."""

    def __init__(self, folder: Path, store: str | None = None, **changes: Any) -> None:
        self.folder = folder
        self.source = folder / "source"
        self.source.mkdir(exist_ok=True)
        self.store = open_store(store or (folder / "store").as_uri())
        self.store.prepare()
        self.document: dict[str, Any] = json.loads(json.dumps(SPEC))
        self.document["source"]["uri"] = f"{self.source}/date={{date}}/*"
        for key, value in changes.items():
            name = key.removesuffix("_")
            held = self.document.get(name)
            self.document[name] = {**held, **value} if isinstance(held, dict) and name == "source" else value
        self.champion: Champion | None = None
        self.pipeline = folder / "pipeline"  # its folder of Python files
        self.pipeline.mkdir(exist_ok=True)
        self.log = StringIO()
        self._runs = 0

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

    def plan(self, data_date: date = LAST) -> tuple[str, tuple[SourceDay, ...]]:
        """What the source holds now."""
        return list_days(self.spec.source, dates.window(data_date, self.spec.source.window_days))

    def run(
        self,
        stage: Any,
        data_date: date = LAST,
        inputs: dict[Any, Published] | None = None,
        planned: tuple[str, tuple[SourceDay, ...]] | None = None,
        parts: dict[str, str] | None = None,
        accumulation: int = 1,
    ) -> Published:
        """Run one stage to its published manifest."""
        self._runs += 1
        root, source = planned or self.plan(data_date)
        given = {
            name: Input(manifest=published.key, content=published.result.content)
            for name, published in (inputs or {}).items()
        }
        identity = {
            **flatten(self.spec.columns, "config.columns"),
            **{f"input.{name}": value.content for name, value in given.items()},
            "run": str(self._runs),
            **(parts or {}),
        }
        packed = bundle.pack(self.pipeline)
        self.store.create(paths.bundle(digest(packed)), packed)
        request = StageRequest(
            stage=stage,
            run_id=f"run-{self._runs}",
            attempt=f"attempt-{self._runs}",
            spec=self.spec,
            bundle=Artifact(key=paths.bundle(digest(packed)), sha256=digest(packed), bytes=len(packed)),
            data_date=data_date,
            source_root=root,
            source=source,
            inputs=given,
            champion=self.champion,
            promotion=Promotion(mode="auto"),
            kind="local",
            store=self.store.uri,
            pins=Pins(commit="unknown", image="process", python="3.11", libraries={}),
            accumulation=accumulation,
            fingerprint=fingerprint(identity),
            parts=identity,
        )
        scratch = self.folder / f"scratch-{self._runs}"
        scratch.mkdir()
        context = StageContext(
            request=request,
            store=self.store,
            scratch=scratch,
            disk=scratch,
            folder=self.pipeline,
            log=StageLog(stage, self.log),
            transaction=Transaction(self.store, request.prefix, request.attempt),
        )
        finished = import_module(f"tasks.{stage}.stage").run(context)
        return context.transaction.commit(
            stage=stage,
            fingerprint=request.fingerprint,
            parts=request.parts,
            content=finished.content,
            summary=finished.summary.model_dump(mode="json", by_alias=True),
            metrics=finished.metrics,
            timings=dict(context.timings),
        )
