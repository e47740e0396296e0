"""The model that a training begins with, where `train.init` is champion: chosen when the run is planned.

A change here violates the promise of the project when two tries of a run begin with different models, a training begins
with a model that has seen days after its own, or a store that does not answer is taken for a champion that is gone.
"""

from datetime import date

from ratchet.contracts import readers, summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.parent import Parent
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.refit import maker
from ratchet.contracts.request import Outcome, RunKind, RunPlan
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import TRAININGS, Stage
from ratchet.contracts.summaries import TrainedModel
from ratchet.production.recipe import recipe
from ratchet.production.standing import Standing, standing
from ratchet.runs.ingredients import lack
from ratchet.store.base import Store
from ratchet.store.ledger import Record, champion_of
from ratchet.store.publishing import read_manifest


class _BeginsFresh(Exception):
    """Why a training begins with random weights although a champion was asked for."""


def find_parent(store: Store, spec: PipelineSpec, data_date: date, kind: RunKind) -> tuple[Parent | None, str]:
    """(the model that a run's training begins with, or None; why it begins fresh although a champion was asked for).

    It is the live champion. A backfill, and a run of a date that the live champion has data of, begin with the model
    that was in office on the date. Raises Unavailable where the store does not answer.
    """
    if spec.train.init == "fresh":
        return None, ""
    try:
        now = _standing(store, spec.model_name)
        parent = _read(store, spec, now, _in_office(now, data_date, kind))
        _refuse(store, parent, data_date)
    except _BeginsFresh as reason:
        return None, str(reason)
    return parent, ""


def _standing(store: Store, model: str) -> Standing:
    try:
        return standing(store, model)
    except CorruptArtifact as error:
        raise _BeginsFresh(f"the ledger cannot be read: {error.cause}") from error


def _in_office(now: Standing, data_date: date, kind: RunKind) -> Record:
    record = now.live
    if record is None:
        raise _BeginsFresh("no model is in production yet")
    if kind == "backfill" or record.data_date >= data_date:
        record = champion_of(now.history, before=data_date)
    if record is None:
        raise _BeginsFresh(f"no model was in production before {data_date}")
    return record


def _read(store: Store, spec: PipelineSpec, now: Standing, record: Record) -> Parent:
    """The model of a record. Raises _BeginsFresh if it cannot be read, was rolled back, or predicts another label."""
    name = f"version {record.version} of {record.model}"
    try:
        result = read_manifest(store, maker(record.manifests)).result
        measured = read_manifest(store, record.manifests["train"]).result
        made = summaries.trained(result)
        if made.trees is not None:
            raise _BeginsFresh(f"{name} is of boosted trees, which have no weights to begin with")
        parent = _parent(record, made, result)
        columns = readers.recorded_columns(result.parts) or {}
    except (CorruptArtifact, LookupError, ValueError) as error:
        cause = error.cause if isinstance(error, CorruptArtifact) else f"{type(error).__name__}: {error}"
        raise _BeginsFresh(f"{name} cannot be read: {cause}") from error
    if banned := now.ban_of(record.model_digest, recipe(measured.parts)):
        raise _BeginsFresh(banned.sentence)
    if made.objective != spec.train.objective:
        raise _BeginsFresh(f"{name} has the objective {made.objective}, and this pipeline {spec.train.objective}")
    label = next((key for key, column in columns.items() if column.role == "label"), spec.label)
    if label != spec.label:
        raise _BeginsFresh(f"{name} predicts {label}, and this pipeline {spec.label}")
    return parent


def _refuse(store: Store, parent: Parent, data_date: date) -> None:
    if parent.until >= data_date:
        raise _BeginsFresh(f"{parent.title} has seen days up to {parent.until}, and this run is of {data_date}")
    for file in (parent.weights, parent.description):
        if found := lack(store, file):
            raise _BeginsFresh(f"{parent.title} cannot be read: {file.key} {found}")


def fair_parent(store: Store, plan: RunPlan, stage: Stage, features: Outcome | None) -> tuple[Parent | None, str]:
    """What a stage is given of a run's parent: (the parent, or None; why training begins fresh all the same).

    Trainings and report are given it; train not if it was rolled back since the run was planned. features: how that
    stage ended. A parent that has seen a held-out day, or a later one, would make the gate's comparison unfair.
    """
    parent = plan.parent
    if stage not in {*TRAININGS, "report"}:
        return None, ""
    if parent is None or features is None or features.result is None:
        return None, plan.fresh
    if stage == "train" and (banned := standing(store, parent.model).ban_of(parent.digest)):
        return None, banned.sentence
    first = min(summaries.features(features.result).split.holdout)
    if parent.until < first:
        return parent, ""
    return None, f"{parent.title} has seen days up to {parent.until}, and this run holds out days from {first} on"


def _parent(record: Record, made: TrainedModel, result: StageResult) -> Parent:
    days = [*made.split.train, *made.split.valid]
    before = made.warm_start.parent if made.warm_start else None
    epochs = made.level + made.fall or made.evaluations[-1].epoch
    return Parent(
        model=record.model,
        version=record.version,
        digest=record.model_digest,
        data_date=record.data_date,
        weights=result.outputs["weights"],
        description=result.outputs["description"],
        since=min([*days, before.since] if before else days),
        until=max([*days, before.until] if before else days),
        epochs=before.epochs if before else epochs,
        generation=before.generation + 1 if before else 1,
    )
