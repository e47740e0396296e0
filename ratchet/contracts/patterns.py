"""The patterns of text in a pipeline file, in words."""

import re
from collections.abc import Mapping

from ratchet.contracts.gate import NAME

IN_WORDS: Mapping[str, str] = {
    NAME: "small letters and digits, in words joined by a single - or _, a letter first, as in late-orders",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "letters, digits and _, no digit first, as in distance_km",
    r"^[a-z][a-z0-9_-]*$": "small letters, digits, - and _, a letter first, as in data-team",
    r"^[^/*?]+$": "the name of a file, without / and *, as in _SUCCESS",
    r"^expect_[a-z_]+$": "expect_ and then small letters and _, as in expect_column_mean_to_be_between",
}
"""What each pattern of a pipeline file allows."""


def nearest_name(given: object) -> str:
    """The name that a person may have meant: `Late Orders` -> `late-orders`; empty where there is none."""
    near = re.sub(r"[^a-z0-9_]+", "-", str(given).lower()).strip("-_")
    return near if re.match(NAME, near) else ""
