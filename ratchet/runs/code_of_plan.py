"""The code that a plan names, which its stages compute with; an upgrade of the process here does not change it.

A plan names the code of each stage by a digest, and the store has what these digests are of, once for each release.

A change here violates the promise of the project when a request speaks of other code than the image of its plan has.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ratchet.contracts import paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import OtherCode
from ratchet.contracts.fingerprint import canonical, digest_of, leaf
from ratchet.contracts.request import RunPlan
from ratchet.contracts.stages import STAGES, Stage
from ratchet.runtime.code import Modules
from ratchet.runtime.release import stage_code
from ratchet.store.base import Store

_RECORDED: TypeAdapter[dict[str, dict[str, str]]] = TypeAdapter(dict[str, dict[str, str]])


def installed_code(store: Store | None) -> dict[Stage, str]:
    """The digest of each stage's code that is installed here. store: gets what these digests are of, if given."""
    read: Modules = {}
    parts = {stage: stage_code(stage, read) for stage in STAGES}
    code = {stage: digest_of(modules) for stage, modules in parts.items()}
    if store is not None:
        store.create(paths.release(digest_of(code)), canonical(parts))
    return code


def is_installed(plan: RunPlan, stage: Stage) -> bool:
    """Whether the code of a stage that is installed here is the plan's; True for a plan of before, which names none."""
    return plan.code.get(stage) in {None, digest_of(stage_code(stage))}


def code_of(store: Store, plan: RunPlan, stage: Stage) -> dict[str, str]:
    """The digests of the modules of a stage, as `stage_code`, in the release of the plan. Raises OtherCode."""
    if is_installed(plan, stage):
        return stage_code(stage)
    key = paths.release(digest_of(plan.code))
    try:
        found = _RECORDED.validate_json(store.read(key)).get(stage, {})
    except (FileNotFoundError, ValidationError):
        found = {}
    if digest_of(found) != plan.code[stage]:
        raise OtherCode(
            f"{store.uri}/{key}, which has the code of the run's release, is gone or damaged",
            remedy="clear the task, or run again: the rest of the run is planned with the code that is installed",
        )
    return found


def known_parts(plan: RunPlan, stage: Stage, parts: dict[str, str]) -> dict[str, str]:
    """The parts of a fingerprint without the settings that the release of the plan did not have.

    So a stage has the fingerprint that it had before the upgrade: its container and its checkpoints are found again.
    """
    if is_installed(plan, stage):
        return parts
    unknown = tuple(f"config.{path}" for path in _unset(plan.spec))
    below = tuple(f"{name}." for name in unknown)
    lists = {f"config.{path}": of for path, of in _lists(plan.spec)}
    return {
        name: leaf(_as_written(json.loads(value), lists[name])) if name in lists else value
        for name, value in parts.items()
        if name not in unknown and not name.startswith(below)
    }


def _lists(value: object, at: str = "") -> Iterator[tuple[str, Sequence[object]]]:
    """The lists in a document by their dotted keys: each of them is one part."""
    if isinstance(value, list | tuple):
        yield at.removesuffix("."), value
    elif isinstance(value, dict):
        for key, below in value.items():
            yield from _lists(below, f"{at}{key}.")
    elif isinstance(value, Document):
        for name, field in type(value).model_fields.items():
            yield from _lists(getattr(value, name), f"{at}{field.alias or name}.")


def _as_written(plain: Any, value: object) -> Any:
    """The JSON of a value without the keys that its documents were written without."""
    if isinstance(value, list | tuple) and isinstance(plain, list) and len(plain) == len(value):
        return [_as_written(each, of) for each, of in zip(plain, value, strict=True)]
    if isinstance(value, dict) and isinstance(plain, dict):
        return {key: _as_written(each, value.get(key)) for key, each in plain.items()}
    if not isinstance(value, Document) or not isinstance(plain, dict):
        return plain
    names = {field.alias or name: name for name, field in type(value).model_fields.items()}
    return {
        key: _as_written(each, getattr(value, names[key])) if key in names else each
        for key, each in plain.items()
        if key not in names or names[key] in value.model_fields_set
    }


def _unset(value: object, at: str = "") -> Iterator[str]:
    """The dotted keys that a document was written without, and those of the documents in it."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _unset(below, f"{at}{key}.")
    elif isinstance(value, Document):
        for name, field in type(value).model_fields.items():
            key = f"{at}{field.alias or name}"
            if name in value.model_fields_set:
                yield from _unset(getattr(value, name), f"{key}.")
            else:
                yield key
