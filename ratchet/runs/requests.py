"""From a plan and the outcomes so far to the request of one stage, and its fingerprint."""

import json
from collections.abc import Callable, Mapping

from ratchet.contracts import summaries
from ratchet.contracts.day_record import DayStates
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.fingerprint import digest_of, fingerprint, flatten
from ratchet.contracts.repetition import Repetition
from ratchet.contracts.request import UPSTREAM, Input, Outcome, Promotion, RunPlan, StageRequest
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Champion
from ratchet.production.baseline import already_promoted, baseline
from ratchet.runs.accumulation import accumulation, accumulation_parts
from ratchet.runs.repetition import repetition
from ratchet.runs.unmeasured import unmeasured_nights
from ratchet.runtime.release import stage_code
from ratchet.store.base import Store

Outcomes = Mapping[Stage, Outcome]


def why_skipped(stage: Stage, outcomes: Outcomes) -> str | None:
    """Why a stage has nothing to do in this run, or None. Only register can have nothing to do."""
    if stage != "register":
        return None
    evaluate = outcomes.get("evaluate")
    if evaluate is None or evaluate.result is None:
        return None
    judged = summaries.judgement(evaluate.result)
    return None if judged.verdict == "promote" else f"{judged.verdict}: {judged.explanation}"


def compose(store: Store, plan: RunPlan, stage: Stage, outcomes: Outcomes, attempt: str) -> StageRequest:
    """The request of a stage. Raises ConfigurationError if a stage before it has no result in this run."""
    inputs = _inputs(plan, stage, outcomes)
    champion, promotion = plan.champion, plan.promotion
    counted, unmeasured = Repetition(), 0
    if stage in {"evaluate", "register"}:
        trained = summaries.trained(_result(outcomes, "train"))
        candidate = trained.digest
        if stage == "evaluate":
            champion = baseline(
                store,
                plan.spec.model_name,
                data_date=plan.data_date,
                candidate=candidate,
                may_promote=promotion.mode != "never",
            )
            counted = repetition(store, plan, trained)
            unmeasured = unmeasured_nights(store, plan, champion)
        elif already_promoted(store, plan.spec.model_name, candidate, plan.data_date):
            promotion = Promotion(mode=plan.spec.register_.promote)
    parts = {
        **stage_code(stage),
        **{f"input.{name}": given.content for name, given in inputs.items()},
        **({"rebuild": plan.run_id} if plan.rebuild else {}),
        "libraries": digest_of(plan.pins.libraries),
        "data_date": plan.data_date.isoformat(),
        **_PARTS[stage](plan),
        **_champion_parts(stage, champion),
    }
    days = plan.days if stage in {"validate", "register", "report"} else DayStates()
    if stage != "validate":
        days = days.model_copy(update={"accepted": {}})
    parts |= days.parts()
    as_of = plan.as_of if stage == "ingest" else "now"
    if as_of == "then":
        parts["as_of"] = as_of
    if stage == "register":
        parts["promotion"] = promotion.mode
    if stage == "evaluate":
        parts |= {**counted.parts(), **({"unmeasured": str(unmeasured)} if unmeasured else {})}
    micro_batches = 1
    if stage == "train":
        micro_batches = accumulation(store, plan, parts)
        parts |= accumulation_parts(micro_batches)
    if stage == "report":
        parts |= {
            f"outcome.{name}": f"{outcome.state} {outcome.content or outcome.because}"
            for name, outcome in outcomes.items()
        }
    return StageRequest(
        stage=stage,
        run_id=plan.run_id,
        attempt=attempt,
        spec=plan.spec,
        bundle=plan.bundle,
        data_date=plan.data_date,
        source_root=plan.source_root,
        source=plan.source if stage == "ingest" else (),
        inputs=inputs,
        champion=champion,
        promotion=promotion,
        kind=plan.kind,
        store=plan.store,
        tracking_uri=plan.tracking_uri,
        pins=plan.pins,
        overrides=plan.overrides,
        started_by=plan.started_by,
        accumulation=micro_batches,
        as_of=as_of,
        days=days,
        repetition=counted,
        unmeasured=unmeasured,
        fingerprint=fingerprint(parts),
        parts=parts,
    )


