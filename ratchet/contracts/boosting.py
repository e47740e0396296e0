"""The keys of boosted trees, and those of networks alone: a pipeline file may not ask for what has no effect.

A key of `train` or `train.model` that is not named here is one of networks, so a new key of theirs is refused too.
"""

from collections.abc import Iterator
from typing import Any

from ratchet.contracts.document import Document
from ratchet.contracts.kinds import BOOSTED
from ratchet.contracts.misfits import Misfit
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.stages import Resources
from ratchet.contracts.training import Model, Train

_KEYS = ("rounds", "leaves", "rate", "min_rows")
"""Of `train.model`, that boosted trees alone have."""
_SHARED = ("kind", "min_count")
"""Of `train.model`, that all kinds have."""
_OF_TRAIN = ("objective", "init", "model", "seed", "valid_days", "patience", "checkpoint", "watchdog", "refit")
_INSTEAD = {"steps": "rounds", "epochs": "rounds", "learning_rate": "rate"}


def keys_of_trees(spec: PipelineSpec) -> tuple[str, ...]:
    """The keys of `train.model` that a pipeline sets and that another kind refuses."""
    return tuple(name for name, _ in _changed(spec.train.model, Model) if name in _KEYS)


def boosting_fits(spec: PipelineSpec) -> Iterator[Misfit]:
    """The rule for pipeline files."""
    yield from _of_trees(spec) if spec.train.model.kind == BOOSTED else _of_networks(spec)


def _of_networks(spec: PipelineSpec) -> Iterator[Misfit]:
    for name, value in _changed(spec.train.model, Model):
        if name in _KEYS:
            message = f"{value} has no effect: only {BOOSTED} has {name}"
            yield Misfit(("train", "model", name), message, remedy=f"leave it out, or set kind: {BOOSTED}")


def _of_trees(spec: PipelineSpec) -> Iterator[Misfit]:
    for name, value in _changed(spec.train, Train):
        if name not in _OF_TRAIN:
            yield _without_effect(("train", name), value, _INSTEAD.get(name))
        elif name == "init":
            message = f"{value}: trees are grown from nothing, and {BOOSTED} cannot begin with a model"
            yield Misfit(("train", "init"), message, "fresh")
        elif name == "patience" and getattr(spec.train, "valid_days", 1) == 0:
            message = f"{value} has no effect with kind {BOOSTED} and valid_days: 0, as nothing measures a plateau"
            yield Misfit(("train", "patience"), message, remedy="leave it out, or set train.valid_days to 1 or more")
    for name, value in _changed(spec.train.model, Model):
        if name not in {*_KEYS, *_SHARED}:
            yield _without_effect(("train", "model", name), value, None)
    for name, value in _changed(spec.resources["train"], Resources):
        if name in {"gpus", "processes"}:
            message = f"{value}: {BOOSTED} trains in one process, on the cores of resources.train.cpus"
            yield Misfit(("resources", "train", name), message, "0" if name == "gpus" else "1")


def _without_effect(key: tuple[str, ...], value: object, instead: str | None) -> Misfit:
    remedy = f"set train.model.{instead} in its place" if instead else "leave it out"
    shown = "it" if isinstance(value, Document) else value
    return Misfit(key, f"{shown} has no effect with kind {BOOSTED}, which has {', '.join(_KEYS)}", remedy=remedy)


def _changed(document: Any, kind: type[Document]) -> Iterator[tuple[str, object]]:
    """The valid keys of a document, or of the valid part of one, whose values are not the default ones."""
    for name, field in kind.model_fields.items():
        default = field.get_default(call_default_factory=True)
        value = getattr(document, name, default)
        if value != default:
            yield name, value
