"""A plan that takes rows of then is written only if they are there, and while no collection can delete them."""

import uuid

import pytest

from ratchet.contracts.errors import Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.outages import is_outage
from ratchet.contracts.request import AsOf, RunPlan, SourceDay
from ratchet.contracts.result import Artifact
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.runs.past_rows import past_rows_stay
from ratchet.runs.standstill import only_removal
from ratchet.runtime.held_days import table_of
from ratchet.store.memory import MemoryStore
from tests.runs.test_requests import DAY, plan

TABLE = table_of(plan().spec)
HELD = SnapshotDay(
    day=DAY, file=Artifact(key=f"{TABLE}/rows.parquet", sha256=digest(b"rows"), bytes=4), source=digest(b"source")
)


def takes(as_of: AsOf) -> RunPlan:
    return plan(as_of=as_of, source=(SourceDay(day=DAY, files=(), held=HELD),))


def test_while_a_plan_takes_rows_of_then_nobody_collects_them() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    store.create(HELD.file.key, b"rows")
    with (
        past_rows_stay(store, takes("then")),
        pytest.raises(Unavailable, match=r"removal-\w+ by the plan of run r holds the rows of small"),
        only_removal(store, "small", "ratchet gc", wait_s=0),
    ):
        pass
    with past_rows_stay(store, takes("now")), only_removal(store, "small", "ratchet gc", wait_s=0):
        pass


def test_rows_of_then_that_were_deleted_while_the_run_was_planned_are_planned_again() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    with (
        pytest.raises(Unavailable, match=f"small: rows that the first run of {DAY} saw were deleted") as raised,
        past_rows_stay(store, takes("then")),
    ):
        pass
    assert is_outage(raised.value)
    assert "run again if no retry follows" in str(raised.value)
