"""A backfill along its own winners: what each date is measured against, and what production never sees."""

import uuid
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.contracts import paths
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import Outcome, Promotion, RunPlan
from ratchet.contracts.stages import Stage
from ratchet.production.shadow import judges_in_shadow, keep_winner, shadow_baseline
from ratchet.runs.requests import compose
from ratchet.store.base import Store
from ratchet.store.ledger import append, champion, records
from ratchet.store.memory import MemoryStore
from tests.runs.test_requests import DAY, JUDGED, OUTCOMES, TRAINED, outcome, plan

MODEL = "small"
CHAIN = "local-1"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def night(day: date, chain: str = CHAIN) -> RunPlan:
    return plan(
        run_id=f"{chain}-{day}",
        data_date=day,
        chain=chain,
        promotion=Promotion(mode="never", reason="a backfill does not move production unless asked to"),
    )


def ended(day: date, verdict: str = "promote", made: str = "") -> dict[Stage, Outcome]:
    """How the stages of a date ended. made: which model, if it is not that of the date."""
    summary = {**TRAINED, "digest": digest(f"{day}{made}".encode())}
    judged = {**JUDGED, "verdict": verdict}
    snapshot = {"table": "tables/small/1", "version": 0, "days": []}
    ingested = outcome("ingest", summary=snapshot)
    return {
        **OUTCOMES,
        "ingest": ingested,
        "train": outcome("train", summary=summary),
        "evaluate": outcome("evaluate", summary=judged),
    }


def days(count: int) -> list[date]:
    return [DAY + timedelta(days=number) for number in range(count)]


def test_thirty_dates_on_an_empty_ledger_are_one_first_model_and_twenty_nine_comparisons(store: Store) -> None:
    against = []
    for day in days(30):
        made = night(day)
        request = compose(store, made, "evaluate", ended(day), "a")
        against.append(request.champion)
        keep_winner(store, made, ended(day))
    first, *others = against
    assert first is None
    assert [one and one.data_date for one in others] == days(30)[:-1]
    assert others[0] is not None
    assert others[0].title == f"this backfill's winner of {DAY}"
    assert champion(store, MODEL) is None
    assert not list(store.list(paths.ledger(MODEL)))


@settings(max_examples=40, deadline=None)
@given(
    order=st.permutations(list(range(6))),
    verdicts=st.lists(st.sampled_from(["promote", "reject"]), min_size=6, max_size=6),
)
def test_what_a_date_is_measured_against_depends_on_earlier_dates_alone(order: list[int], verdicts: list[str]) -> None:
    """Whatever the order in which the dates have run, and however often."""
    store = MemoryStore(uuid.uuid4().hex)
    dates = days(6)
    for place in (*order, *order):
        keep_winner(store, night(dates[place]), ended(dates[place], verdicts[place]))
    won = [day for day, verdict in zip(dates, verdicts, strict=True) if verdict == "promote"]
    for day in dates:
        found = shadow_baseline(store, night(day))
        assert (found.data_date if found else None) == max((one for one in won if one < day), default=None)
    assert len(records(store, MODEL, place=paths.shadow(MODEL, CHAIN))) == len(won)


def test_a_date_that_wins_again_with_another_model_replaces_its_winner(store: Store) -> None:
    first, second = days(2)
    keep_winner(store, night(first), ended(first))
    keep_winner(store, night(first), ended(first, made="again"))
    found = shadow_baseline(store, night(second))
    assert found is not None
    assert found.digest == digest(f"{first}again".encode())


def test_before_its_first_winner_a_chain_meets_who_was_in_office_then(store: Store) -> None:
    before = night(DAY - timedelta(days=1), "other")
    won = keep_winner(store, before, ended(before.data_date))
    assert won is not None
    office = append(store, won, after=0)
    found = shadow_baseline(store, night(DAY))
    assert found is not None
    assert (found.number, found.shadow, found.title) == (office.number, False, f"production (version {office.version})")


def test_two_chains_have_their_own_winners_and_a_shadow_baseline_is_part_of_the_fingerprint(store: Store) -> None:
    first, second = days(2)
    keep_winner(store, night(first), ended(first))
    assert shadow_baseline(store, night(second, "local-2")) is None
    parts = compose(store, night(second), "evaluate", ended(second), "a").parts
    assert parts["champion.shadow"] == first.isoformat()
    assert "champion.shadow" not in compose(store, night(second, "local-2"), "evaluate", ended(second), "a").parts


@pytest.mark.parametrize(
    ("chain", "mode", "shadow"), [("", "never", False), ("c", "auto", False), ("c", "never", True)]
)
def test_a_run_that_may_move_production_or_has_no_chain_is_not_judged_in_shadow(
    chain: str, mode: str, *, shadow: bool
) -> None:
    made = plan(chain=chain, promotion=Promotion.model_validate({"mode": mode}))
    assert judges_in_shadow(made) is shadow


def test_a_run_without_a_verdict_of_promote_leaves_no_record(store: Store) -> None:
    assert keep_winner(store, night(DAY), ended(DAY, "inconclusive")) is None
    assert keep_winner(store, night(DAY), {}) is None
    assert not list(store.list("shadow"))
