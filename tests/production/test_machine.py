"""A state machine over production: whatever happens, the alias follows the ledger or a finding has a name.

In memory, and with MLflow's own database in a folder. Steps: RATCHET_PRODUCTION_STEPS, else 500 in all in memory, and a
fifth of it with the database; 10,000 for a long run.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from uuid import uuid4

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import Promotion
from ratchet.contracts.snapshot import Snapshot, SnapshotDay
from ratchet.contracts.summaries import Judgement, TrainedModel
from ratchet.contracts.version_record import RecordedStage
from ratchet.production import baseline
from ratchet.production.accept_loss import accept_loss
from ratchet.production.by_hand import carry_out
from ratchet.production.hold import hold
from ratchet.production.promote import promote
from ratchet.production.recipe import recipe
from ratchet.production.reconcile import Reconciled, reconcile
from ratchet.production.release import release
from ratchet.production.rollback import rollback
from ratchet.production.standing import standing, standing_of
from ratchet.runs.requests import compose
from ratchet.store.ledger import Record, champion_of, records
from ratchet.store.memory import MemoryStore
from ratchet.store.version_records import keep_record
from ratchet.tracking.registry import DIGEST, Version
from tasks.register.production import Candidate, settle
from tests.production.worlds import MODEL, Crash, MemoryWorld, SqliteWorld, World
from tests.runs.test_requests import JUDGED, OUTCOMES, TRAINED, plan
from tests.store.test_version_records import FILE, record

STEPS = int(os.environ.get("RATCHET_PRODUCTION_STEPS", "500"))
START = date(2026, 1, 1)
REQUEST = compose(MemoryStore("machine"), plan(), "register", OUTCOMES, "a")
BY = {"by": "ann", "because": "clicks fell"}
ACTS = ("night", "rerun", "promote", "rollback", "hold", "release", "release one", "accept", "look")


def nothing() -> None:
    """Nothing happens between the evaluation and register."""


class Production(RuleBasedStateMachine):
    """Nights of consecutive dates, people and accidents."""

    models: Bundle[str] = Bundle("models")
    place: Callable[[], World] = MemoryWorld

    @initialize()
    def begin(self) -> None:
        self.world = type(self).place()
        self.store = self.world.store
        self.day = START
        self.count = 0
        self.ran: list[tuple[str, date]] = []
        self.ran_at_copy = 0
        self.known: dict[date, int | None] = {}
        self.out: dict[str, int] = {}
        self.names: dict[str, str] = {}

    def teardown(self) -> None:
        self.world.end()

    def look(self) -> Reconciled:
        return reconcile(self.store, None, MODEL)

    def run(
        self, name: str, day: date, *, promotion: Promotion | None = None, between: Callable[[], None] = nothing
    ) -> None:
        """A run whose candidate is better: planned, evaluated, registered, and settled by the code of the stages."""
        made, made_by = digest(name.encode()), {"made": name.partition("-")[0]}
        self.names[made] = name
        self.store.create(paths.night(MODEL, day, f"run-{uuid4().hex[:6]}"), b"")
        if self.look().finding is not None:
            return
        may = promotion or baseline.promotion(
            self.store, MODEL, data_date=day, kind="scheduled", configured="auto", asked=None
        )
        against = baseline.baseline(self.store, MODEL, data_date=day, candidate=made, may_promote=may.mode != "never")
        between()
        version = self.version(made, made_by, day)
        candidate = Candidate(
            version=version.number,
            judged=Judgement.model_validate(JUDGED).model_copy(update={"baseline": against}),
            trained=TrainedModel.model_validate({**TRAINED, "digest": made}),
            fingerprint=digest(name.encode()),
            recipe=recipe(made_by),
            scoring="",
            snapshot=Snapshot(table="t", version=0, days=(SnapshotDay(day=day, file=FILE, source=FILE.sha256),)),
        )
        if self.look().finding is not None:
            return
        settle(self.store, REQUEST.model_copy(update={"data_date": day, "promotion": may}), candidate)
        self.look()

    def version(self, made: str, made_by: dict[str, str], day: date) -> Version:
        """The version of a model, registered if it is not there, and its record."""
        found = self.world.ask(lambda registry: registry.find(MODEL, made))
        version: Version = found[0] if found else self.world.add({DIGEST: made})
        stage = RecordedStage(
            manifest="m", fingerprint=made, content=made, parts=made_by, environment=None, attempt="a",
            finished=datetime.now(UTC), timings={},
        )  # fmt: skip
        days = Snapshot(table="t", version=0, days=(SnapshotDay(day=day, file=FILE, source=FILE.sha256),))
        changes = {"data_date": day, "snapshot": days, "stages": {"train": stage, "evaluate": stage}}
        keep_record(self.store, record(version.number, made).model_copy(update=changes))
        return version

    def new(self) -> str:
        self.count += 1
        return f"m{self.count}"

    def tonight(self, name: str, **more: object) -> str:
        self.ran.append((name, self.day))
        self.run(name, self.day, **more)
        return name

    @rule(target=models)
    def night(self) -> str:
        """A new date with a better model."""
        self.day += timedelta(days=1)
        return self.tonight(self.new())

    @rule()
    def night_that_is_not_better(self) -> None:
        self.day += timedelta(days=1)
        self.store.create(paths.night(MODEL, self.day, f"run-{uuid4().hex[:6]}"), b"")
        self.look()

    @rule(target=models)
    def withheld(self) -> str:
        """A better model that is registered, and that its run may not promote."""
        self.day += timedelta(days=1)
        return self.tonight(self.new(), promotion=Promotion(mode="never", reason="not now"))

    @rule(target=models, what=st.sampled_from(["night", "rollback", "hold"]))
    def night_in_which_production_moves(self, what: str) -> str:
        """Somebody else changes production between the evaluation and register."""
        self.day += timedelta(days=1)
        return self.tonight(self.new(), between=partial(self.act, what))

    @rule(model=models)
    def rerun(self, model: str) -> None:
        """A night of before again, bit for bit."""
        self.run(model, self.day)

    @rule(model=models)
    def rebuild(self, model: str) -> None:
        """The same training with other bits."""
        self.count += 1
        self.run(f"{model}-rebuilt-{self.count}", self.day)

    @rule(model=models, back=st.integers(1, 30))
    def backfill(self, model: str, back: int) -> None:
        """An older date, asked to promote."""
        self.run(model, self.day - timedelta(days=back), promotion=Promotion(mode="auto"))

    @rule(what=st.sampled_from(["rollback", "hold", "release", "release one"]))
    def person(self, what: str) -> None:
        self.act(what)

    @rule(model=models)
    def promote_by_hand(self, model: str) -> None:
        self.act("promote", model)

    @rule(how=st.sampled_from(["promote", "rerun", "rebuild", "backfill"]))
    def bring_back_what_is_banned(self, how: str) -> None:
        """Every way in, for the model that was banned last."""
        name = self.names.get(max(self.out, key=lambda made: self.out[made], default=""), "")
        if not name:
            return
        if how == "rebuild":
            self.rebuild(name)
        elif how == "backfill":
            self.backfill(name, 1)
        else:
            self.act(how, name)

    @rule()
    def accept(self) -> None:
        """A person goes on after a loss."""
        self.act("accept")

    @rule(model=models, at=st.integers(1, 16), what=st.sampled_from(ACTS))
    def crash(self, model: str, at: int, what: str) -> None:
        """A writer dies before or after one of its calls to store or registry."""
        self.world.calls.left = at
        with suppress(Crash):
            self.act(what, model)
        self.world.calls.left = 0

    def act(self, what: str, model: str = "") -> None:
        """One change of production, as a run or a command makes it."""
        if what == "night":
            return self.run(self.new(), self.day)
        if what == "rerun":
            return self.run(model, self.day)
        with suppress(ConfigurationError, CorruptArtifact):  # refused, with a reason
            if what == "accept":
                self.known.clear()
                self.out.clear()
                accept_loss(self.store, None, MODEL, **BY)
            elif what == "look":
                self.look()
            else:
                done = carry_out(self.store, None, MODEL, partial(self.change, what, model)).record
                self.out = {made: number for made, number in self.out.items() if made not in done.released}
                self.out |= {ban.digest: done.number for ban in done.bans}
        return None

    def change(self, what: str, model: str) -> Record:
        if what == "promote":
            found = self.world.ask(lambda registry: registry.find(MODEL, digest(model.encode())))
            number = found[0].number if found else "999"
            return promote(self.store, None, MODEL, number, **BY, load=lambda _, origin: origin.model_digest)
        if what == "release one":
            banned = standing(self.store, MODEL).banned
            return release(self.store, MODEL, version=banned[0].ban.version if banned else "999", **BY)
        return {"rollback": rollback, "hold": hold, "release": release}[what](self.store, MODEL, **BY)

    @rule()
    def copy(self) -> None:
        """A backup of all; each part may be restored alone."""
        self.world.copy()
        self.ran_at_copy = len(self.ran)

    @rule()
    def restore_store(self) -> None:
        self.world.restore_store()
        self.known.clear()
        self.forget()

    @rule()
    def restore_registry(self) -> None:
        self.world.restore_registry()
        self.forget()

    @rule()
    def restore_database(self) -> None:
        """Airflow's database of before: it runs the nights since then once more."""
        for name, day in self.ran[self.ran_at_copy :][-4:]:
            self.run(name, day)

    @rule()
    def lose_tail(self) -> None:
        keys = [entry.key for entry in self.store.list(paths.ledger(MODEL)) if "/0" in entry.key]
        if keys:
            self.store.delete(keys[-1])
            self.known.clear()
            self.forget()

    def forget(self) -> None:
        """Forget the bans of which neither store nor registry has a trace: nobody can know of these."""
        here = len([entry for entry in self.store.list(paths.ledger(MODEL)) if "/0" in entry.key])
        tags = [version.record for version in self.world.ask(lambda registry: registry.recorded(MODEL))]
        newest = max([here, *tags])
        self.out = {made: number for made, number in self.out.items() if number <= newest}

    @rule(number=st.integers(1, 5))
    def bend(self, number: int) -> None:
        self.world.bend(number)

    @invariant()
    def the_alias_follows_or_a_finding_says_why_not(self) -> None:
        found = self.look()
        assert not found.unchecked
        alias = self.world.ask(lambda registry: registry.champion(MODEL))
        if found.finding is not None:
            banned = standing(self.store, MODEL).ban_of(alias.digest) if found.live and alias else None
            if found.finding.name == "registry-behind" and banned is not None:
                assert banned.sentence in found.finding.explanation, "a banned model is served, and nobody says so"
            return
        assert (alias.digest if alias else None) == (found.live.model_digest if found.live else None)
        assert alias is None or standing(self.store, MODEL).ban_of(alias.digest) is None, "a banned model is served"
        assert alias is None or alias.digest not in self.out, "a model whose ban was lost is served, and nobody says so"

    @invariant()
    def no_record_brings_back_what_is_banned(self) -> None:
        with suppress(CorruptArtifact):
            history = records(self.store, MODEL)
            for place, one in enumerate(history):
                if one.moves_production:
                    before = standing_of(MODEL, history[:place])
                    assert before.ban_of(one.model_digest, one.recipe) is None, f"record {one.number}"
                    assert one.action != "promote" or before.hold is None, f"record {one.number}"

    @invariant()
    def who_was_in_office_stays_so(self) -> None:
        """Later records change no answer about a date that had a night."""
        try:
            history = records(self.store, MODEL)
        except CorruptArtifact:
            return
        for day in {paths.night_date(entry.key) for entry in self.store.list(paths.nights(MODEL))}:
            found = champion_of(history, before=day)
            number = found.number if found else None
            assert self.known.setdefault(day, number) == number, f"{day}: {self.known[day]} -> {number}"


class ProductionInSqlite(Production):
    """The same with MLflow's own database."""

    place = SqliteWorld


def steps(count: int) -> settings:
    """Settings for so many steps in all."""
    return settings(
        max_examples=max(1, count // 50),
        stateful_step_count=50,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


Production.TestCase.settings = steps(STEPS)
ProductionInSqlite.TestCase.settings = steps(STEPS // 5)
test_production_under_everything_that_happens = Production.TestCase
test_production_with_mlflow_s_database = ProductionInSqlite.TestCase
