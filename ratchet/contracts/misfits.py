"""Rules between keys: each key may be right, and still not go with another."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from ratchet.contracts.yaml_lines import KeyPath


class Misfit(NamedTuple):
    """What does not fit, at which key, what is allowed and the nearest of it; the last two may be empty."""

    key: KeyPath
    message: str
    allowed: str = ""
    suggestion: str = ""


Rule = Callable[[Any], Iterable[Misfit]]
"""Looks at a spec, or at a draft of one."""


class Unknown(AttributeError):
    """A rule asked a draft for a key that is wrong itself."""


class SpecProblems(ValueError):
    """A spec whose keys do not fit together. Raised inside validation, unpacked by `loading`."""

    def __init__(self, found: list[Misfit]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, misfit.key))}: {misfit.message}" for misfit in found))


def misfits(subject: Any, rules: Iterable[Rule]) -> list[Misfit]:
    """What each rule finds; on a draft, as far as it gets with the keys that are right."""
    found: list[Misfit] = []
    for rule in rules:
        with suppress(Unknown):
            found.extend(rule(subject))
    return found
