"""The input of a stage, its context, and its output."""

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Self
from urllib.parse import unquote

from ratchet.contracts import bundle, paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import StageRequest
from ratchet.contracts.result import PublishedResult, StageResult
from ratchet.contracts.stages import Stage
from ratchet.runtime.logs import StageLog
from ratchet.runtime.removed_rows import refuse_later_removal, refuse_removed_rows
from ratchet.runtime.stage_environment import stage_environment
from ratchet.store.base import Store
from ratchet.store.cache import scratch
from ratchet.store.disk import fault_in_place
from ratchet.store.file import FileStore
from ratchet.store.publishing import Transaction, read_manifest


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The output of a stage, whose files are in the transaction.

    content: sha256 of the result's meaning, without paths and times. summary: the stage's document. metrics: numbers to
    track, by name.
    """

    content: str
    summary: Document
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StageContext:
    """A stage's request, and everything that the stage may use.

    scratch: an empty private folder, deleted at the end of the stage; in a container its files count as memory. disk: a
    folder for large files of data, on the cache's disk if there is a cache. Code of other pipelines may write there, so
    no code may be executed from it. folder: the pipeline's folder, read-only. transaction: the outputs until `commit`.
    stopping: set when the stage receives a notice to stop. timings: seconds by phase. removals: what rows of the
    pipeline had been removed when the stage began, as a digest.
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
    removals: str = ""

    @classmethod
    @contextmanager
    def open(
        cls,
        request: StageRequest,
        *,
        store: Store,
        log: StageLog,
        stopping: Event | None = None,
        transaction: Transaction | None = None,
    ) -> Iterator[Self]:
        """Open a context for a request: unpack the pipeline's folder, create scratch folders, start a transaction.

        transaction: that of another process, which commits what this one adds.
        If the block raises, what is in the transaction and not published is deleted. Raises ConfigurationError if the
        bundle is damaged, and what `refuse_removed_rows` raises. An error of a disk from which files of the store or of
        the source are read in place leaves the block as NoAnswer or Unavailable.
        """
        removals = refuse_removed_rows(store, request)
        with tempfile.TemporaryDirectory(prefix="ratchet-") as private, scratch() as disk:
            folder, work = Path(private) / "pipeline", Path(private) / "work"
            folder.mkdir()
            work.mkdir()
            packed = store.read(request.bundle.key)
            if digest(packed) != request.bundle.sha256:
                raise ConfigurationError(
                    f"{request.bundle.key} is damaged",
                    remedy="start a new run of this date: its plan stores the bundle again",
                )
            bundle.unpack(packed, folder)
            context = cls(
                request=request,
                store=store,
                scratch=work,
                disk=disk,
                folder=folder,
                log=log,
                transaction=transaction or Transaction(store, request.prefix, request.attempt),
                stopping=stopping or Event(),
                removals=removals,
            )
            try:
                yield context
            except BaseException as error:
                context.transaction.abandon()
                if (fault := fault_in_place(error, _read_in_place(store, request))) is not None:
                    raise fault from error
                raise

    def commit(self, finished: Finished) -> PublishedResult:
        """Publish the outputs in the transaction as the result of this request. Raises as `refuse_later_removal`."""
        self.refuse_later_removal()
        return self.transaction.commit(
            stage=self.request.stage,
            fingerprint=self.request.fingerprint,
            parts=self.request.parts,
            content=finished.content,
            summary=finished.summary.model_dump(mode="json", by_alias=True),
            metrics=finished.metrics,
            timings={name: round(seconds, 4) for name, seconds in self.timings.items()},
            environment=stage_environment(),
        )

    @property
    def spec(self) -> PipelineSpec:
        """The pipeline, with the overrides."""
        return self.request.spec

    def upstream(self, stage: Stage) -> StageResult:
        """The result of an earlier stage. Raises CorruptArtifact if it is not the one that the request names."""
        named = self.request.inputs[stage]
        published = read_manifest(self.store, named.manifest)
        if published.result.content != named.content:
            raise CorruptArtifact(
                f"{named.manifest} is not the {stage} result that this run was planned with",
                remedy=f"run again with --rebuild, or restore {named.manifest}",
            )
        return published.result

    def refuse_later_removal(self) -> None:
        """Raise Unavailable if rows of the pipeline were removed since the stage began: publish nothing then."""
        refuse_later_removal(self.store, self.request, self.removals)

    def say_damaged_sum(self, key: str) -> None:
        """Log that the sum of several days is damaged, which the stage makes again."""
        self.log.event("damaged", f"{self.store.uri}/{key} is damaged; the stage makes it again", level="warning")

    def keep(self, name: str, path: Path) -> str:
        """Store a file with the run's records, where it stays if the stage fails. Returns its key."""
        key = paths.kept(self.spec.name, self.request.run_id, self.request.stage, name)
        self.store.upload(path, key)
        return key

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the time of a part of the stage; phases of the same name add up. The manifest lists the seconds."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.timings[name] += time.perf_counter() - start


def _read_in_place(store: Store, request: StageRequest) -> list[Path]:
    """The folders whose files a stage may open where they are, as with Arrow, numpy and polars."""
    root = request.source_root
    of_source = [Path(os.path.realpath(unquote(root.removeprefix("file://"))))] if root.startswith("file://") else []
    return [*([store.root] if isinstance(store, FileStore) else []), *of_source]
