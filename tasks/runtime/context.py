"""What a stage is given, and what it gives back."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from tasks.contracts import paths
from tasks.contracts.errors import CorruptArtifact
from tasks.contracts.model import Document
from tasks.contracts.operations import Stage
from tasks.contracts.pipeline import PipelineSpec
from tasks.contracts.request import StageRequest
from tasks.contracts.result import StageResult
from tasks.runtime.logs import StageLog
from tasks.runtime.publishing import Transaction, read_manifest
from tasks.runtime.store.base import Store


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a stage has to say when its outputs are in the transaction.

    content: sha256 of what the outcome means, free of places and times. summary: the stage's document.
    metrics: numbers to track, by name.
    """

    content: str
    summary: Document
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StageContext:
    """A stage's request and the few things it may touch.

    scratch: an empty private folder that vanishes with the stage; in a container what lies there counts as memory.
    disk: one for big files of data, on the cache's disk where there is a cache. Code of other pipelines can reach that
    one, so nothing that is executed goes there. folder: the pipeline's folder, read-only.
    transaction: where outputs go; committed by whoever runs the stage. stopping: set when the stage is told to stop.
    """

    request: StageRequest
    store: Store
    scratch: Path
    disk: Path
    folder: Path
    log: StageLog
    transaction: Transaction
    stopping: Event = field(default_factory=Event)
    timings: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def spec(self) -> PipelineSpec:
        """The pipeline, overrides applied."""
        return self.request.spec

    def upstream(self, stage: Stage) -> StageResult:
        """The result of an earlier stage, checked to be the one that the request names."""
        named = self.request.inputs[stage]
        published = read_manifest(self.store, named.manifest)
        if published.result.content != named.content:
            raise CorruptArtifact(
                f"{named.manifest} is not the {stage} result that this run was planned with",
                remedy=f"run again with rebuild, or restore {named.manifest}",
            )
        return published.result

    def keep(self, name: str, path: Path) -> str:
        """Keep a file with the run's records, whatever becomes of the stage. Returns its key."""
        run = paths.run(self.spec.name, self.request.run_id)
        key = f"{run}/{self.request.stage}-{paths.segment(name)}"
        self.store.upload(path, key)
        return key

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a part of the stage; phases of the same name add up. Seconds go into the manifest."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.timings[name] += time.perf_counter() - start
