"""`ratchet schema`: prints every key of pipeline.yaml, as JSON Schema for editors or as a page for people."""

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import show_duration, show_fraction, show_memory

_SHOW: dict[str, Callable[[Any], object]] = {"20%": show_fraction, "1h30m": show_duration, "4g": show_memory}
_INTRODUCTION = """# pipeline.yaml, key by key

`ratchet schema --markdown` writes this page from the classes that check the file. Keys in bold have no default.

* Shares are written like `20%`, durations like `1h30m` (d, h, m, s; up to `365d`), memory like `4g` (k, m, g, t).
* Types are those of YAML 1.2: `"3"` is not a number, `30.0` is not a whole number, `yes` is text.
* `ratchet check PIPELINE --explain` prints a file with all defaults filled in.
"""
_HEAD = "\n| key | value | default | meaning |\n|---|---|---|---|\n"
_NOTES = {
    "train": "`model.py` and its contract are in [own-code.md](own-code.md).",
    "evaluate": "[metrics.md](metrics.md) defines each metric.",
    "stages": "The stages are ingest, validate, features, train, evaluate, register and report. By default train has "
    "three retries, `12h` and a grace of `2m`, and register has five retries.",
    "alerts": "[operations.md](operations.md) describes each event.",
}
Row = tuple[str, str, str, str]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("--markdown", action="store_true", help="print docs/pipeline.md instead, tables for people")
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
    """The page: each key once, with a section for each key of the top level that has keys below it."""
    whole = schema()
    definitions, needed = whole["$defs"], whole.get("required", ())
    plain: list[Row] = []
    sections: list[str] = []
    for key, described in whole["properties"].items():
        inner = _resolve(described, definitions)
        rows = list(_below(key, inner, definitions, f"{key}."))
        meaning = _meaning(described, inner)
        if not rows:
            plain.append(_row(key, described, inner, needed=key in needed))
            continue
        always = " Required." if key in needed else ""
        sections.append(
            f"\n## {key}\n\n{' '.join(filter(None, [f'{meaning}{always}', _NOTES.get(key, '')]))}\n" + _table(rows)
        )
    return _INTRODUCTION + "\n## Top level\n" + _table(plain) + "".join(sections)


def _table(rows: list[Row]) -> str:
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _below(key: str, node: dict[str, Any], definitions: dict[str, Any], prefix: str) -> Iterator[Row]:
    """The rows of the keys below a node. A key of several members of a union has one row."""
    if "oneOf" in node:
        yield from _union([_resolve(member, definitions) for member in node["oneOf"]], prefix)
    yield from _properties(node, definitions, prefix)
    below = node.get("additionalProperties") or next(iter(node.get("patternProperties", {}).values()), None)
    if isinstance(below, dict):
        yield from _properties(_resolve(below, definitions), definitions, f"{prefix}<{_placeholder(key)}>.")


def _properties(node: dict[str, Any], definitions: dict[str, Any], prefix: str) -> Iterator[Row]:
    for key, described in node.get("properties", {}).items():
        inner = _resolve(described, definitions)
        yield _row(f"{prefix}{key}", described, inner, needed=key in node.get("required", ()))
        yield from _below(key, inner, definitions, f"{prefix}{key}.")


def _union(members: list[dict[str, Any]], prefix: str) -> Iterator[Row]:
    """The keys of the members of a tagged union. If the meanings differ, the row has that of each member."""
    kinds = [member["properties"]["kind"]["const"] for member in members]
    keys = dict.fromkeys(key for member in members for key in member["properties"])
    for key in sorted(keys, key=lambda key: key != "kind"):
        having = {kind: member for kind, member in zip(kinds, members, strict=True) if key in member["properties"]}
        meanings = {kind: member["properties"][key].get("description", "") for kind, member in having.items()}
        described = next(iter(having.values()))["properties"][key]
        needed = all(key in member.get("required", ()) for member in having.values())
        name, value, default, meaning = _row(f"{prefix}{key}", described, described, needed=needed)
        if len(set(meanings.values())) > 1 or len(having) < len(members):
            meaning = " ".join(f"`{kind}`: {_cell(text)}" for kind, text in meanings.items())
        yield name, ", ".join(f"`{kind}`" for kind in kinds) if key == "kind" else value, default, meaning


def _row(name: str, described: dict[str, Any], inner: dict[str, Any], *, needed: bool) -> Row:
    default = "" if needed else _default(described, inner)
    kind = f"{_kind(inner)}, or `null`" if _has_off(described) else _kind(inner)
    return f"**`{name}`**" if needed else f"`{name}`", kind, default, _meaning(described, inner)


def _has_off(described: dict[str, Any]) -> bool:
    """Whether a key that is on by default may be null, which switches it off."""
    return "default" not in described and {"type": "null"} in described.get("anyOf", ())


def _meaning(described: dict[str, Any], inner: dict[str, Any]) -> str:
    return _cell(described.get("description") or inner.get("description") or "")


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


def _placeholder(key: str) -> str:
    return {"columns": "name", "guards": "metric", "floors": "metric"}.get(key, "stage")


def _resolve(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The node that a reference, or an optional reference, points to; else the node itself."""
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
