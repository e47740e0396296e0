"""Loads a pipeline.yaml as a `PipelineSpec`, or reports every problem in it at once."""

import json
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ratchet.contracts.category_statistics import statistics_fit
from ratchet.contracts.checks import keys_exist, volume_compares
from ratchet.contracts.column_names import expand_columns
from ratchet.contracts.errors import PipelineInvalid, Problem
from ratchet.contracts.gate import NAME
from ratchet.contracts.gate_keys import approvers_suffice, confidence_decides
from ratchet.contracts.joins import written_joins_fit
from ratchet.contracts.learnable import learnable
from ratchet.contracts.limits import LIMITS
from ratchet.contracts.misfits import Misfit, Rule, SpecProblems, misfits
from ratchet.contracts.partial_document import unwrap, valid_part
from ratchet.contracts.patterns import IN_WORDS, nearest_name
from ratchet.contracts.pipeline import RULES, PipelineSpec
from ratchet.contracts.schedule import schedule_fires
from ratchet.contracts.source_names import variables_fit
from ratchet.contracts.source_password import no_password_is_shown
from ratchet.contracts.yaml_lines import KeyPath, YamlDocument

FILE = "pipeline.yaml"
_PLACE = re.compile(r"(.+?):(\d+)(?::\d+)?$")
_OF_FILES: tuple[Rule, ...] = (
    schedule_fires,
    volume_compares,
    keys_exist,
    variables_fit,
    no_password_is_shown,
    written_joins_fit,
    confidence_decides,
    approvers_suffice,
    learnable,
    statistics_fit,
    *LIMITS,
)
"""Rules for what people write: a stored document that breaks one still reads."""
_LONG = 40
"""Letters of a list that is printed once only."""
_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "tuple_type": "a list",
}


