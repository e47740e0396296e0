"""Whatever happens to a store, what production, kept runs and the next night need is there after each collection.

Nights, reruns, backfills, crashes, promotions by hand, rollbacks and holds come in any order, also in the middle of a
collection; collections are killed at any of their calls.
"""

import os
from contextlib import suppress
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from ratchet.contracts.errors import CorruptArtifact
from tests.collection.village import FIRST, Village

EXAMPLES = int(os.environ.get("RATCHET_STEPS", "300")) // 20
back = st.integers(0, 25)
calls = st.integers(1, 40)
names = st.sampled_from(["delete", "delete", ""])


class Collections(RuleBasedStateMachine):
    """Model: none; what has to be there follows from what is recorded, see Village.check."""

    def __init__(self) -> None:
        super().__init__()
        self.village = Village()
        self.runs = [self.village.night()]

    def teardown(self) -> None:
        self.village.clock.stop()

    @rule(days=st.integers(1, 12))
    def time_goes_on(self, days: int) -> None:
        self.village.clock.days += days

    @rule(count=st.integers(1, 4))
    def nights(self, count: int) -> None:
        for _ in range(count):
            self.runs.append(self.village.night())
            self.village.clock.days += 1

    @rule(days=back)
    def backfill(self, days: int) -> None:
        day = FIRST + timedelta(days=int(self.village.clock.days) - days)
        self.runs.append(self.village.night(day, kind="backfill"))

    @rule(days=back)
    def crash(self, days: int) -> None:
        self.village.crash(FIRST + timedelta(days=int(self.village.clock.days) - days))

    @rule(number=st.integers(0, 100))
    def promote(self, number: int) -> None:
        with suppress(CorruptArtifact, KeyError):  # it is gone: then it is not in the ledger
            self.village.promote(self.runs[number % len(self.runs)])

    @rule()
    def register(self) -> None:
        self.village.register(self.runs[-1])  # a run registers within the days that its results stay

    @rule()
    def roll_back(self) -> None:
        self.village.roll_back()

    @rule()
    def hold(self) -> None:
        self.village.hold()

    @rule()
    def collect(self) -> None:
        self.village.collect()
        self.village.check()
        again = self.village.collect()
        assert [one.goes for one in again] == [{} for _ in again]
        self.village.check()

    @rule(call=calls, name=names)
    def killed(self, call: int, name: str) -> None:
        self.village.clock.days += 11
        with self.village.killed_at(call, name):
            self.village.collect()
        self.village.check()

    @rule(call=calls, name=names, what=st.sampled_from(["again", "promote", "backfill", "roll_back"]), number=back)
    def meanwhile(self, call: int, name: str, what: str, number: int) -> None:
        """The act is about what is being deleted: nights of long ago, and the oldest runs."""

        def act() -> None:
            match what:
                case "again":
                    self.backfill(11 + number)
                case "backfill":
                    self.backfill(number)
                case "promote":
                    self.promote(number)
                case "roll_back":
                    self.roll_back()

        self.nights(1)
        self.village.clock.days += 11
        with self.village.meanwhile(call, act, name):
            self.village.collect()
        self.village.check()


TestCollections = Collections.TestCase
TestCollections.settings = settings(max_examples=EXAMPLES, stateful_step_count=12, deadline=None)
