"""Rules between keys: a valid key may still not fit another valid key."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from ratchet.contracts.yaml_lines import KeyPath


class Misfit(NamedTuple):
    """A problem between keys. allowed: the allowed values; suggestion: the nearest of them; both may be empty.

    remedy: what to do, where that is more than to correct the key. where: `path:line` of a problem in another file than
    the pipeline's; the key is then empty.
    """

    key: KeyPath
    message: str
    allowed: str = ""
    suggestion: str = ""
    remedy: str = ""
    where: str = ""


Rule = Callable[[Any], Iterable[Misfit]]
"""Checks a spec, or the valid part of one."""


class UnknownKey(AttributeError):
    """A rule read a key that is invalid itself."""


class SpecProblems(ValueError):
    """A spec whose keys do not fit together. Raised inside validation, unpacked by `loading`."""

    def __init__(self, found: list[Misfit]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, misfit.key))}: {misfit.message}" for misfit in found))


def misfits(subject: Any, rules: Iterable[Rule]) -> list[Misfit]:
    """The problems that the rules find; on a part, those between its valid keys."""
    found: list[Misfit] = []
    for rule in rules:
        with suppress(UnknownKey):
            found.extend(rule(subject))
    return found
