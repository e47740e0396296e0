"""What ran of a pipeline since the last digest: a line for people, from the index of its runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.masking import mask
from ratchet.contracts.registration import Registration
from ratchet.contracts.run_index import IndexedLedger, IndexedRun
from ratchet.contracts.summaries import registration
from ratchet.pages.words import interval
from ratchet.runs.answers import answers
from ratchet.runs.indexed_ledger import ledger_of
from ratchet.runs.outcomes import outcome_of_stage
from ratchet.runs.run_index import read_index
from ratchet.store.base import Store

State = Literal["failed", "withheld", "promoted", "inconclusive", "rejected", "would promote", "still running"]
STATES: tuple[State, ...] = get_args(State)
"""How a run is, the worst first."""
Runs = Sequence[tuple[IndexedRun, State]]
MEMORY = timedelta(days=8)
"""For so long after its start a run is looked at: it may end, or end otherwise, after a digest has named it. A question
waits for seven days."""
_MOST_RUNS = 3
"""Runs of a pipeline that are named one by one."""
_LONGEST = 200


class Told(Document):
    """What a digest knew: the state of each run, by pipeline and run. The next one says what has changed since."""

    runs: Mapping[str, Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A pipeline of which something is new. states: of these runs. text: one line."""

    pipeline: str
    states: frozenset[State]
    text: str

    @property
    def worst(self) -> State:
        """The state that the line is sorted by."""
        return min(self.states, key=STATES.index)


def recent_runs(store: Store, pipeline: str, now: datetime) -> Runs:
    """The runs of the last days, and how they are now, oldest date first."""
    index = read_index(store, pipeline)
    found = [run for run in index.runs if now - run.created < MEMORY]
    models = {run.model for run in found if run.would_promote} - {""}
    ledgers = {model: ledger_of(store, model, index.ledgers.get(model)) for model in models}
    return [(run, _state(store, pipeline, run, ledgers.get(run.model, IndexedLedger()))) for run in found]


def what_ran(store: Store, pipeline: str, runs: Runs, *, since: datetime, told: Mapping[str, str]) -> Ran | None:
    """What is new: runs that have started since, and those that are no longer as they were told. None if nothing is."""
    new = [
        (run, state)
        for run, state in runs
        if (told[run.run_id] != state if run.run_id in told else run.created >= since)
    ]
    if not new:
        return None
    return Ran(
        pipeline=pipeline, states=frozenset(state for _, state in new), text=f"{pipeline} {_line(store, pipeline, new)}"
    )


def in_one_line(text: str) -> str:
    """A text of any length, short, in one line and without secrets."""
    plain = " ".join(mask(text).split())
    return f"{plain[:_LONGEST]}..." if len(plain) > _LONGEST else plain


def _state(store: Store, pipeline: str, run: IndexedRun, ledger: IndexedLedger) -> State:
    if run.standing == "failed":
        return "failed"
    if run.would_promote and run.digest in ledger.promoted:
        return "promoted"
    if not run.ended:
        return "still running"
    if run.would_promote and run.kind == "backfill":
        return "would promote"
    if run.standing == "promote":
        made = _registered(store, pipeline, run) if run.would_promote else None  # its refit is refused
        return "promoted" if made is not None and made.promoted else "withheld"
    return "rejected" if run.standing == "reject" else "inconclusive"


def _registered(store: Store, pipeline: str, run: IndexedRun) -> Registration | None:
    ended = outcome_of_stage(store, pipeline, run.run_id, "register") if run.version else None
    return registration(ended.result) if ended is not None and ended.result is not None else None


def _line(store: Store, pipeline: str, new: Runs) -> str:
    if len(new) <= _MOST_RUNS:
        return "; ".join(f"{run.day}: {_said(store, pipeline, run, state)}" for run, state in new)
    counts = Counter(state for _, state in new)
    days = [run.day for run, _ in new]
    worst, state = min(new, key=lambda one: STATES.index(one[1]))
    many = ", ".join(f"{counts[one]} {one}" for one in STATES if counts[one])
    return f"{min(days)} to {max(days)}: {many}; {worst.day}: {_said(store, pipeline, worst, state)}"


def _said(store: Store, pipeline: str, run: IndexedRun, state: State) -> str:
    """How a run is, and why, with its gain if it has one."""
    why = {"failed": run.cause, "inconclusive": run.cause, "promoted": f"version {run.version}"}.get(state, "")
    if state == "withheld":
        why = _why_withheld(store, pipeline, run)
    gain = f"gain {interval(run.gain)}" if run.gain is not None else ""
    of = " (backfill)" if run.kind == "backfill" else ""
    return "; ".join(filter(None, (f"{state}{of}{': ' if why else ''}{in_one_line(why)}", gain)))


def _why_withheld(store: Store, pipeline: str, run: IndexedRun) -> str:
    """Why a better candidate is not in production: what register said, or a person."""
    made = _registered(store, pipeline, run)
    if made is not None:
        return f"version {made.version}: {made.withheld}"
    if not run.would_promote:
        return run.cause  # a refused refit
    try:
        given = answers(store, pipeline, run.run_id)
    except (CorruptArtifact, OtherRelease) as error:
        return error.cause
    return given[-1].line if given else "it was not registered"
