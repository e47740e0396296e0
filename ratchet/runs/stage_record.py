"""The record of how a stage of a run ended. Every orchestrator writes it through this one class."""

import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import TRAININGS, Stage
from ratchet.production.shadow import judges_in_shadow, keep_winner
from ratchet.runs.attempt import Attempt
from ratchet.runs.day_records import JUDGES, record_day
from ratchet.runs.history import first_judged
from ratchet.runs.outcomes import outcomes
from ratchet.store.base import Store
from ratchet.store.checkpoint_folder import delete_checkpoints

_RULES = frozenset({"validate", "columns"})
"""The parts of a pipeline file with the rules for rows."""


class StageRecord:
    """Records what `end` is given, or the RatchetError that leaves its block, over the record of an earlier try.

    attempt: the attempt that computes the stage, if one does. Its last lines and its log are recorded too, and
    nothing is recorded once another attempt has taken it over.
    """

    def __init__(self, store: Store, plan: RunPlan, stage: Stage) -> None:
        self.attempt: Attempt | None = None
        self.last_lines: tuple[str, ...] = ()
        """Of a stage that no attempt computes, where an earlier attempt left its log."""
        self.log: str | None = None
        """The key of that log."""
        self._store, self._plan, self._stage = store, plan, stage
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, RatchetError):
            self.end(Outcome(stage=self._stage, state="failed", because=error.cause))

    def end(self, outcome: Outcome) -> Outcome:
        """Record an outcome. It is returned with its seconds, which count from the beginning of the block."""
        lines = (self.attempt.last_lines if self.attempt else ()) or self.last_lines
        log = (self.attempt.log if self.attempt else None) or self.log
        seconds = round(time.monotonic() - self._began, 3)
        outcome = outcome.model_copy(update={"seconds": seconds, "last_lines": lines, "log": log})
        if self.attempt is None or not self.attempt.lost:
            self._record_day(outcome)
            self._record_winner(outcome)
            key = paths.outcome(self._plan.spec.name, self._plan.run_id, self._stage)
            entry = self._store.head(key)
            data = outcome.model_dump_json(by_alias=True).encode()
            self._store.replace(key, data, expected=entry.etag if entry else None)
            self._delete_checkpoints(outcome)
        return outcome

    def _delete_checkpoints(self, outcome: Outcome) -> None:
        """What cannot be deleted stays: the result is there, and is recorded."""
        if outcome.stage in TRAININGS and outcome.result is not None:
            with suppress(RatchetError):
                delete_checkpoints(self._store, self._plan.spec.name, self._plan.run_id, outcome.result)

    def _record_winner(self, outcome: Outcome) -> None:
        """Here and not in register, whose result another run may share: each chain has its own winners."""
        if outcome.stage == "evaluate" and outcome.state == "done" and judges_in_shadow(self._plan):
            ended = outcomes(self._store, self._plan.spec.name, self._plan.run_id)
            keep_winner(self._store, self._plan, {**ended, "evaluate": outcome})

    def _record_day(self, outcome: Outcome) -> None:
        """First of all: a day that is refused is known as such before its run has ended."""
        if outcome.stage not in JUDGES:
            return
        plan = self._plan
        ingested = outcomes(self._store, plan.spec.name, plan.run_id).get("ingest")
        if ingested is not None and ingested.result is not None:
            record_day(
                self._store,
                pipeline=plan.spec.name,
                data_date=plan.data_date,
                run_id=plan.run_id,
                stage=outcome.stage,
                state=outcome.state,
                snapshot=summaries.snapshot(ingested.result),
                past=self._sees_the_past(),
                trial=any(key.partition(".")[0] in _RULES for key in plan.overrides),
            )

    def _sees_the_past(self) -> bool:
        """Whether the run takes its source as an earlier one saw it; without an earlier verdict it is that of now."""
        plan = self._plan
        first = first_judged(self._store, plan.spec.name, plan.data_date) if plan.as_of == "then" else None
        return first is not None and first.run_id != plan.run_id