def _inputs(plan: RunPlan, stage: Stage, outcomes: Outcomes) -> dict[Stage, Input]:
    inputs: dict[Stage, Input] = {}
    for name in UPSTREAM[stage]:
        outcome = outcomes.get(name)
        if outcome and outcome.manifest and outcome.content:
            inputs[name] = Input(manifest=outcome.manifest, content=outcome.content)
        elif stage != "report":
            raise ConfigurationError(
                f"{stage} of run {plan.run_id}: {name} has no result yet", remedy=f"run {name} of this run first"
            )
    return inputs


def _result(outcomes: Outcomes, stage: Stage) -> StageResult:
    outcome = outcomes.get(stage)
    if outcome is None or outcome.result is None:
        raise ConfigurationError(f"{stage} has no result yet", remedy=f"run {stage} of this run first")
    return outcome.result


def _columns(plan: RunPlan) -> dict[str, str]:
    return {**flatten(plan.spec.columns, "config.columns"), "config.columns": " ".join(plan.spec.columns)}


def _user(plan: RunPlan) -> dict[str, str]:
    return {f"user.{name}": sha256 for name, sha256 in plan.user_files.items()}


def _ingest(plan: RunPlan) -> dict[str, str]:
    schema = {name: {"type": column.type, "derived": column.derived} for name, column in plan.spec.columns.items()}
    source = plan.spec.source.model_dump(mode="json", exclude={"uri", "window_days", "wait"})
    days = {
        f"source.{day.day}": digest_of([file.model_dump(mode="json") for file in day.files]) if day.files else "missing"
        for day in plan.source
    }
    order = {"config.columns": " ".join(plan.spec.columns)}
    again = {f"rebuild.{plan.data_date}": plan.run_id} if plan.refused_by else {}
    return {**flatten(schema, "config.columns"), **order, **flatten(source, "config.source"), **days, **again}


def _validate(plan: RunPlan) -> dict[str, str]:
    return {**_columns(plan), **flatten(plan.spec.validate_, "config.validate"), **flatten(_split(plan), "config")}


def _split(plan: RunPlan) -> dict[str, object]:
    return {
        "source.window_days": plan.spec.source.window_days,
        "evaluate.holdout_days": plan.spec.evaluate.holdout_days,
        "train.valid_days": plan.spec.train.valid_days,
    }


def _features(plan: RunPlan) -> dict[str, str]:
    model = {"train.model.min_count": plan.spec.train.model.min_count, "train.objective": plan.spec.train.objective}
    return {**_columns(plan), **_user(plan), **flatten({**_split(plan), **model}, "config")}


def _train(plan: RunPlan) -> dict[str, str]:
    return {
        **_columns(plan),
        **_user(plan),
        **flatten(plan.spec.train, "config.train"),
        "config.evaluate.metric": json.dumps(plan.spec.metric),
        "config.resources.train.gpus": str(plan.spec.resources["train"].gpus),
        "config.resources.train.cpus": str(plan.spec.resources["train"].cpus),  # sums depend on how they are split
    }


def _evaluate(plan: RunPlan) -> dict[str, str]:
    return {
        **_columns(plan),
        **flatten(plan.spec.evaluate, "config.evaluate"),
        **flatten(plan.spec.gate, "config.gate"),
    }


def _register(plan: RunPlan) -> dict[str, str]:
    return {"config.register.model": json.dumps(plan.spec.model_name), "tracking": plan.tracking_uri or "store"}


def _report(plan: RunPlan) -> dict[str, str]:
    changed = {"overrides": digest_of([plan.overrides, plan.started_by])} if plan.overrides else {}
    return {"spec": digest_of(plan.spec), "tracking": plan.tracking_uri or "store", **changed}


_PARTS: dict[Stage, Callable[[RunPlan], dict[str, str]]] = {
    "ingest": _ingest,
    "validate": _validate,
    "features": _features,
    "train": _train,
    "evaluate": _evaluate,
    "register": _register,
    "report": _report,
}


def _champion_parts(stage: Stage, champion: Champion | None) -> dict[str, str]:
    if stage not in {"validate", "evaluate"}:
        return {}
    if champion is None:
        return {"champion": "none"}
    if stage == "validate":
        return {"champion": champion.manifests.get("validate", "")}
    age = {"champion.data_date": champion.data_date.isoformat()}  # gate.stale_after is about it
    return {"champion": champion.digest, "champion.evaluate": champion.manifests.get("evaluate", ""), **age}
