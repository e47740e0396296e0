"""Row 26: the newest day is rewritten after it was planned, before ingest reads it."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import SourceChanged
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.runs.requests import Outcomes
from ratchet.store.ledger import champion
from tests.evaluate.nights import Nights
from tests.faults.bad_nights import NEXT, nights, office, source_file, spoil, trainings

__all__ = ["nights", "office"]


@dataclass(kw_only=True)
class Meanwhile(Nights):
    """Nights in which something happens before ingest starts."""

    happens: Callable[[], None]

    def _stage(self, plan: Any, stage: Stage, outcomes: Outcomes) -> Outcome:
        if stage == "ingest":
            self.happens()
        return super()._stage(plan, stage, outcomes)


def test_a_rewritten_day_stops_the_night_and_the_next_one_has_one_version_of_it(nights: Nights) -> None:
    before = champion(nights.store, nights.name), trainings(nights)
    known = {field.name: getattr(nights, field.name) for field in fields(nights)}
    changing = Meanwhile(**known, happens=lambda: spoil(nights, lambda table: table.slice(0, 390)))
    with pytest.raises(SourceChanged, match=source_file(nights).name) as raised:
        changing.run(NEXT)
    assert raised.value.code is ExitCode.UNAVAILABLE
    assert (champion(nights.store, nights.name), trainings(nights)) == before
    nights.number = changing.number
    result = nights.run(NEXT, until="ingest")["ingest"].result
    assert result is not None
    day = summaries.snapshot(result).days[-1]
    assert (day.day, day.file.rows) == (NEXT, 390)
