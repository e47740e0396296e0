"""The errors of the Delta library: those of the way to its files, and each in one line."""

import re

_COLOURS = re.compile(r"\x1b\[[0-9;]*m|\u21b3")
_ASKED = "Error performing"
"""In each error of a request to an object store, whatever its class."""
_SHOWN = 300
"""Characters of an error. A service may answer with a whole page."""


def one_line(error: BaseException) -> str:
    """What an error says. The library draws a tree in colours."""
    return " ".join(_COLOURS.sub(" ", str(error)).split())[:_SHOWN]


def is_of_the_way(error: BaseException) -> bool:
    """Whether an error says nothing of the table: its files could not be asked for, or the answer was no answer."""
    return isinstance(error, OSError) or _ASKED in str(error)
