"""Where the real flights are, and what is known of their storm."""

import os
from datetime import date
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
FLIGHTS = Path(os.environ.get("RATCHET_FLIGHTS", _HERE.parents[2] / "shared" / "data" / "flights"))
PIPELINE = _HERE / "late-flights"
FULL = os.environ.get("RATCHET_FULL") == "1"
"""Whether to take all the nights that there are, instead of a few."""
STORM = {date(2013, 2, 8), date(2013, 2, 9)}
"""It left hardly a flight on these days."""
NEEDED = pytest.mark.skipif(not FLIGHTS.is_dir(), reason="the flights are not here")
