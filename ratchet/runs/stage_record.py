"""The record of how a stage of a run ended. Every orchestrator writes it through this one class.

A change here violates the promise of the project when a try that was frozen, and wakes up after a later one has
recorded how the stage ended, replaces that record.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import CorruptArtifact, DataRejected, OtherCode, RatchetError, StopNotice
from ratchet.contracts.masking import mask, mask_error
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import TRAININGS, Stage
from ratchet.production.shadow import judges_in_shadow, keep_winner
from ratchet.runs.attempt import Attempt
from ratchet.runs.day_records import JUDGES, record_day
from ratchet.runs.history import first_judged, plan_of
from ratchet.runs.outcomes import outcome_of_stage, outcomes
from ratchet.runs.run_index import note_again, note_end
from ratchet.store.base import Entry, Store
from ratchet.store.checkpoint_folder import delete_checkpoints

_INTERRUPTIONS: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, GeneratorExit, StopNotice)
_log = logging.getLogger(__name__)
_RULES = frozenset({"validate", "columns"})
"""The parts of a pipeline file with the rules for rows."""


class StageRecord:
    """Records what `end` is given, or the error that leaves its block, over the record of an earlier try.

    Not recorded: an interruption, and what is of `no_end`, with which an orchestrator calls the same try again later.
    try_number: grows from try to try, also after a clear; 0 where nobody counts them. again: whether the orchestrator
    tries the stage again by itself after an error. Neither at work nor before such a try a run has failed.
    attempt: the attempt that computes the stage, if one does. Its last lines and its log are recorded too, its
    container is removed then. Once another attempt has taken it over, nothing is recorded but a result that the run has
    not: that attempt may be another run's, which records its own.
    """

    def __init__(
        self,
        store: Store,
        plan: RunPlan,
        stage: Stage,
        *,
        no_end: tuple[type[BaseException], ...] = (),
        try_number: int = 0,
        again: Callable[[BaseException], bool] = lambda _: False,
    ) -> None:
        self.attempt: Attempt | None = None
        self.last_lines: tuple[str, ...] = ()
        """Of a stage that no attempt computes, where an earlier attempt left its log."""
        self.log: str | None = None
        """The key of that log."""
        self._store, self._plan, self._stage = store, plan, stage
        self._no_end, self._number, self._again = (*_INTERRUPTIONS, *no_end), try_number, again
        self._key = paths.outcome(plan.spec.name, plan.run_id, stage)
        self._began, self._seen = time.monotonic(), ""
        """_seen: the etag of the record when this try began; empty if there was none."""

    def __enter__(self) -> Self:
        before = self._store.head(self._key)
        self._seen = before.etag if before is not None else ""
        if before is not None and self._number > 1:
            self._begin_again(before)
        return self

    def _begin_again(self, before: Entry) -> None:
        """A stage that has failed is at work again: from here on its run is none that failed."""
        failed = self._on_record()
        if failed is not None and failed.state == "failed" and not failed.again:
            self._keep(failed.model_copy(update={"again": True}), before)

    @property
    def _is_last(self) -> bool:
        """Whether the run has ended with this stage."""
        return self._stage == self._plan.spec.sequence[-1]

    def _on_record(self) -> Outcome | None:
        return outcome_of_stage(self._store, self._plan.spec.name, self._plan.run_id, self._stage)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, self._no_end):
            self._fail(error)
        if self.attempt is not None:
            self.attempt.clear()

    def _fail(self, error: BaseException) -> None:
        """Record an error. Where that fails, one of ours is tried again, and its container is there then."""
        mask_error(error)
        try:
            self._say_of_upgrades(error)
            self.end(
                Outcome(
                    stage=self._stage,
                    state="failed",
                    because=_cause(error),
                    damaged=isinstance(error, CorruptArtifact),
                    other_code=isinstance(error, OtherCode),
                    again=self._again(error),
                ),
                judged=isinstance(error, DataRejected),
            )
        except (RatchetError, OSError) as unrecorded:
            if isinstance(error, RatchetError):
                raise
            # Such as a full disk, which is the error itself.
            _log.warning("how %s ended is not recorded: %s", self._stage, unrecorded)

    def _say_of_upgrades(self, error: BaseException) -> None:
        """A person should know that the code has changed in between."""
        plan = plan_of(self._store, self._plan.spec.name, self._plan.run_id)
        if isinstance(error, RatchetError) and plan is not None and plan.upgrades:
            error.cause += f" (the run was {plan.upgrades[-1].line})"

    def end(self, outcome: Outcome, *, judged: bool = True) -> Outcome:
        """Record an outcome. It is returned with its seconds: of the block, and of the job that was left before.

        judged: whether the stage came to its end, so that its checks are of the rows of this try.
        """
        lines = (self.attempt.last_lines if self.attempt else ()) or self.last_lines
        log = (self.attempt.log if self.attempt else None) or self.log
        left_s = self.attempt.left_s if self.attempt else 0.0
        seconds = round(time.monotonic() - self._began + left_s, 3)
        said = {"because": _plain(outcome.because), "last_lines": tuple(map(_plain, lines))}
        outcome = outcome.model_copy(update={"seconds": seconds, "log": log, "try_number": self._number, **said})
        before = self._store.head(self._key)
        ours = self.attempt is None or not self.attempt.lost or self._is_lacking(outcome)
        if ours and not self._is_late(before):
            if judged:
                self._record_day(outcome)
            self._record_winner(outcome)
            self._keep(outcome, before)
        return outcome

    def _is_lacking(self, outcome: Outcome) -> bool:
        """Whether this is the result of a stage that has not ended yet in this run, as far as is recorded."""
        if outcome.result is None:
            return False
        before = self._on_record()
        return before is None or before.again

    def _is_late(self, entry: Entry | None) -> bool:
        """Whether a later try has recorded its end since this one began. entry: of the record as it is now."""
        if entry is None or entry.etag == self._seen:
            return False
        recorded = self._on_record()
        late = recorded is not None and recorded.try_number > self._number
        if late:
            _log.warning("a later try of %s has recorded how it ended; this one changes nothing", self._stage)
        return late

    def _keep(self, outcome: Outcome, before: Entry | None) -> None:
        """before: of the record as it is now. Another try may write it in between: the later one's stays."""
        if before is not None:
            note_again(self._store, self._plan)
        if outcome.again or self._is_last:
            moment = datetime.fromtimestamp(self._store.now_ns() / 1e9, UTC)
            outcome = outcome.model_copy(update={"recorded": moment})
        data = outcome.model_dump_json(by_alias=True).encode()
        while not self._store.replace(self._key, data, expected=before.etag if before else None):
            before = self._store.head(self._key)
            if self._is_late(before):
                break
        else:
            self._delete_checkpoints(outcome)
        note_end(self._store, self._plan)

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


def _plain(text: str) -> str:
    """Without secrets, and without lone surrogates, such as from the name of a file: JSON has none."""
    return mask(text).encode("utf-8", "replace").decode()


def _cause(error: BaseException) -> str:
    return error.cause if isinstance(error, RatchetError) else f"{type(error).__name__}: {error}".rstrip(": ")
