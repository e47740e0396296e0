"""A state machine over production: whatever happens, the alias follows the ledger or a finding has a name.

Steps: RATCHET_PRODUCTION_STEPS, else 500 in all; 10,000 for a long run.
"""

import os
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.production.accept_loss import accept_loss
from ratchet.production.hold import hold
from ratchet.production.reconcile import Reconciled, follow, reconcile
from ratchet.production.release import release
from ratchet.production.rollback import rollback
from ratchet.production.standing import standing
from ratchet.store.ledger import append, champion_of, records
from ratchet.store.memory import MemoryStore
from ratchet.tracking.memory_registry import MemoryRegistry
from ratchet.tracking.registry import DIGEST, Version
from tests.store.test_ledger import change

MODEL, PIPELINE = "ranker", "p"
STEPS = int(os.environ.get("RATCHET_PRODUCTION_STEPS", "500"))
START = date(2026, 1, 1)


class Crash(Exception):
    """The process that wrote has died."""


class CrashingStore(MemoryStore):
    """A store whose writer dies at its n-th write from now on; 0 for never."""

    left = 0

    def replace(self, key: str, data: bytes, *, expected: str | None) -> bool:
        self._count()
        done = super().replace(key, data, expected=expected)
        self._count()
        return done

    def _count(self) -> None:
        if self.left:
            self.left -= 1
            if not self.left:
                raise Crash


class CrashingRegistry(MemoryRegistry):
    """A registry whose writer dies between the tag and the alias."""

    def point(self, model: str, version: Version, record: int) -> None:
        alias = self.models[model].alias
        super().point(model, version, record)
        self.models[model].alias = alias
        raise Crash


