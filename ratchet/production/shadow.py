"""The shadow ledger of a backfill: what it would have promoted, had it been allowed to, date by date.

A run that may not move production and belongs to a chain of dates is measured against the last winner of earlier dates
of its chain; before the first one, against who was in office on its date. The winners are kept by the ledger's own code
under another prefix, so production and its alias never see them. See docs/adr/028.

A change here violates the promise of the project when a shadow record moves production, or what a date is measured
against depends on a later date.
"""

from datetime import UTC, datetime

from ratchet.contracts import paths, summaries
from ratchet.contracts.champion import Champion
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import STAGES, Stage
from ratchet.production.baseline import as_champion, drift_reference
from ratchet.store.base import Store
from ratchet.store.ledger import Change, LedgerConflict, Record, append, records

_TRIES = 20


def judges_in_shadow(plan: RunPlan) -> bool:
    """Whether a run is measured against its chain's own winners."""
    return bool(plan.chain) and plan.promotion.mode == "never"


def shadow_baseline(store: Store, plan: RunPlan) -> Champion | None:
    """The last winner of earlier dates in the run's chain; else who was in office on its date; else None."""
    model = plan.spec.model_name
    history = records(store, model, place=paths.shadow(model, plan.chain))
    earlier = [record for record in history if record.data_date < plan.data_date]
    if not earlier:
        return drift_reference(store, model, plan.data_date)
    newest = max(earlier, key=lambda record: (record.data_date, record.number))
    return as_champion(newest).model_copy(update={"shadow": True})


def keep_winner(store: Store, plan: RunPlan, ended: dict[Stage, Outcome]) -> Record | None:
    """Record the candidate of a run in its chain's shadow ledger if its verdict is promote; None if it is not.

    ended: how the stages ended so far. Safe to call again: a date's winner that is recorded last is not repeated.
    """
    results = {stage: one.result for stage, one in ended.items() if one.result is not None}
    if "train" not in results or "evaluate" not in results:
        return None
    if summaries.judgement(results["evaluate"]).verdict != "promote":
        return None
    change = _change(plan, ended, results)
    place = paths.shadow(change.model, plan.chain)
    for _ in range(_TRIES):
        history = records(store, change.model, place=place)
        ours = [record for record in history if record.data_date == plan.data_date]
        if ours and ours[-1].model_digest == change.model_digest:
            return ours[-1]
        try:
            return append(store, change, after=len(history), place=place)
        except LedgerConflict:
            continue
    raise Unavailable(f"{store.uri}/{place}: other runs keep writing to it")


def _change(plan: RunPlan, ended: dict[Stage, Outcome], results: dict[Stage, StageResult]) -> Change:
    judged, training = summaries.judgement(results["evaluate"]), results["train"]
    return Change(
        model=plan.spec.model_name,
        action="promote",
        version=f"{plan.data_date}",
        fingerprint=training.fingerprint,
        model_digest=summaries.trained(training).digest,
        manifests={stage: key for stage in STAGES if stage in ended and (key := ended[stage].manifest)},
        data_date=plan.data_date,
        window_start=plan.source[0].day if plan.source else plan.data_date,
        pipeline=plan.spec.name,
        run_id=plan.run_id,
        reason=f"{judged.reason}: {judged.explanation}",
        baseline=judged.baseline.number if judged.baseline and judged.baseline.shadow else None,
        recorded=datetime.now(UTC),
        gate=plan.spec.gate,
        overrides=plan.overrides,
        started_by=plan.started_by,
        verdict=judged.reason,
        gain=judged.gain,
        after=plan.data_date,
    )
