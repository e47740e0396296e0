"""What people answered when a run asked whether its candidate goes into production: recorded, and read."""

from datetime import datetime
from itertools import count
from typing import Literal

from ratchet.contracts import paths
from ratchet.contracts.approval import Answer
from ratchet.contracts.request import RunPlan
from ratchet.store.base import Store
from ratchet.store.sealed import seal, unseal


def answers(store: Store, pipeline: str, run_id: str) -> tuple[Answer, ...]:
    """Every answer about a run, oldest first. Raises CorruptArtifact if one is damaged, or is of another run."""
    found: list[Answer] = []
    for number in count(1):
        key = paths.answer(pipeline, run_id, number)
        try:
            data = store.read(key)
        except FileNotFoundError:
            return tuple(found)
        remedy = "restore it from a backup; or clear the task `approve` of the run, and answer its question"
        found.append(unseal(data, Answer, where=f"{store.uri}/{key}", remedy=remedy))
    raise AssertionError("unreachable")


def record_answer(
    store: Store, plan: RunPlan, answer: Literal["yes", "no"], *, by: str, at: datetime, text: str, evaluation: str
) -> Answer:
    """Record an answer under the next number. by: empty if nobody answered in time."""
    for number in count(1 + len(answers(store, plan.spec.name, plan.run_id))):
        made = Answer(
            pipeline=plan.spec.name,
            run_id=plan.run_id,
            number=number,
            answer=answer,
            by=by,
            at=at,
            text=text,
            evaluation=evaluation,
        )
        if store.create(paths.answer(plan.spec.name, plan.run_id, number), seal(made)):
            return made
    raise AssertionError("unreachable")
