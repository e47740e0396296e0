"""From a pipeline.yaml to a `PipelineSpec`, or to every problem in it at once."""

from collections.abc import Hashable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tasks.contracts.errors import PipelineInvalid, Problem
from tasks.contracts.locating import KeyPath, Located
from tasks.contracts.pipeline import PipelineSpec, SpecProblems

FILE = "pipeline.yaml"
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


def load(path: Path, overrides: Mapping[str, Any] | None = None) -> PipelineSpec:
    """Read a pipeline file, or the pipeline.yaml of a folder; overrides are values by dotted key.

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
    return loads(text, str(file), overrides)


def loads(text: str, file: str = FILE, overrides: Mapping[str, Any] | None = None) -> PipelineSpec:
    """The same from text; `file` is the name that problems carry."""
    located = Located(text, file)
    if not isinstance(located.data, dict):
        if not located.problems:
            located.problems.append(Problem(where=f"{file}:1", key="", message="has to be a mapping (key: value)"))
        raise PipelineInvalid(located.problems)
    replaced = _override(located, overrides or {})
    problems = list(located.problems)
    try:
        spec = PipelineSpec.model_validate(located.data)
    except ValidationError as error:
        problems += _problems(error, located, replaced)
    if problems:
        raise PipelineInvalid(sorted(problems, key=_by_line))
    return spec


def _by_line(problem: Problem) -> int:
    line = problem.where.rpartition(":")[2]
    return int(line) if line.isdigit() else 0


def _override(located: Located, overrides: Mapping[str, Any]) -> set[KeyPath]:
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


def _problems(error: ValidationError, located: Located, replaced: set[KeyPath]) -> list[Problem]:
    found: dict[tuple[str, str], Problem] = {}
    for detail in error.errors():
        raised = detail.get("ctx", {}).get("error")
        if isinstance(raised, SpecProblems):
            pairs: list[tuple[KeyPath, str, str, str]] = [
                (tuple(key.split(".")), message, "", "") for key, message in raised.problems
            ]
        else:
            path = _plain_path(detail["loc"], located.data)
            pairs = [(path, *_explain(detail, path, located.data))]
        for path, message, allowed, suggestion in pairs:
            flag = next((key for key in replaced if path[: len(key)] == key), None)
            where = f"--set {'.'.join(map(str, flag))}" if flag else located.where(tuple(_numbered(path)))
            key = ".".join(map(str, path))
            found.setdefault(
                (key, message), Problem(where=where, key=key, message=message, allowed=allowed, suggestion=suggestion)
            )
    return list(found.values())


def _numbered(path: KeyPath) -> list[Hashable]:
    return [int(key) if isinstance(key, str) and key.isdigit() else key for key in path]


def _plain_path(loc: tuple[int | str, ...], data: Any) -> KeyPath:
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
    said = str(context["error"]) if "error" in context else f"{given!r}: {message[0].lower()}{message[1:]}"
    return (*plain.get(kind, (said, "")), "")


def _choice(given: str, options: list[str]) -> tuple[str, str]:
    """(all options, the one that is nearest to what was given)."""
    near = get_close_matches(given, options, n=1, cutoff=0.6)
    return ", ".join(options), near[0] if near else ""


def _keys_at(path: KeyPath, data: Any) -> list[str]:
    """The keys that may stand at a place in the file."""
    kind: Any = PipelineSpec
    for key in path:
        data = data[key]
        kind = _inner(kind, str(key), data)
    return sorted(field.alias or name for name, field in kind.model_fields.items())


def _inner(kind: Any, key: str, data: Any) -> Any:
    """The type one key further in, looking through containers, optionals and the members of `source`."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields: dict[str, FieldInfo] = {field.alias or name: field for name, field in kind.model_fields.items()}
        return _unwrap(fields[key].annotation, data)
    return _unwrap(get_args(kind)[-1], data)


def _unwrap(kind: Any, data: Any) -> Any:
    members = [member for member in get_args(kind) if member is not type(None)]
    if get_origin(kind) is Union or type(kind).__name__ == "UnionType":
        tagged = [member for member in members if _tag(member) == data.get("kind")]
        return _unwrap((tagged or members)[0], data)
    return kind


def _tag(kind: Any) -> Any:
    field = getattr(kind, "model_fields", {}).get("kind")
    return get_args(field.annotation)[0] if field else None
