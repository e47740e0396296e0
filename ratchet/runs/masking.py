"""Secrets, masked in what a stage prints: the pipeline's own code and its libraries print what they like.

A change here violates the promise of the project when a value that a stage was given as a secret appears in a log.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, quote_plus

from ratchet.contracts.environment import variable
from ratchet.contracts.source import FilesSource, Source
from ratchet.contracts.source_names import ADDRESSES, VARIABLE, matches
from ratchet.contracts.source_password import shows_password
from ratchet.runners.log.lines import Line

MASK = "***"
SHORTEST = 4
"""Letters of a value that is masked. A shorter one hides nothing, and would be masked inside other words."""
_SECRET_NAME = re.compile(r"(PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|KEY|CREDENTIALS?)$", re.IGNORECASE)
_LOGIN = re.compile(r"(://[^/\s:@'\"]*:)([^/\s@'\"]+)(?=@)")
"""A password in a URL: `postgresql://user:password@host`."""
_PROTOCOL = frozenset({"time", "level", "stage", "event"})
"""What the stage's own code writes into each event."""


class Mask:
    """Replaces secrets by `***`: each as it is, and as it appears in JSON, in a URL and in Python's repr."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
        longest_first = sorted(forms, key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """The text without secrets, and without passwords of URLs."""
        if "://" in text:
            text = _LOGIN.sub(rf"\1{MASK}", text)
        return self._secrets.sub(MASK, text) if self._secrets else text

    def line(self, line: Line) -> Line:
        """The line without secrets. An event stays an event, whatever the secrets are."""
        try:
            event = json.loads(line.text) if line.text[:1] == "{" else None
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            inside = {name: value if name in _PROTOCOL else self._value(value) for name, value in event.items()}
            return line if inside == event else replace(line, text=json.dumps(inside, ensure_ascii=False))
        masked = self.text(line.text)
        return line if masked == line.text else replace(line, text=masked)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self._value(inside) for name, inside in value.items()}
        return [self._value(inside) for inside in value] if isinstance(value, list) else value


def secrets_of(source: Source, files: Mapping[str, bytes]) -> set[str]:
    """The secrets that a stage may know.

    files: its files of secrets. Besides, a process has the environment of the process that starts it: what the source
    reads from there, what is named like a secret, and the passwords of URLs.
    """
    found = {value for content in files.values() for value in _values(content.decode("utf-8", "replace"))}
    read = set() if isinstance(source, FilesSource) else set(VARIABLE.findall(source.uri))
    for name, value in os.environ.items():
        if (name in read and not _is_shown(name, value)) or (_SECRET_NAME.search(name) and not value.startswith("/")):
            found.update((value, *value.splitlines()))
        found.update(password for _, password in _LOGIN.findall(value))
    return found


def _values(content: str) -> Iterator[str]:
    """The values of a JSON object, or of the lines `name = value` of a credentials file."""
    try:
        given = json.loads(content)
    except ValueError:
        given = None
    if isinstance(given, dict):
        for name, value in given.items():
            if not _is_shown(name, str(value)):
                yield from (str(value), *str(value).splitlines())
        return
    for line in content.splitlines():
        _, separator, value = line.partition("=")
        if separator:
            yield value.strip()
            yield value.strip().replace("%%", "%")


def _is_shown(name: str, value: str) -> bool:
    """Whether messages show the value of a source's variable: an address, or the names of what sources may read."""
    return (name == variable("source_variables") or matches(name, ADDRESSES)) and not shows_password(value)


def _forms(secret: str) -> set[str]:
    quoted = {quote(secret, safe=""), quote(secret), quote_plus(secret)}
    written = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    return {secret, *quoted, *written}
