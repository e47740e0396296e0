"""`ratchet schema`: every key of pipeline.yaml, from the classes that check it: JSON Schema for editors, or a table."""

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import show_duration, show_fraction, show_memory

_SHOW: dict[str, Callable[[Any], object]] = {"20%": show_fraction, "1h30m": show_duration, "4g": show_memory}
_INTRODUCTION = """# pipeline.yaml, key by key

Made by `ratchet schema --markdown` from the classes that check the file. Keys in bold have no default.
Shares are written like `20%`, durations like `1h30m` (d, h, m, s; up to `365d`), memory like `4g` (k, m, g, t).
Types are those of YAML 1.2: `"3"` is no number, `30.0` no whole number, `yes` is text.
Text may take values from the environment of the orchestrator as `${NAME}` in `source.uri`.

| key | value | default | meaning |
|---|---|---|---|
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("--markdown", action="store_true", help="a table for people")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    print(markdown() if options.markdown else json.dumps(schema(), indent=2), end="" if options.markdown else "\n")
    return 0


def schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of a pipeline file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **PipelineSpec.model_json_schema(by_alias=True, mode="validation"),
        "title": "Ratchet pipeline",
    }


def markdown() -> str:
    """Every key as a row of a table, in the order of the file."""
    whole = schema()
    return _INTRODUCTION + "".join(f"| {' | '.join(row)} |\n" for row in _rows(whole, whole["$defs"], ""))


def _rows(node: dict[str, Any], definitions: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    for key, described in node.get("properties", {}).items():
        inner = _resolve(described, definitions)
        needed = key in node.get("required", ())
        name = f"{prefix}{key}"
        members = inner.get("oneOf")
        yield (
            f"**`{name}`**" if needed else f"`{name}`",
            _kind(inner),
            "" if needed else _default(described, inner),
            (described.get("description") or inner.get("description") or "").replace("\n", " ").replace("|", "\\|"),
        )
        for member in members or ():
            tagged = _resolve(member, definitions)
            yield from _rows(tagged, definitions, f"{name}.")
        if "properties" in inner:
            yield from _rows(inner, definitions, f"{name}.")
        below = inner.get("additionalProperties") or next(iter(inner.get("patternProperties", {}).values()), None)
        if isinstance(below, dict):
            yield from _rows(_resolve(below, definitions), definitions, f"{name}.<{_placeholder(key)}>.")


def _placeholder(key: str) -> str:
    return {"columns": "name", "stages": "stage", "resources": "stage"}[key]


def _resolve(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A node with its reference, or the one of its optional content, followed."""
    for option in node.get("anyOf", ()):
        if "$ref" in option:
            return _resolve(option, definitions)
    if "$ref" in node:
        found: dict[str, Any] = definitions[node["$ref"].rpartition("/")[2]]
        return found
    return node


def _kind(node: dict[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
    if "examples" in node:
        return f"such as `{node['examples'][0]}`"
    if "anyOf" in node:
        return " or ".join(sorted({_kind(option) for option in node["anyOf"] if option.get("type") != "null"}))
    if "oneOf" in node:
        return "a mapping"
    names = {"object": "a mapping", "array": "a list", "integer": "a whole number", "number": "a number"}
    kind = node.get("type", "")
    return names.get(kind, {"string": "text", "boolean": "true or false"}.get(kind, str(kind)))


def _default(node: dict[str, Any], inner: dict[str, Any]) -> str:
    value = node.get("default")
    if value is None or isinstance(value, dict):
        return ""
    show = _SHOW.get(inner.get("examples", [""])[0])
    return f"`{show(value) if show else json.dumps(value)}`"
