"""What a stage is given, and what it gives back."""

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Self

from ratchet.contracts import bundle, paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import StageRequest
from ratchet.contracts.result import PublishedResult, StageResult
from ratchet.contracts.stages import Stage
from ratchet.runtime.logs import StageLog
from ratchet.store.base import Store
from ratchet.store.cache import scratch
from ratchet.store.publishing import Transaction, read_manifest


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
    transaction: where outputs go until `commit`. stopping: set when the stage has received a notice to stop.
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

    @classmethod
    @contextmanager
    def open(
        cls, request: StageRequest, *, store: Store, log: StageLog, stopping: Event | None = None
    ) -> Iterator[Self]:
        """A context for a request: the pipeline's folder unpacked, empty scratch folders, an open transaction.

        What is in the transaction is deleted if the block raises. Raises ConfigurationError if the bundle is damaged.
        """
        with tempfile.TemporaryDirectory(prefix="ratchet-") as private, scratch() as disk:
            folder, work = Path(private) / "pipeline", Path(private) / "work"
            folder.mkdir()
            work.mkdir()
            packed = store.read(request.bundle.key)
            if digest(packed) != request.bundle.sha256:
                raise ConfigurationError(f"{request.bundle.key} is damaged", remedy="plan the run again")
            bundle.unpack(packed, folder)
            context = cls(
                request=request,
                store=store,
                scratch=work,
                disk=disk,
                folder=folder,
                log=log,
                transaction=Transaction(store, request.prefix, request.attempt),
                stopping=stopping or Event(),
            )
            try:
                yield context
            except BaseException:
                context.transaction.abandon()
                raise

    def commit(self, finished: Finished) -> PublishedResult:
        """Publish the outputs in the transaction as the result of this request."""
        return self.transaction.commit(
            stage=self.request.stage,
            fingerprint=self.request.fingerprint,
            parts=self.request.parts,
            content=finished.content,
            summary=finished.summary.model_dump(mode="json", by_alias=True),
            metrics=finished.metrics,
            timings={name: round(seconds, 4) for name, seconds in self.timings.items()},
        )

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
        key = paths.kept(self.spec.name, self.request.run_id, self.request.stage, name)
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
