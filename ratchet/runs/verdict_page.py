"""The verdict of a run as a page that needs nothing else: for a person who has to answer before the report is made."""

from pathlib import Path

from markupsafe import Markup

from ratchet.contracts import summaries
from ratchet.contracts.judgements import Interval
from ratchet.contracts.request import RunPlan
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Judgement
from ratchet.pages import template
from ratchet.pages.rails import guard_lines
from ratchet.pages.svg import GainAxis, line, svg
from ratchet.pages.words import interval
from ratchet.runs.answers import answers_to_show
from ratchet.runs.history import plan_of
from ratchet.runs.outcomes import outcome_of_stage
from ratchet.store.base import Store

_TEMPLATE = Path(__file__).with_name("verdict.html")
_MOODS = {"promote": "good", "inconclusive": "warn", "reject": "bad"}
_WIDTH, _HEIGHT = 220.0, 18.0
_STAGES: tuple[Stage, ...] = ("evaluate", "train")
"""Those whose records it shows. Each record is a request to the store."""


def verdict_page(store: Store, pipeline: str, run_id: str) -> str:
    """HTML. Raises LookupError if the run has no verdict."""
    plan = plan_of(store, pipeline, run_id)
    evaluated, trained = (outcome_of_stage(store, pipeline, run_id, stage) for stage in _STAGES)
    if plan is None or evaluated is None or evaluated.result is None or trained is None or trained.result is None:
        raise LookupError(f"run {run_id} of {pipeline} has no verdict")
    judged = summaries.judgement(evaluated.result)
    measured = [judged.gain, *(one.gain for one in judged.slices if one.gain)]
    axis = GainAxis([0.0, *(bound for gain in measured for bound in (gain.low, gain.high))], 0, _WIDTH)

    def picture(gain: Interval, kind: str) -> Markup:
        drawn = axis.draw(gain, _HEIGHT / 2, 5, kind=kind)
        return svg(_WIDTH, _HEIGHT, [line("axis-zero", axis(0), 0, axis(0), _HEIGHT), drawn], interval(gain))

    models = _models(plan, judged, summaries.trained(trained.result).digest)
    models += [("Answer", one.line) for one in answers_to_show(store, pipeline, run_id)]
    shown = {"plan": plan, "judged": judged, "mood": _MOODS[judged.verdict], "guards": guard_lines(judged)}
    return template.render(_TEMPLATE, **shown, picture=picture, models=models)


def _models(plan: RunPlan, judged: Judgement, candidate: str) -> list[tuple[str, str]]:
    live = judged.baseline
    found = [("Candidate", f"{candidate}, data up to {plan.data_date}")]
    against = (
        f"version {live.version} (record {live.number}), {live.digest}, data up to {live.data_date}" if live else ""
    )
    found.append(("Production", against or "nothing yet"))
    if plan.started_by:
        found.append(("Started by", plan.started_by))
    return found + [("Changed for this run", f"{key}={value}") for key, value in sorted(plan.overrides.items())]