class Production(RuleBasedStateMachine):
    """Nights of consecutive dates, people and accidents."""

    models: Bundle[str] = Bundle("models")

    @initialize()
    def begin(self) -> None:
        self.store = CrashingStore(uuid4().hex)
        self.registry = MemoryRegistry.of(self.store.uri)
        self.day = START
        self.count = 0
        self.known: dict[date, int | None] = {}
        self.store_copy = dict(self.store._space.files)
        self.registry_copy = deepcopy(self.registry.models)

    def find(self) -> Reconciled:
        return reconcile(self.store, None, MODEL)

    def settle(self, name: str, recipe: str, day: date) -> None:
        """What register does: the registry first, then the ledger if nothing is in the way, then the alias."""
        made = digest(name.encode())
        found = self.registry.find(MODEL, made) or (self.registry.add(MODEL, {DIGEST: made}),)
        before = self.find()
        if before.finding is not None:
            return
        now = standing(self.store, MODEL)
        if now.obstacle(made, recipe) or (now.live and now.live.model_digest == made):
            return
        new = change(
            found[0].number,
            1,
            model_digest=made,
            recipe=recipe,
            data_date=day,
            recorded=self.clock(),
            pipeline=PIPELINE,
        )
        append(self.store, new, after=now.number)
        self.find()

    def clock(self) -> datetime:
        return datetime(self.day.year, self.day.month, self.day.day, 2, tzinfo=UTC) + timedelta(days=1)

    @rule(target=models)
    def night(self) -> str:
        """A new date with a better model."""
        self.day += timedelta(days=1)
        self.count += 1
        self.mark(self.day)
        self.settle(f"m{self.count}", f"r{self.count}", self.day)
        return f"m{self.count}"

    @rule()
    def night_that_is_not_better(self) -> None:
        self.day += timedelta(days=1)
        self.mark(self.day)
        self.find()

    def mark(self, day: date) -> None:
        self.store.create(paths.night(PIPELINE, day, f"run-{self.count}-{uuid4().hex[:6]}"), b"")

    @rule(model=models)
    def rerun(self, model: str) -> None:
        """A night of before again, bit for bit."""
        self.settle(model, f"r{model[1:]}", self.day)

    @rule(model=models)
    def rebuild(self, model: str) -> None:
        """The same training with other bits."""
        self.count += 1
        self.settle(f"{model}-rebuilt-{self.count}", f"r{model[1:]}", self.day)

    @rule(model=models, back=st.integers(1, 30))
    def backfill(self, model: str, back: int) -> None:
        """An older date, asked to promote."""
        self.settle(model, f"r{model[1:]}", self.day - timedelta(days=back))

    @rule(what=st.sampled_from(["rollback", "hold", "release", "release one"]))
    def person(self, what: str) -> None:
        if (found := self.find().finding) is not None and found.name.startswith("ledger"):
            return
        try:
            if what == "rollback":
                rollback(self.store, MODEL, by="ann", because="clicks fell")
            elif what == "hold":
                hold(self.store, MODEL, by="ann", because="an experiment")
            else:
                bans = standing(self.store, MODEL).banned
                version = bans[0].ban.version if bans and what == "release one" else None
                release(self.store, MODEL, version=version, by="ann", because="it is well")
        except ConfigurationError:
            return
        reconcile(self.store, None, MODEL, force=True)

    @rule(at=st.integers(1, 6), what=st.sampled_from(["night", "person"]))
    def crash(self, at: int, what: str) -> None:
        """A writer dies before or after one of its writes."""
        self.store.left = at
        try:
            if what == "person":
                self.person("rollback")
            else:
                self.count += 1
                self.settle(f"m{self.count}", f"r{self.count}", self.day)
        except Crash:
            pass
        finally:
            self.store.left = 0

    @rule()
    def crash_between_tag_and_alias(self) -> None:
        self.count += 1
        made = digest(f"m{self.count}".encode())
        if self.find().finding is not None or standing(self.store, MODEL).hold is not None:
            return
        version = self.registry.add(MODEL, {DIGEST: made})
        now = standing(self.store, MODEL)
        new = change(version.number, 1, model_digest=made, data_date=self.day, recorded=self.clock(), pipeline=PIPELINE)
        append(self.store, new, after=now.number)
        with suppress(Crash):
            follow(self.store, MODEL, CrashingRegistry(self.registry.address, self.registry.models))

    @rule()
    def copy(self) -> None:
        """A backup of both; each may be restored alone."""
        self.store_copy = dict(self.store._space.files)
        self.registry_copy = deepcopy(self.registry.models)

    @rule()
    def restore_store(self) -> None:
        self.store._space.files.clear()
        self.store._space.files.update(self.store_copy)
        self.known.clear()

    @rule()
    def restore_registry(self) -> None:
        self.registry.models.clear()
        self.registry.models.update(deepcopy(self.registry_copy))

    @rule()
    def lose_tail(self) -> None:
        keys = [entry.key for entry in self.store.list(paths.ledger(MODEL)) if "/0" in entry.key]
        if keys:
            self.store.delete(keys[-1])
            self.known.clear()

    @rule(number=st.integers(1, 5))
    def bend(self, number: int) -> None:
        held = self.registry.models.get(MODEL)
        if held and str(number) in held.versions:
            held.alias = str(number)

    @rule()
    def accept(self) -> None:
        """A person goes on after a loss."""
        found = self.find().finding
        if found is None or not found.name.startswith(("ledger-behind", "ledger-damaged")):
            return
        accept_loss(self.store, None, MODEL, by="ann", because="no backup has it")
        self.known.clear()

    @invariant()
    def the_alias_follows_or_a_finding_says_why_not(self) -> None:
        found = self.find()
        if found.finding is not None or found.live is None:
            return
        alias = self.registry.champion(MODEL)
        assert alias is not None
        assert alias.digest == found.live.model_digest
        assert standing(self.store, MODEL).ban_of(alias.digest) is None, "a banned model is served"

    @invariant()
    def who_was_in_office_stays_so(self) -> None:
        """Later records change no answer about a date that had a night."""
        try:
            history = records(self.store, MODEL)
        except CorruptArtifact:
            return
        marked = {paths.night_date(entry.key) for entry in self.store.list(paths.nights(PIPELINE))}
        for day in marked:
            record = champion_of(history, before=day)
            number = record.number if record else None
            if day in self.known:
                assert self.known[day] == number, f"{day}: {self.known[day]} -> {number}"
            self.known[day] = number


Production.TestCase.settings = settings(
    max_examples=max(1, STEPS // 50),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
test_production_under_everything_that_happens = Production.TestCase
