"""A version built again from its record alone, in a run of its own that moves nothing and replaces nothing.

The pipeline's files come from the bundle, the rows from the files of the snapshot. Features, training and scores are
computed by the stages themselves. There is no registration, no ledger, no record of a day, and no mark by which a later
run would take the results for its own.

A change here violates the promise of the project when a rebuild reads a source, reuses what the version's own run has
published, or leaves a trace in what decides about production.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial

from ratchet.contracts import paths
from ratchet.contracts.accumulation import Segment
from ratchet.contracts.document import Document
from ratchet.contracts.fingerprint import digest_of, fingerprint
from ratchet.contracts.parent import Parent
from ratchet.contracts.reproduction import PART
from ratchet.contracts.request import UPSTREAM, Input, Outcome, Promotion, RunPlan, StageRequest
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import TRAININGS, Stage
from ratchet.contracts.summaries import TrainedModel, Validation
from ratchet.contracts.version_record import VersionRecord
from ratchet.runners.runner import Runner
from ratchet.runs.attempt import Attempt
from ratchet.runs.events import Event
from ratchet.runs.ingredients import computed
from ratchet.runs.work import Work
from ratchet.runtime.release import stage_code
from ratchet.store.base import Store
from ratchet.store.checkpoint_folder import delete_checkpoints
from ratchet.store.publishing import find_result
from ratchet.store.sealed import seal

OnStage = Callable[[Stage, Outcome | None], None]
OnStageEvent = Callable[[Stage, Event], None]
_RECORDED = "recorded"


class Rebuild:
    """A rebuild of a version. run_id: of its run. results: what the stages have published so far.

    image: the digest of the stage image, None for processes. parent: what its training begins with, if not with random
    weights.
    """

    def __init__(
        self,
        store: Store,
        record: VersionRecord,
        *,
        image: str | None,
        started_by: str = "",
        parent: Parent | None = None,
    ) -> None:
        now = datetime.now(UTC)
        self.run_id = f"reproduction-{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
        self.results: dict[Stage, StageResult] = {}
        self._store, self._record = store, record
        self._attempt: Attempt | None = None
        self._stopping = False
        self._plan = RunPlan(
            run_id=self.run_id,
            kind="reproduction",
            spec=record.spec,
            bundle=record.bundle,
            user_files={name: sha for name, sha in record.files.items() if name.endswith(".py")},
            data_date=record.data_date,
            source_root="",
            source=(),
            promotion=Promotion(mode="never", reason="a reproduction moves nothing"),
            champion=None,
            parent=parent,
            store=store.uri,
            tracking_uri=None,
            pins=record.pins.model_copy(update={"image": image or "process"}),
            overrides=record.overrides,
            started_by=started_by,
            created=now,
        )

    def run(self, runner: Runner, *, on_stage: OnStage, on_event: OnStageEvent) -> dict[Stage, StageResult]:
        """Compute features, training and scores. Raises the RatchetError that says why a stage failed."""
        days = Validation(checks=(), excluded=self._record.excluded, rows={}, labelled={})
        inputs: dict[Stage, Input] = {
            "ingest": self._keep("ingest", self._record.snapshot),
            "validate": self._keep("validate", days),
        }
        for stage in computed(self._record):
            on_stage(stage, None)
            began = time.monotonic()
            work = Work(store=self._store, plan=self._plan, request=self._request(stage, inputs), because="rebuilt")
            self._attempt = Attempt(work, runner, on_event=partial(on_event, stage))
            if self._stopping:
                self._attempt.interrupt()
            outcome = self._attempt.compute()
            assert outcome.manifest
            assert outcome.result
            on_stage(stage, outcome.model_copy(update={"seconds": round(time.monotonic() - began, 3)}))
            inputs[stage] = Input(manifest=outcome.manifest, content=outcome.result.content)
            self.results[stage] = outcome.result
            if stage in TRAININGS:
                delete_checkpoints(self._store, self._record.pipeline, self.run_id, outcome.result)
        return self.results

    @property
    def shipped(self) -> StageResult | None:
        """The training whose model is the version's, once it is computed."""
        return self.results.get("refit" if self._record.refit is not None else "train")

    def interrupt(self) -> None:
        """Send the stage that runs a notice to stop, and return at once. A signal's handler may call this."""
        self._stopping = True
        if self._attempt is not None:
            self._attempt.interrupt()

    def discard(self) -> None:
        """Delete what the stages have published: where it is bit-equal, the store has it already."""
        prefixes = {paths.published_prefix(file.key) for one in self.results.values() for file in one.outputs.values()}
        for prefix in prefixes:
            found = find_result(self._store, prefix)
            if found is not None and found.result.parts.get(PART) == self.run_id:
                for entry in [*self._store.list(prefix)]:
                    self._store.delete(entry.key)

    def _request(self, stage: Stage, inputs: Mapping[Stage, Input]) -> StageRequest:
        given = {name: inputs[name] for name in UPSTREAM[stage]}
        content = {f"input.{name}": one.content for name, one in given.items()}
        parts = {**stage_code(stage), **content, PART: self.run_id}
        plan = self._plan
        return StageRequest(
            stage=stage,
            run_id=self.run_id,
            attempt=uuid.uuid4().hex[:16],
            spec=plan.spec,
            bundle=plan.bundle,
            data_date=plan.data_date,
            source_root=plan.source_root,
            inputs=given,
            promotion=plan.promotion,
            kind=plan.kind,
            store=plan.store,
            pins=plan.pins,
            overrides=plan.overrides,
            started_by=plan.started_by,
            accumulation=self._micro_batches(stage),
            segments=self._segments(stage),
            parent=plan.parent if stage in TRAININGS else None,
            fingerprint=fingerprint(parts),
            parts=parts,
        )

    def _micro_batches(self, stage: Stage) -> int:
        made, segments = self._trained(stage), self._segments(stage)
        if segments:
            return segments[0].accumulation
        return made.accumulation if made else 1

    def _segments(self, stage: Stage) -> tuple[Segment, ...]:
        made = self._trained(stage)
        return made.segments if made else ()

    def _trained(self, stage: Stage) -> TrainedModel | None:
        return {"train": self._record.trained, "refit": self._record.refit}.get(stage)

    def _keep(self, stage: Stage, summary: Document) -> Input:
        """What a stage has found, as the record has it, where the stages of this run read it."""
        recorded = self._record.stages.get(stage)
        plain = summary.model_dump(mode="json", by_alias=True)
        content = recorded.content if recorded else digest_of(plain)
        result = StageResult(
            stage=stage,
            fingerprint=recorded.fingerprint if recorded else content,
            parts={PART: self.run_id},
            content=content,
            outputs={},
            summary=plain,
            attempt=_RECORDED,
            finished=self._plan.created,
        )
        key = paths.kept(self._record.pipeline, self.run_id, stage, f"{_RECORDED}.json")
        self._store.create(key, seal(result))
        return Input(manifest=key, content=content)
