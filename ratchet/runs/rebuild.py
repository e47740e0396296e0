"""A version built again from its record alone, in a run of its own that moves nothing and replaces nothing.

The pipeline's files come from the bundle, the rows from the files of the snapshot. Features, training and scores are
computed by the stages themselves. There is no registration, no ledger, no record of a day, and no mark by which a later
run would take the results for its own. A process of it that ends is followed by another one, a later turn, which finds
what there is. See docs/adr/082.

A change here violates the promise of the project when a rebuild reads a source, reuses what the version's own run has
published, or leaves a trace in what decides about production.
"""

import json
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

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
from ratchet.runs.history import plan_to_follow, rebuild_plan
from ratchet.runs.ingredients import computed
from ratchet.runs.left_job import left_work
from ratchet.runs.outcomes import outcome_of
from ratchet.runs.turn import Turn, end_others
from ratchet.runs.work import OnEvent, Work
from ratchet.runtime.release import stage_code
from ratchet.store.base import Store
from ratchet.store.checkpoint_folder import delete_checkpoints
from ratchet.store.documents import replace_document
from ratchet.store.publishing import discard_damaged, find_result
from ratchet.store.renewal import renew
from ratchet.store.sealed import seal

OnStage = Callable[[Stage, Outcome | None], None]
OnStageEvent = Callable[[Stage, Event], None]
_RECORDED, _BECAUSE = "recorded", "rebuilt"


class Rebuild:
    """A rebuild of a version, in one of its turns. run_id: of its run. results: what the stages have published so far.

    image: the digest of the stage image, None for processes. parent: what its training begins with, if not with random
    weights.
    """

    def __init__(
        self,
        store: Store,
        record: VersionRecord,
        turn: Turn,
        *,
        image: str | None,
        started_by: str = "",
        parent: Parent | None = None,
    ) -> None:
        self.run_id = turn.run_id(record)
        self.results: dict[Stage, StageResult] = {}
        self._store, self._record, self._turn = store, record, turn
        self._attempt: Attempt | None = None
        self._stopping = False
        begun = plan_to_follow(store, record.pipeline, self.run_id)
        self.goes_on = begun is not None
        """Whether an earlier turn has begun to compute it: then it lacked nothing."""
        self.plan = RunPlan(
            run_id=self.run_id,
            origin=turn.origin,
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
            installation=turn.installation,
            created=begun.created if begun is not None else datetime.now(UTC),
        )

    def run(self, runner: Runner, *, on_stage: OnStage, on_event: OnStageEvent) -> dict[Stage, StageResult]:
        """Compute features, training and scores. Raises the RatchetError that says why a stage failed."""
        self._keep_plan()
        days = Validation(checks=(), excluded=self._record.excluded, rows={}, labelled={})
        inputs: dict[Stage, Input] = {
            "ingest": self._keep("ingest", self._record.snapshot),
            "validate": self._keep("validate", days),
        }
        for stage in computed(self._record):
            on_stage(stage, None)
            work = Work(store=self._store, plan=self.plan, request=self._request(stage, inputs), because=_BECAUSE)
            outcome = self._outcome(work, runner, partial(on_event, stage))
            assert outcome.manifest
            assert outcome.result
            on_stage(stage, outcome)
            inputs[stage] = Input(manifest=outcome.manifest, content=outcome.result.content)
            self.results[stage] = outcome.result
            if stage in TRAININGS:
                delete_checkpoints(self._store, self._record.pipeline, self.run_id, outcome.result)
        return self.results

    def _outcome(self, work: Work, runner: Runner, on_event: OnEvent) -> Outcome:
        """That of a stage: left by an earlier turn, computed by one, or computed now."""
        stage, began = work.request.stage, time.monotonic()
        left = self._left(stage, runner)
        if left is None and self.goes_on:
            found = self._found(work)
            end_others(self._store, runner, self.run_id, stage, work.request.fingerprint if found is None else "")
            if found is not None:
                return found
        given: Mapping[str, Any] = (self._turn.left or {}) if left is not None else {"again": True}
        self._attempt = attempt = Attempt(
            left or work, runner, on_event=on_event, leave=self._turn.leave(bool(given["again"])),
            preemptions=given.get("preemptions", 0), log=given.get("log"),
        )  # fmt: skip
        self._turn.on_attempt(attempt)
        if self._stopping:
            attempt.interrupt()
        outcome = attempt.compute(earlier=left.attempt if left is not None else None)
        seconds = round(attempt.left_s + time.monotonic() - began, 3)
        return outcome.model_copy(update={"seconds": seconds})

    def _left(self, stage: Stage, runner: Runner) -> Work | None:
        """What the turn before has left of a stage, if there is a job or a result of it."""
        left = self._turn.left
        if left is None:
            return None
        asked = json.loads(left["request"])
        if (asked.get("run_id"), asked.get("stage")) != (self.run_id, stage):
            return None
        return left_work(self._store, self.plan, left["request"], _BECAUSE, runner)

    def _found(self, work: Work) -> Outcome | None:
        """What an earlier turn has computed. Only its sizes are looked at: who reads it compares its digests."""
        discard_damaged(self._store, work.request.prefix, quick=True)
        found = work.result()
        if found is None or not renew(self._store, found):
            return None
        return outcome_of(found, cached=True, because="an earlier process of this rebuild computed it")

    def _keep_plan(self) -> None:
        """Keep the plan, with what is installed now: for who follows a container, and as a sign that this has begun."""
        key = rebuild_plan(self._record.pipeline, self.run_id)
        if self._store.create(key, self.plan.model_dump_json(by_alias=True).encode()):
            return
        entry = self._store.head(key)
        if entry is not None and plan_to_follow(self._store, self._record.pipeline, self.run_id) != self.plan:
            replace_document(self._store, key, self.plan, expected=entry.etag)

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
        plan = self.plan
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
            finished=self.plan.created,
        )
        key = paths.kept(self._record.pipeline, self.run_id, stage, f"{_RECORDED}.json")
        self._store.create(key, seal(result))
        return Input(manifest=key, content=content)