def load(path: Path, overrides: Mapping[str, Any] | None = None, rules: Iterable[Rule] = ()) -> PipelineSpec:
    """Read a pipeline file, or the pipeline.yaml of a folder; overrides are values by dotted key.

    Types are those of YAML 1.2: text is not a number, and `yes` is text. rules: further rules that the spec must obey.
    Raises PipelineInvalid with every problem, each as `file:line: key: problem; allowed: ...; did you mean ...`.
    """
    file = path / FILE if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PipelineInvalid(
            [Problem(where=str(file), key="", message="no such file", allowed=f"a {FILE} or its folder")]
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineInvalid([Problem(where=str(file), key="", message=f"cannot be read: {error}")]) from None
    return loads(text, str(file), overrides, rules)


def loads(
    text: str, file: str = FILE, overrides: Mapping[str, Any] | None = None, rules: Iterable[Rule] = ()
) -> PipelineSpec:
    """Like `load`, from text. file: the name in the problems."""
    located = YamlDocument(text, file)
    if not isinstance(located.data, dict):
        if not located.problems:
            located.problems.append(Problem(where=f"{file}:1", key="", message="must be a mapping (key: value)"))
        raise PipelineInvalid(located.problems)
    expand_columns(located)
    replaced = _override(located, overrides or {})
    found: list[Misfit] = []
    try:
        # As JSON: its strict mode accepts a list for a tuple, but not text for a number.
        spec = PipelineSpec.model_validate_json(json.dumps(located.data), strict=True)
    except ValidationError as error:
        found = _key_errors(error, located.data)
        subject: Any = valid_part(PipelineSpec, located.data, {*located.refused, *(misfit.key for misfit in found)})
        found += misfits(subject, RULES)
    else:
        subject = spec
    found += misfits(subject, (*_OF_FILES, *rules))
    problems = [*located.problems, *(_problem(misfit, located, replaced) for misfit in dict.fromkeys(found))]
    if problems:
        in_order = sorted(problems, key=partial(_order, file))
        raise PipelineInvalid(_without_repeats(in_order))
    return spec


def _order(file: str, problem: Problem) -> tuple[bool, str, int]:
    """The problems of flags come first, then those of the pipeline file by line, then those of other files."""
    found = _PLACE.match(problem.where)
    if found is None:
        return False, "", 0
    other = found[1] != file
    return other, found[1] if other else "", int(found[2])


def _without_repeats(problems: Iterable[Problem]) -> list[Problem]:
    """The problems, each once, and a long list of what is allowed only where it is needed first."""
    shown: dict[str, Problem] = {}
    found = []
    for problem in dict.fromkeys(problems):
        first = shown.setdefault(problem.allowed, problem)
        if first is not problem and len(problem.allowed) > _LONG:
            found.append(replace(problem, allowed=f"see {first.key}"))
        else:
            found.append(problem)
    return found


def _override(located: YamlDocument, overrides: Mapping[str, Any]) -> set[KeyPath]:
    paths: set[KeyPath] = set()
    for dotted, value in overrides.items():
        path: KeyPath = tuple(dotted.split("."))
        inside = located.data
        for key in path[:-1]:
            below = inside.get(key)
            inside[key] = inside = dict(below) if isinstance(below, dict) else {}
        inside[path[-1]] = value
        paths.add(path)
    return paths


def _key_errors(error: ValidationError, data: Any) -> list[Misfit]:
    """The problems of single keys that pydantic found."""
    found = []
    for detail in error.errors():
        if not isinstance(detail.get("ctx", {}).get("error"), SpecProblems):
            path = _key_path(detail["loc"], data)
            found.append(Misfit(path, *_explain(detail, path, data)))
    return found


def _problem(misfit: Misfit, located: YamlDocument, replaced: set[KeyPath]) -> Problem:
    path, message, allowed, suggestion, remedy, elsewhere = misfit
    flag = next((key for key in replaced if path[: len(key)] == key), None)
    where = elsewhere or (f"--set {'.'.join(map(str, flag))}" if flag else located.where(path))
    key = ".".join(map(str, path))
    return Problem(where=where, key=key, message=message, allowed=allowed, suggestion=suggestion, remedy=remedy)


def _key_path(loc: tuple[int | str, ...], data: Any) -> KeyPath:
    """Pydantic's location without the names of union members and validators, which are not keys of the file."""
    path: list[Hashable] = []
    for index, key in enumerate(loc):
        if isinstance(data, dict) and (key in data or index == len(loc) - 1):
            data = data.get(key)
        elif isinstance(data, (list, tuple)) and isinstance(key, int):
            data = data[key] if key < len(data) else None
        else:
            continue
        if key != "[key]":
            path.append(key)
    return tuple(path)


def _explain(detail: Any, path: KeyPath, data: Any) -> tuple[str, str, str]:
    """(problem, allowed, near name) of one pydantic error."""
    kind, context, given = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == "extra_forbidden":
        return ("unknown key", *_choice(str(path[-1]), _keys_at(path[:-1], data)))
    if kind in {"literal_error", "union_tag_invalid"}:
        options = (context.get("expected") or context["expected_tags"]).replace(" or ", ", ").split(", ")
        chosen = given if kind == "literal_error" else context["tag"]
        return (f"{chosen!r} is not allowed", *_choice(str(chosen), [option.strip("'") for option in options]))
    message = detail["msg"]
    plain = {
        "missing": ("is missing", ""),
        "union_tag_not_found": ("kind is missing", "files, sql, delta"),
        **{name: (f"{given!r} is the wrong type", expected) for name, expected in _KINDS.items()},
    }
    if kind == "string_pattern_mismatch":
        near = nearest_name(given) if context["pattern"] == NAME else ""
        return (f"{given!r} is not allowed", IN_WORDS[context["pattern"]], near)
    text = str(context["error"]) if "error" in context else f"{given!r}: {message[0].lower()}{message[1:]}"
    return (*plain.get(kind, (text, "")), "")


def _choice(given: str, options: list[str]) -> tuple[str, str]:
    """(all options, the nearest option)."""
    near = get_close_matches(given, options, n=1, cutoff=0.6)
    return ", ".join(options), near[0] if near else ""


def _keys_at(path: KeyPath, data: Any) -> list[str]:
    """The keys that are allowed at a path in the file."""
    kind: Any = PipelineSpec
    for key in path:
        data = data[key]
        kind = _inner(kind, str(key), data)
    return sorted(field.alias or name for name, field in kind.model_fields.items())


def _inner(kind: Any, key: str, data: Any) -> Any:
    """The type of the value of a key: a field of a document, or the content of a container."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields: dict[str, FieldInfo] = {field.alias or name: field for name, field in kind.model_fields.items()}
        return unwrap(fields[key].annotation, data)
    return unwrap(get_args(kind)[-1], data)
