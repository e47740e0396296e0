"""The place of the day in the URI of files: `{date}`, or `{date:%Y/%m/%d}` with the parts of a date in any order."""

import re
from datetime import date

_PLACE = re.compile(r"\{date(?::([^{}]*))?\}")
_ISO = "%Y-%m-%d"
_DIRECTIVE = re.compile("%(.?)")
_ALLOWED = "Ymdj"
"""The directives of `strftime` that are numbers of a date."""


def day_pattern(uri: str) -> str:
    """A URI whose steps each have their own parts of the date: `a/{date:%Y/%m}/` -> `a/{date:%Y}/{date:%m}/`.

    Raises ValueError, in words for a person, if it has no place for the day, or one that does not tell days apart.
    """
    if "**" in uri:
        raise ValueError("** is not supported; write * for each folder, as in */*.parquet")
    formats = [found[1] or _ISO for found in _PLACE.finditer(uri)]
    if not formats:
        raise ValueError("has no place for the day; put {date} into it (it becomes YYYY-MM-DD), or {date:%Y/%m/%d}")
    used = {found[1] for each in formats for found in _DIRECTIVE.finditer(each)}
    if strange := sorted(used - {*_ALLOWED}):
        raise ValueError(f"%{strange[0]} is no part of a date here; allowed: %Y, %m, %d, %j")
    if not ("Y" in used and ({"m", "d"} <= used or "j" in used)):
        raise ValueError("its dates do not tell one day from another; use %Y with %m and %d, or with %j")
    return _PLACE.sub(_by_step, uri)


def _by_step(found: re.Match[str]) -> str:
    return "/".join(f"{{date:{part}}}" for part in found[1].split("/")) if found[1] else "{date}"


def names_a_day(pattern: str) -> bool:
    """Whether the text of a pattern is another one for each day."""
    try:
        day_pattern(pattern)
    except ValueError:
        return False
    return True


def day_folder(pattern: str) -> str:
    """The folder above the first wildcard of a pattern, and above its files."""
    steps = pattern.split("/")
    fixed = next((i for i, step in enumerate(steps[:-1]) if "*" in step or "?" in step), len(steps) - 1)
    return "/".join(steps[:fixed])


def varies(step: str) -> bool:
    """Whether a step of a URI has a part of the date."""
    return _PLACE.search(step) is not None


def fill(pattern: str, day: date) -> str:
    """The text of a pattern for a day."""
    return _PLACE.sub(lambda found: day.strftime(found[1] or _ISO), pattern)
