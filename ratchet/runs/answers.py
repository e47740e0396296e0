"""What people answered when a run asked whether its candidate goes into production: recorded, and read."""

from datetime import datetime
from itertools import count
from typing import Literal, TypeVar

from ratchet.contracts import paths
from ratchet.contracts.approval import Answer, RecordedAnswer
from ratchet.contracts.request import RunPlan
from ratchet.store.base import Store
from ratchet.store.sealed import seal, unseal

_Kind = TypeVar("_Kind", bound=Answer)


def answers(store: Store, pipeline: str, run_id: str) -> tuple[Answer, ...]:
    """Every answer about a run, oldest first. Raises CorruptArtifact if one is damaged, or is of another run."""
    found: list[Answer] = []
    for number in count(1):
        one = _read(store, Answer, pipeline, run_id, number)
        if one is None:
            return tuple(found)
        found.append(one)
    raise AssertionError("unreachable")


def answers_to_show(store: Store, pipeline: str, run_id: str) -> tuple[Answer, ...]:
    """The same in two requests, however many there are, from the copies in the newest; none of them may decide.

    An answer that a release before recorded has no copies: then each is read, as where one of them is lost.
    """
    begin = paths.answer(pipeline, run_id, 1).removesuffix("1.json")
    there = {entry.key for entry in store.list(paths.run(pipeline, run_id)) if entry.key.startswith(begin)}
    if not there:
        return ()
    last = None
    if there == {paths.answer(pipeline, run_id, number) for number in range(1, len(there) + 1)}:
        last = _read(store, RecordedAnswer, pipeline, run_id, len(there))
    if last is None or len(last.earlier) != len(there) - 1:
        return answers(store, pipeline, run_id)
    return (*last.earlier, last)


def record_answer(
    store: Store, plan: RunPlan, answer: Literal["yes", "no"], *, by: str, at: datetime, text: str, evaluation: str
) -> Answer:
    """Record an answer under the next number. by: empty if nobody answered in time."""
    while True:
        before = answers(store, plan.spec.name, plan.run_id)
        made = Answer(
            pipeline=plan.spec.name,
            run_id=plan.run_id,
            number=len(before) + 1,
            answer=answer,
            by=by,
            at=at,
            text=text,
            evaluation=evaluation,
        )
        data = seal(RecordedAnswer(**made.model_dump(), earlier=before))
        if store.create(paths.answer(plan.spec.name, plan.run_id, made.number), data):
            return made


def _read(store: Store, kind: type[_Kind], pipeline: str, run_id: str, number: int) -> _Kind | None:
    key = paths.answer(pipeline, run_id, number)
    try:
        data = store.read(key)
    except FileNotFoundError:
        return None
    remedy = "restore it from a backup; or clear the task `approve` of the run, and answer its question"
    return unseal(data, kind, where=f"{store.uri}/{key}", remedy=remedy)
