"""Quantities as people write them: `20%`, `1h30m`, `4g`. Values are plain numbers; dumps are exact text."""

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_BYTES = {"t": 1 << 40, "g": 1 << 30, "m": 1 << 20, "k": 1 << 10, "b": 1}
_DURATION = re.compile(r"^(?:\d{1,12}[dhms])+$")
_MEMORY = re.compile(r"^(\d+(?:\.\d+)?)([bkmgt])b?$")
_PERCENT = re.compile(r"^(\d+(?:\.\d+)?)\s*%$")
MAX_DURATION = 365 * _SECONDS["d"]
"""Seconds. Clocks and container engines can still handle the sum of a few of these."""
MAX_MEMORY = 1024 * _BYTES["t"]
MAX_TOLERANCE = 100
"""As a share: 10,000 %."""


def parse_fraction(value: object) -> float:
    """`20%` or 0.2 -> 0.2. Raises ValueError for other text, and for a number outside 0 to 1."""
    return _parse_share(value, most=1)


def parse_tolerance(value: object) -> float:
    """`400%` or 4 -> 4.0, as `parse_fraction`, up to MAX_TOLERANCE: growth has no limit of 100 %."""
    return _parse_share(value, most=MAX_TOLERANCE)


def _parse_share(value: object, most: int) -> float:
    if isinstance(value, str) and (found := _PERCENT.match(value.strip())):
        fraction = float(found.group(1)) / 100
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        fraction = value
    else:
        raise ValueError(f"{value!r} is not a share; write it like 20% or 0.2")
    if not 0 <= fraction <= most:
        raise ValueError(f"{value!r} is not between 0% and {100 * most}%; write it like 20% or 0.2")
    return float(fraction)


def show_fraction(value: float) -> str | float:
    """0.2 -> `20%`; a number that a percentage cannot represent exactly stays a number."""
    text = f"{value * 100:.12f}".rstrip("0").rstrip(".") + "%"
    return text if parse_tolerance(text) == value else value


def percent(value: float, *, signed: bool = False) -> str:
    """A share or a relative change as text for people: 0.02 -> `2 %`, 0.46571 -> `46.6 %`. No code parses it.

    Exact if two decimals are enough, else rounded: three digits, two decimals below 1 %, up to four for tiny shares.
    signed: 0.44 -> `+44 %`.
    """
    scaled = 100 * value
    if round(scaled, 4) == 0:
        return "0 %"
    if math.isclose(scaled, round(scaled, 2), abs_tol=1e-9):
        number = f"{scaled:+,.2f}".rstrip("0").rstrip(".")
    else:
        decimals = sum(abs(scaled) < bound for bound in (100, 10, 0.1, 0.01))
        number = f"{scaled:+,.{decimals}f}"
    return f"{number if signed else number.removeprefix('+')} %".replace("-", "\N{MINUS SIGN}")


def parse_duration(value: object) -> int:
    """`1h30m` -> 5400 seconds; units d, h, m, s. Raises ValueError for other text, for zero and above 365d."""
    text = value.strip() if isinstance(value, str) else ""
    if not _DURATION.match(text):
        raise ValueError(f"{value!r} is not a duration; write it like 20m, 4h or 1h30m")
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+)([dhms])", text))
    if seconds == 0:
        raise ValueError(f"{value!r} is zero; write it like 20m, 4h or 1h30m")
    if seconds > MAX_DURATION:
        raise ValueError(f"{value!r} is too long; allowed: up to {show_duration(MAX_DURATION)}")
    return seconds


def show_duration(seconds: int) -> str:
    """5400 -> `1h30m`."""
    parts = []
    for unit, size in _SECONDS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_memory(value: object) -> int:
    """`4g` -> bytes; units b, k, m, g, t (powers of 1024). Raises ValueError for other text, for zero, above 1024t."""
    found = _MEMORY.match(value.strip().lower()) if isinstance(value, str) else None
    if not found:
        raise ValueError(f"{value!r} is not an amount of memory; write it like 512m or 4g")
    exact = float(found.group(1)) * _BYTES[found.group(2)]
    if exact > MAX_MEMORY:
        raise ValueError(f"{value!r} is too much; allowed: up to {show_memory(MAX_MEMORY)}")
    size = int(exact)
    if size == 0:
        raise ValueError(f"{value!r} is zero; write it like 512m or 4g")
    return size


def show_memory(size: int) -> str:
    """4294967296 -> `4g`, in the largest unit that divides it."""
    unit = next(unit for unit, factor in _BYTES.items() if size % factor == 0)
    return f"{size // _BYTES[unit]}{unit}"


Fraction = Annotated[
    float,
    BeforeValidator(parse_fraction),
    PlainSerializer(show_fraction, return_type=str | float),
    WithJsonSchema({"type": ["string", "number"], "examples": ["20%"]}),
]
Tolerance = Annotated[
    float,
    BeforeValidator(parse_tolerance),
    PlainSerializer(show_fraction, return_type=str | float),
    WithJsonSchema({"type": ["string", "number"], "examples": ["20%"]}),
]
Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    PlainSerializer(show_duration, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["1h30m"]}),
]
Slots = Annotated[int | None, Field(gt=0, examples=["4"])]
Memory = Annotated[
    int,
    BeforeValidator(parse_memory),
    PlainSerializer(show_memory, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["4g"]}),
]
