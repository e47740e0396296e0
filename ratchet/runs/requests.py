"""From a plan and the outcomes so far to the request of one stage, and its fingerprint."""

import json
from collections.abc import Callable, Mapping

from ratchet.contracts import summaries
from ratchet.contracts.approval import Answer
from ratchet.contracts.champion import Champion
from ratchet.contracts.day_record import DayStates
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.fingerprint import digest_of, fingerprint, flatten
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.repetition import Repetition
from ratchet.contracts.request import UPSTREAM, Input, Outcome, RunPlan, StageRequest
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import TRAININGS, Stage
from ratchet.production.baseline import baseline
from ratchet.production.findings import unreadable
from ratchet.production.readers import other_readers
from ratchet.production.request_parts import live_parts, moved_parts, obstacle_parts, was_replaced
from ratchet.production.shadow import judges_in_shadow, shadow_baseline
from ratchet.runs.accumulation import accumulation, accumulation_parts, measured_on
from ratchet.runs.answers import answers
from ratchet.runs.code_of_plan import code_of, known_parts
from ratchet.runs.ingest_parts import ingest_parts
from ratchet.runs.parents import fair_parent
from ratchet.runs.repetition import repetition
from ratchet.runs.unmeasured import unmeasured_nights
from ratchet.store.base import Store

Outcomes = Mapping[Stage, Outcome]


def why_skipped(spec: PipelineSpec, stage: Stage, outcomes: Outcomes) -> str | None:
    """Why a stage has nothing to do in this run, or None. Only refit and register can have nothing to do.

    A DAG has the task refit if the file says so, and a run may have switched it off.
    """
    if stage not in {"refit", "register"}:
        return None
    if stage not in spec.sequence:
        return "train.refit is false in this run"
    evaluate, refit = outcomes.get("evaluate"), outcomes.get("refit")
    if evaluate is not None and evaluate.result is not None:
        judged = summaries.judgement(evaluate.result)
        if not judged.has_version:
            return f"{judged.verdict}: {judged.explanation}"
    if stage == "register" and spec.train.refit and refit is not None and refit.result is not None:
        made = summaries.trained(refit.result).refit
        return (made and made.refused) or None
    return None


def _evaluate_parts(outcomes: Outcomes, counted: Repetition, unmeasured: int) -> dict[str, str]:
    """What evaluate depends on beside its inputs: rows that were kept for other models, attempts, and lost nights."""
    kept = summaries.snapshot(_result(outcomes, "ingest")).kept
    rows = {"kept": digest_of([one.model_dump(mode="json") for one in kept])} if kept else {}
    return {**rows, **counted.parts(), **({"unmeasured": str(unmeasured)} if unmeasured else {})}


def _register_parts(store: Store, plan: RunPlan, outcomes: Outcomes) -> dict[str, str]:
    """What register depends on beside its inputs: the promotion, and what is in its way."""
    model, refit = plan.spec.model_name, _result(outcomes, "refit") if plan.spec.train.refit else None
    training, mode = shipped(plan.spec, outcomes), plan.promotion.mode
    if mode == "never" and was_replaced(store, model, summaries.trained(training).digest):
        mode = plan.spec.register_.promote  # as on the night itself: it promotes nothing, and its result is found again
    parts = {"promotion": mode, **obstacle_parts(store, model, _result(outcomes, "train"), refit)}
    if plan.promotion.mode == "never" or "obstacle" in parts:
        return parts
    return {**parts, **moved_parts(store, model, training, _result(outcomes, "evaluate"))}


def shipped(spec: PipelineSpec, outcomes: Outcomes) -> StageResult:
    """The training whose model is registered: the refit where there is one."""
    return _result(outcomes, "refit" if spec.train.refit else "train")


def compose(store: Store, plan: RunPlan, stage: Stage, outcomes: Outcomes, attempt: str) -> StageRequest:
    """The request of a stage.

    Raises ConfigurationError if a stage before it has no result in this run, OtherCode if its plan's code is not known.
    """
    inputs = _inputs(plan, stage, outcomes)
    champion = plan.champion
    counted, unmeasured = Repetition(), 0
    if stage == "evaluate":
        trained = summaries.trained(_result(outcomes, "train"))
        if not unreadable(plan.authority):
            champion = _measured_against(store, plan, trained.digest)
        counted, unmeasured = repetition(store, plan, trained), unmeasured_nights(store, plan, champion)
    parts = {
        **code_of(store, plan, stage),
        **{f"input.{name}": given.content for name, given in inputs.items()},
        **({"rebuild": plan.run_id} if plan.rebuild else {}),
        "libraries": digest_of(plan.pins.libraries),
        "data_date": plan.data_date.isoformat(),
        **_PARTS[stage](plan),
        **_champion_parts(stage, champion),
    }
    parts = known_parts(plan, stage, parts)
    days = plan.days if stage in {"validate", "register", "report"} else DayStates()
    if stage != "validate":
        days = days.model_copy(update={"accepted": {}})
    parts |= days.parts()
    as_of = plan.as_of if stage == "ingest" else "now"
    parts |= {"as_of": as_of} if as_of == "then" else {}
    authority = plan.authority if stage in {"evaluate", "register"} else None
    if authority is not None:
        parts["authority"] = str(authority)
    others = other_readers(store, plan.spec, plan.data_date) if stage == "ingest" else ()
    parts |= {f"readers.{place}": digest_of(one) for place, one in enumerate(others)}
    if stage == "evaluate":
        parts |= _evaluate_parts(outcomes, counted, unmeasured)
    if stage == "register":
        parts |= _register_parts(store, plan, outcomes)
    answered = _answers(store, plan, stage)
    parts |= _answer_parts(answered)
    parent, fresh = fair_parent(store, plan, stage, outcomes.get("features"))
    if stage == "refit":
        parts["input.refitted"] = _result(outcomes, "features").outputs["refitted"].sha256
    if stage in TRAININGS:
        parts |= {"parent": parent.digest} if parent else {}
    micro_batches = accumulation(store, plan, stage, parts) if stage in TRAININGS else 1
    parts |= accumulation_parts(micro_batches)
    if stage == "report":
        parts |= {"upgrades": digest_of([one.line for one in plan.upgrades])} if plan.upgrades else {}
        parts |= live_parts(store, plan.spec.model_name)
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
        joins=plan.joins if stage == "ingest" else {},
        listed=plan.listed if stage == "ingest" else None,
        another_source=stage == "ingest" and plan.reads_another_source,
        inputs=inputs,
        champion=champion,
        promotion=plan.promotion,
        kind=plan.kind,
        store=plan.store,
        tracking_uri=plan.tracking_uri,
        pins=plan.pins,
        upgrades=plan.upgrades if stage == "report" else (),
        overrides=plan.overrides,
        started_by=plan.started_by,
        accumulation=micro_batches,
        measured_on=measured_on(store, plan) if stage in TRAININGS else "",
        parent=parent,
        fresh=fresh,
        as_of=as_of,
        readers=others,
        days=days,
        repetition=counted,
        unmeasured=unmeasured,
        approvals=answered or (),
        authority=authority,
        fingerprint=fingerprint(parts),
        parts=parts,
    )


