"""The variables that a source's URI names: those that no operator can allow are refused with the file."""

import re
from collections.abc import Iterator
from typing import Any

from ratchet.contracts.environment import SOURCE_ADDRESSES, is_setting
from ratchet.contracts.joins import sources
from ratchet.contracts.misfits import Misfit

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
ADDRESSES = (SOURCE_ADDRESSES, f"{SOURCE_ADDRESSES}_*")
"""What each source may read; `*` is any ending."""


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a name is one of the patterns; `*` at the end of one is any ending."""
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)


def variables_fit(spec: Any) -> Iterator[Misfit]:
    """The rule for a pipeline file. What else an sql source may read is the operator's setting."""
    for path, source in sources(spec):
        for name in dict.fromkeys(VARIABLE.findall(source.uri)):
            if is_setting(name):
                message = f"${{{name}}} is a setting of this installation, which no source may read"
                yield Misfit((*path, "uri"), message)
            elif source.kind != "sql" and not matches(name, ADDRESSES):
                message = f"${{{name}}} is not an address, and plans and logs show the place of the files"
                remedy = f"rename it to {ADDRESSES[1][:-1]}{name}, or write the place itself"
                yield Misfit((*path, "uri"), message, ", ".join(ADDRESSES), remedy=remedy)
