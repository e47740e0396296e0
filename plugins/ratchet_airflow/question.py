"""The question whether a candidate goes into production, as Markdown: all that a person needs to answer it."""

from datetime import date, datetime

from ratchet.contracts.judgements import Interval, Proof, SliceJudgement
from ratchet.contracts.quantities import percent
from ratchet.contracts.request import RunPlan
from ratchet.contracts.summaries import Judgement
from ratchet.pages.rails import guard_lines

_MOST_SLICES = 60
_ORDER: dict[Proof, int] = {"failed": 0, "not-provable": 1, "passed": 2}
_GUARD: dict[Proof, str] = {"failed": "**broken**", "not-provable": "**not provable**", "passed": "passed"}


def question(plan: RunPlan, judged: Judgement, *, candidate: str, window: tuple[date, date], page: str) -> str:
    """candidate: the model's digest. window: the first and the last day of its data. page: the verdict's address."""
    return "\n\n".join(
        filter(
            None,
            (
                judged.explanation,
                _models(plan, judged, candidate, window),
                _gain(judged),
                _metrics(judged),
                _guards(judged, plan),
                _slices(judged),
                f"[All figures, with pictures]({page})",
                _rule(plan),
            ),
        )
    )


def asked(plan: RunPlan, until: datetime) -> str:
    """Who may answer, and until when."""
    register = plan.spec.register_
    who = ", ".join(register.approvers) or "everybody whom Airflow lets answer"
    return f"{who}; until {until:%Y-%m-%d %H:%M %Z}, then the answer is no"


def _models(plan: RunPlan, judged: Judgement, candidate: str, window: tuple[date, date]) -> str:
    live = judged.baseline
    against = (
        f"version {live.version} | up to {live.data_date} | record {live.number}, `{live.digest[:12]}`"
        if live
        else "a constant scorer | | there is no champion yet"
    )
    head = "| | model | data | identity |\n|---|---|---|---|"
    return (
        f"{head}\n| candidate | run of {plan.data_date} | {window[0]} to {window[1]} | `{candidate[:12]}` |\n"
        f"| production | {against} |"
    )


def _gain(judged: Judgement) -> str:
    return (
        f"**Gain in {judged.metric}**: {_interval(judged.gain)} with {percent(judged.confidence)} confidence; the "
        f"lower bound has to be above {percent(judged.min_gain)}. Measured on {judged.rows:,} held-out rows of "
        f"{', '.join(map(str, judged.holdout))}."
    )


def _metrics(judged: Judgement) -> str:
    lines = ["| metric | candidate | production |", "|---|---|---|"]
    for name, value in sorted(judged.candidate_metrics.items()):
        other = judged.baseline_metrics.get(name)
        lines.append(f"| {name} | {value:.4f} | {'' if other is None else f'{other:.4f}'} |")
    return "\n".join(lines)


def _guards(judged: Judgement, plan: RunPlan) -> str:
    """The guard rails that are not surely kept first, since those are what a person has to see."""
    if not judged.guards:
        return ""
    ordered = sorted(guard_lines(judged), key=lambda one: _ORDER[one.outcome])
    lines = ["| guard rail | found (bounds) | allowed | outcome |", "|---|---|---|---|"]
    lines += [f"| {_plain(one.name)} | {one.found} | {one.allowed} | {_GUARD[one.outcome]} |" for one in ordered]
    unproven = [one.name for one in ordered if one.outcome == "not-provable"]
    said = f"\n\n**Not provable: {_plain(', '.join(unproven))}.** It has not passed; `gate.unproven_guards` is "
    return "\n".join(lines) + (f"{said}`{plan.spec.gate.unproven_guards}`." if unproven else "")


def _slices(judged: Judgement) -> str:
    """The slices that lost first, since those are what a person has to see."""
    if not judged.slices:
        return ""
    ordered = sorted(
        judged.slices, key=lambda one: (one.outcome != "failed", one.gain is not None, one.gain.low if one.gain else 0)
    )
    lines = ["| slice | rows | gain (bounds) | outcome |", "|---|---|---|---|"]
    lines += [
        f"| {_plain(one.name)} | {one.rows:,} | {_bounds(one)} | {_outcome(one)} |" for one in ordered[:_MOST_SLICES]
    ]
    if len(ordered) > _MOST_SLICES:
        lines.append(f"| and {len(ordered) - _MOST_SLICES} more | | | |")
    return "\n".join(lines)


def _bounds(one: SliceJudgement) -> str:
    return _interval(one.gain) if one.gain else "not measurable"


def _outcome(one: SliceJudgement) -> str:
    return "**loses too much**" if one.outcome == "failed" else one.outcome.replace("-", " ")


def _rule(plan: RunPlan) -> str:
    register = plan.spec.register_
    number = "Two people have to approve, and neither of them started the run." if register.approvals > 1 else ""
    who = f"Only these may answer: {', '.join(register.approvers)}." if register.approvers else ""
    started = f"Started by {_plain(plan.started_by)}." if plan.started_by else ""
    changed = ", ".join(f"{key}={value}" for key, value in sorted(plan.overrides.items()))
    return " ".join(
        filter(None, (started, f"Changed for this run: {_plain(changed)}." if changed else "", who, number))
    )


def _interval(gain: Interval) -> str:
    value, low, high = (percent(bound, signed=True) for bound in (gain.value, gain.low, gain.high))
    return f"{value} ({low} to {high})"


def _plain(text: str) -> str:
    """Text from data, as text: no Markdown, and no new cell of a table."""
    kept = "".join(f"\\{letter}" if letter in "\\`*_[]<>|#!" else letter for letter in text)
    return " ".join(kept.split())
