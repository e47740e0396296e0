"""YAML with a line number for every key: the safe, strict reader of pipeline files.

The scalars are those of YAML 1.2's core schema, so `NO` is text, `1.10` and `3e-4` are numbers, and a date stays text.
It refuses duplicate keys, unknown tags, recursion, and documents that unfold beyond a bound.
"""

import re
from collections.abc import Callable, Hashable
from typing import Any, Final

import yaml

from ratchet.contracts.errors import Problem
from ratchet.contracts.yaml_errors import mistake

KeyPath = tuple[Hashable, ...]
MAX_BYTES: Final = 256 * 1024
MAX_NODES: Final = 20_000
MAX_DEPTH: Final = 50


class _CoreLoader(yaml.CSafeLoader):
    """libyaml's parser with the scalars of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own registry


for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")),
):
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_SCALARS: dict[str, Callable[[str], Any]] = {
    "tag:yaml.org,2002:null": lambda _: None,
    "tag:yaml.org,2002:bool": lambda text: text.lower() == "true",
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": float,
    "tag:yaml.org,2002:str": str,
}


class YamlDocument:
    """Plain data, the line of each of its keys, and the problems of the text."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self.refused: set[KeyPath] = set()
        """The keys whose values could not be read."""
        self._nodes = 0
        self.data = self._read(text)

    def where(self, path: KeyPath) -> str:
        """`file:line` of a key, or of the nearest key above it."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.file}:{self.lines.get(path, 1)}"

    def refuse(self, path: KeyPath, message: str, allowed: str = "") -> None:
        """Add a problem of a key that the text has."""
        self._refuse(path, self.lines[path], message, allowed)

    def _read(self, text: str) -> Any:
        if len(text.encode()) > MAX_BYTES:
            return self._refuse((), 1, f"larger than {MAX_BYTES // 1024} KiB")
        try:
            node = yaml.compose(text, Loader=_CoreLoader)
        except (yaml.YAMLError, RecursionError) as error:
            line, column, message, remedy = mistake(text, error)
            where = f"{self.file}:{line}:{column}"
            self.problems.append(Problem(where=where, key="", message=f"not valid YAML: {message}", remedy=remedy))
            return None
        return self._refuse((), 1, "the file is empty") if node is None else self._build(node, ())

    def _refuse(self, path: KeyPath, line: int, message: str, allowed: str = "") -> None:
        key = ".".join(map(str, path))
        self.refused.add(path)
        self.problems.append(Problem(where=f"{self.file}:{line}", key=key, message=message, allowed=allowed))

    def _build(self, node: yaml.Node, path: KeyPath) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        self._nodes += 1
        if len(path) > MAX_DEPTH or self._nodes > MAX_NODES:
            if self._nodes <= MAX_NODES + 1:
                self._nodes = MAX_NODES + 1
                self._refuse(path[:3], line, "unfolds too far (an alias inside itself, or too many aliases)")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self._build(child, (*path, index)) for index, child in enumerate(node.value)]
        return self._scalar(node, path)

    def _scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        line = node.start_mark.line + 1
        convert = _SCALARS.get(node.tag) if isinstance(node, yaml.ScalarNode) else None
        if convert is None:
            return self._refuse(path, line, f"tag {node.tag} is not allowed", "plain values, lists and mappings")
        if _CONTROL.search(node.value):
            return self._refuse(path, line, "has a control character, which not every database can store")
        try:
            return convert(node.value)
        except ValueError as error:
            return self._refuse(path, line, str(error))

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        built: dict[str, Any] = {}
        line = node.start_mark.line + 1
        if node.tag != "tag:yaml.org,2002:map":
            self._refuse(path, line, f"tag {node.tag} is not allowed", "plain values, lists and mappings")
            return built
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(path, line, "a key must be plain text")
                continue
            key = str(key_node.value)
            if key in built:
                self._refuse((*path, key), line, f"is a duplicate (first at line {self.lines[(*path, key)]})")
                continue
            self.lines[(*path, key)] = line
            built[key] = self._build(value_node, (*path, key))
        return built


def parse_scalar(text: str) -> Any:
    """Parse a value of a command line as in a file: `1` is a number, `auto` is text. Raises ValueError."""
    document = YamlDocument(text, "value")
    if document.problems:
        problem = document.problems[0]
        raise ValueError(f"{problem.message}; to do: {problem.remedy}" if problem.remedy else problem.message)
    return document.data
