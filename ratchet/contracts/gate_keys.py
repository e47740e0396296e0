"""The keys that decide whether a candidate is promoted: their limits, and who may change them for one run.

A change here violates the promise of the project when a run can weaken the gate in silence, or that of a pipeline whose
promotion is a person's decision.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ratchet.contracts.authority import people
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.gate import Promote
from ratchet.contracts.misfits import Misfit
from ratchet.contracts.quantities import show_fraction

LEAST, MOST = 0.5, 0.9999
"""Below one half the bound is on the wrong side of the gain, and the draws of the bootstrap have no higher quantile."""
_SECTIONS = ("gate", "register")
_FREEDOM: tuple[Promote, ...] = ("never", "approve", "auto")
_OTHERS = frozenset({"evaluate", "evaluate.cluster", "evaluate.metric", "evaluate.slices", "train", "train.refit"})
"""Rows that vary together make a bound too close if they count alone. A refit ships other bits than were measured."""


def confidence_decides(spec: Any) -> Iterator[Misfit]:
    """The rule for a pipeline file: `gate.confidence` is a confidence, not the share of errors that one accepts."""
    given = spec.gate.confidence
    if LEAST <= given <= MOST:
        return
    turned = round(1 - given, 12)
    near = f"{100 * turned:g}%" if given < LEAST and turned <= MOST else ""
    message = f"{show_fraction(given)} is no confidence that can decide about a promotion"
    yield Misfit(("gate", "confidence"), message, "50% to 99.99%", near)


def approvers_suffice(spec: Any) -> Iterator[Misfit]:
    """The rule for a pipeline file: as many people may approve as have to, and they are asked at all."""
    register = spec.register_
    if register.promote != "approve":
        for key, given in (("approvers", register.approvers), ("approvals", register.approvals > 1)):
            if given:
                yield Misfit(("register", key), f"nobody is asked while register.promote is {register.promote}")
        return
    named = people(register.approvers)
    if named and len(named) < register.approvals:
        message = f"{register.approvals} people have to approve, and register.approvers names {len(named)}"
        yield Misfit(("register", "approvers"), message)


def gate_keys(overrides: Iterable[str]) -> tuple[str, ...]:
    """The overridden keys, dotted, that decide about a promotion."""
    return tuple(sorted(key for key in overrides if key.partition(".")[0] in _SECTIONS or key in _OTHERS))


def allows(promote: Promote, asked: Promote) -> bool:
    """Whether a file with this `register.promote` allows a run to ask for so much."""
    return _FREEDOM.index(asked) <= _FREEDOM.index(promote)


def refuse_promotion(asked: Promote | None, promote: Promote, pipeline: str) -> None:
    """Raise ConfigurationError if a run asks for more than the file allows. asked: by the person who starts the run.

    promote: `register.promote` of the file, without the overrides.
    """
    if asked is None or allows(promote, asked):
        return
    raise ConfigurationError(
        f"promote {asked}: register.promote of {pipeline} is {promote}, and a single run may not ask for more",
        remedy="change register.promote in pipeline.yaml"
        + ("; or start the run in Airflow, where a person is asked" if promote == "approve" else ""),
    )


def refuse_other_production(file: tuple[str, str], run: tuple[str, str]) -> None:
    """Raise ConfigurationError if a run is for another pipeline or another model than its file.

    file, run: the names of the pipeline and of the registered model, without and with the overrides. Another model may
    belong to a pipeline whose `register.promote` allows less.
    """
    for key, ours, given in zip(("name", "register.model"), file, run, strict=True):
        if ours != given:
            raise ConfigurationError(
                f"--set {key}: a single run of the file of {ours} may not be for the production of {given}",
                remedy=f"change {key} in pipeline.yaml",
            )


def refuse_gate_overrides(overrides: Mapping[str, str], promote: Promote, pipeline: str) -> None:
    """Raise ConfigurationError if a run changes the gate of a pipeline that is not promoted without a person.

    promote: `register.promote` of the file, without the overrides.
    """
    if promote == "auto" or not (keys := gate_keys(overrides)):
        return
    raise ConfigurationError(
        f"--set {keys[0]}: register.promote of {pipeline} is {promote}, so a single run may not change its gate",
        remedy=f"change {keys[0]} in pipeline.yaml",
    )