def _measured_against(store: Store, plan: RunPlan, candidate: str) -> Champion | None:
    if judges_in_shadow(plan):
        return shadow_baseline(store, plan)
    may_promote = plan.promotion.mode != "never"
    model = plan.spec.model_name
    return baseline(store, model, data_date=plan.data_date, candidate=candidate, may_promote=may_promote)


def _answers(store: Store, plan: RunPlan, stage: Stage) -> tuple[Answer, ...] | None:
    """What people answered; None for a stage that does not ask, or a run in which nobody is asked."""
    if stage not in {"register", "report"} or plan.promotion.mode != "approve":
        return None
    return answers(store, plan.spec.name, plan.run_id)


def _answer_parts(answered: tuple[Answer, ...] | None) -> dict[str, str]:
    if answered is None:
        return {}
    return {"approvals": digest_of([one.model_dump(mode="json") for one in answered])}


def _inputs(plan: RunPlan, stage: Stage, outcomes: Outcomes) -> dict[Stage, Input]:
    inputs: dict[Stage, Input] = {}
    for name in (name for name in UPSTREAM[stage] if name in plan.spec.sequence):
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


def _validate(plan: RunPlan) -> dict[str, str]:
    return {**_columns(plan), **plan.spec.check_parts(plan.data_date), **flatten(_split(plan), "config")}


def _split(plan: RunPlan) -> dict[str, object]:
    return {
        "source.window_days": plan.spec.source.window_days,
        "evaluate.holdout_days": plan.spec.evaluate.holdout_days,
        "train.valid_days": plan.spec.train.valid_days,
    }


def _features(plan: RunPlan) -> dict[str, str]:
    model = {"train.model.min_count": plan.spec.train.model.min_count, "train.objective": plan.spec.train.objective}
    refit = {"train.refit": True} if plan.spec.train.refit else {}
    return {**_columns(plan), **_user(plan), **flatten({**_split(plan), **model, **refit}, "config")}


def _train(plan: RunPlan) -> dict[str, str]:
    split = plan.spec.resources["train"].model_dump(include={"gpus", "processes", "cpus"})  # of a sum decides its bits
    return {
        **_columns(plan),
        **_user(plan),
        **flatten(plan.spec.train.model_dump(mode="json", exclude={"refit"}), "config.train"),
        "config.evaluate.metric": json.dumps(plan.spec.metric),
        **flatten(split, "config.resources.train"),
    }


_SERVED = {"max_latency_ms", "max_memory"}
"""What evaluate asks of a candidate as a service, and refit of what is shipped."""


def _refit(plan: RunPlan) -> dict[str, str]:
    return {**_train(plan), **flatten(plan.spec.register_.model_dump(mode="json", include=_SERVED), "config.register")}


def _evaluate(plan: RunPlan) -> dict[str, str]:
    own = _user(plan) if plan.spec.own_metrics else {}
    return {
        **_columns(plan),
        **own,
        **flatten(plan.spec.evaluate, "config.evaluate"),
        **flatten(plan.spec.gate, "config.gate"),
        **flatten(plan.spec.register_.model_dump(mode="json", include=_SERVED), "config.register"),
    }


def _register(plan: RunPlan) -> dict[str, str]:
    return {"config.register.model": json.dumps(plan.spec.model_name), "tracking": plan.tracking_uri or "store"}


def _report(plan: RunPlan) -> dict[str, str]:
    changed = {"overrides": digest_of([plan.overrides, plan.started_by])} if plan.overrides else {}
    then = {"as_of": plan.as_of} if plan.as_of == "then" else {}
    return {"spec": digest_of(plan.spec), "tracking": plan.tracking_uri or "store", **then, **changed}


_PARTS: dict[Stage, Callable[[RunPlan], dict[str, str]]] = {
    "ingest": ingest_parts,
    "validate": _validate,
    "features": _features,
    "train": _train,
    "evaluate": _evaluate,
    "refit": _refit,
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
    age = {"champion.data_date": champion.data_date.isoformat()}  # gate.stale_after is about both
    age |= {"champion.chosen": champion.chosen.isoformat()} if champion.chosen else {}
    shadow = {"champion.shadow": champion.version} if champion.shadow else {}
    return {"champion": champion.digest, "champion.evaluate": champion.manifests.get("evaluate", ""), **shadow, **age}
