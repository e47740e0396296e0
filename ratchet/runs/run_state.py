"""How a run is, by its plan and the outcomes of its stages: whether it ended, and what it waits for."""

from ratchet.contracts import paths, summaries
from ratchet.contracts.approval import why_not_approved
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.run_index import IndexedRun, planned
from ratchet.contracts.stages import Stage
from ratchet.runs.answers import answers
from ratchet.runs.outcomes import outcomes
from ratchet.store.base import Store


def read_run(store: Store, plan: RunPlan) -> IndexedRun:
    """The line of a run, from its plan and the outcomes of its stages."""
    ended = outcomes(store, plan.spec.name, plan.run_id)
    stopped = [outcome for outcome in ended.values() if outcome.state == "failed"]
    failed = [outcome for outcome in stopped if not outcome.again or _is_over(store, plan, ended, outcome)]
    over = bool(failed) or (not stopped and plan.spec.sequence[-1] in ended)
    evaluated, registered = ended.get("evaluate"), ended.get("register")
    judged = summaries.judgement(evaluated.result) if evaluated and evaluated.result else None
    made = summaries.registration(registered.result) if registered and registered.result else None
    trained = next((found.result for stage in ("refit", "train") if (found := ended.get(stage)) and found.result), None)
    shipped = summaries.trained(trained) if trained else None
    refused = shipped.refit.refused if shipped and shipped.refit else ""
    changes = {
        "ended": over,
        "standing": "failed" if failed else judged.verdict if judged else "unfinished",
        "gain": judged.gain if judged else None,
        "would_promote": judged is not None and judged.verdict == "promote" and not refused,
        "model": made.model if made else "",
        "version": made.version if made else "",
        "digest": shipped.digest if shipped else "",
        "cause": _cause(failed, stopped) or "; ".join(filter(None, (refused, judged.explanation if judged else ""))),
        "against": judged.baseline.title if judged and judged.baseline else "",
        "cached": set(ended) == set(plan.spec.sequence)
        and all(one.cached for one in ended.values() if one.stage != "report"),
        "asks": not over and _asks(store, plan, ended),
    }
    return planned(plan).model_copy(update=changes)


def _is_over(store: Store, plan: RunPlan, ended: dict[Stage, Outcome], outcome: Outcome) -> bool:
    """Whether the run has ended since a stage was to be tried again, so that nobody does."""
    last = ended.get(plan.spec.sequence[-1])
    if last is None:
        return False
    if outcome.recorded is not None and last.recorded is not None:
        return outcome.recorded <= last.recorded
    # In records of before, only their files say it.
    entries = [store.head(paths.outcome(plan.spec.name, plan.run_id, one.stage)) for one in (outcome, last)]
    there = [entry.modified_ns for entry in entries if entry is not None]
    return len(there) == len(entries) and there == sorted(there)


def _cause(failed: list[Outcome], stopped: list[Outcome]) -> str:
    """Why it failed, or what it waits for by itself."""
    if failed:
        return f"{failed[0].stage}: {failed[0].because}"
    return f"{stopped[0].stage} is tried again by itself: {stopped[0].because}" if stopped else ""


def _asks(store: Store, plan: RunPlan, ended: dict[Stage, Outcome]) -> bool:
    """Whether a better candidate waits for the answer of a person, or of a second one."""
    evaluated = ended.get("evaluate")
    if plan.promotion.mode != "approve" or evaluated is None or evaluated.result is None:
        return False
    if summaries.judgement(evaluated.result).verdict != "promote" or {"refit", "register"} & ended.keys():
        return False
    given, content = answers(store, plan.spec.name, plan.run_id), evaluated.result.content
    about = [one for one in given if one.evaluation == content]
    if about and about[-1].answer == "no":
        return False
    return bool(why_not_approved(given, plan.spec.register_, started_by=plan.started_by, evaluation=content))
