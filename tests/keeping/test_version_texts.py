"""The record of a version loses a purged value in its texts, and nothing that a rebuild reads."""

import uuid
from datetime import UTC, datetime

from ratchet.contracts.day_record import DayRecord
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.judgements import SliceJudgement
from ratchet.contracts.version_record import VersionRecord
from ratchet.store.memory import MemoryStore
from ratchet.store.version_records import keep_record, read_record
from tasks.keeping.texts import MASK, masking
from tasks.keeping.version_texts import mask_versions
from tests.runs.test_requests import DAY
from tests.store.test_version_records import record

NOW = datetime.now(UTC)
KEY = "ada@example.org"


def named(version: str, key: str = KEY) -> VersionRecord:
    """A record whose verdict and whose day that a person let in name a key."""
    made = record(version, digest(version.encode()))
    part = SliceJudgement(
        column="user", value=key, rows=3, candidate=None, baseline=None, gain=None, outcome="not-provable"
    )
    judged = made.judgement.model_copy(update={"explanation": f"not provable: user={key} rose", "slices": (part,)})
    let_in = DayRecord(
        day=DAY, action="admit", source=digest(b"rows"), reason=f"{key} asked", by="Bob", run_id="", recorded=NOW
    )
    return made.model_copy(update={"judgement": judged, "let_in": (let_in,), "registered": NOW})


def test_the_texts_of_a_pipelines_records_lose_the_value_and_all_else_stays() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    other = named("3").model_copy(update={"model": "other", "pipeline": "other"})
    renamed = named("2").model_copy(update={"model": "small-v2"})
    for one in (named("1"), renamed, other, named("4", "bob")):
        keep_record(store, one)
    assert mask_versions(store, "small", masking([KEY]), do=False) == 2
    assert read_record(store, "small", "1") == named("1")
    assert mask_versions(store, "small", masking([KEY]), do=True) == 2
    for before in (named("1"), renamed):
        after = read_record(store, before.model, before.version)
        assert KEY not in after.model_dump_json()
        assert after.judgement.explanation == f"not provable: user={MASK} rose"
        assert (after.judgement.slices[0].name, after.let_in[0].reason) == (f"user={MASK}", f"{MASK} asked")
        texts = {"judgement": before.judgement, "let_in": before.let_in}
        assert after.model_copy(update=texts) == before
    assert read_record(store, "other", "3") == other
    assert mask_versions(store, "small", masking([KEY]), do=True) == 0
