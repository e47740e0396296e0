from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

from ratchet.contracts import paths
from ratchet.contracts.champion import Champion
from ratchet.contracts.fingerprint import digest
from ratchet.runs.requests import compose
from ratchet.runs.unmeasured import unmeasured_nights
from ratchet.store.ledger import Change, append
from ratchet.store.memory import MemoryStore
from tests.runs.test_requests import DAY, JUDGED, OUTCOMES, outcome, plan

CHAMPION = Champion(model="small", number=1, version="1", digest=digest(b"1"), data_date=DAY, manifests={})
OTHER = CHAMPION.model_copy(update={"digest": digest(b"2")})


def judge(store: MemoryStore, day: date, reason: str, champion: Champion | None = CHAMPION, run_id: str = "r") -> None:
    baseline = champion.model_dump(mode="json") if champion else None
    summary = {**JUDGED, "verdict": "inconclusive", "reason": reason, "baseline": baseline}
    store.create(paths.night("small", day, f"{run_id}-{day}"), b"")
    made = outcome("evaluate", summary=summary).model_dump_json(by_alias=True).encode()
    store.create(paths.outcome("small", f"{run_id}-{day}", "evaluate"), made)


def ago(days: int) -> date:
    return DAY - timedelta(days=days)


def test_nights_are_counted_back_to_the_last_one_that_could_measure_the_champion() -> None:
    store = MemoryStore(uuid4().hex)
    assert unmeasured_nights(store, plan(), CHAMPION) == 0
    judge(store, ago(6), "baseline-missing")
    judge(store, ago(5), "not-better")
    judge(store, ago(4), "baseline-missing")
    judge(store, ago(3), "baseline-unreadable")
    store.create(paths.night("small", ago(2), "failed"), b"")  # without a verdict
    judge(store, ago(1), "champion-unmeasurable")
    judge(store, DAY, "baseline-missing")  # an earlier run of this date is not a night before it
    assert unmeasured_nights(store, plan(), CHAMPION) == 3
    assert unmeasured_nights(store, plan(), OTHER) == 0
    assert unmeasured_nights(store, plan(), None) == 0


def test_a_night_counts_by_its_newest_verdict() -> None:
    store = MemoryStore(uuid4().hex)
    judge(store, ago(1), "baseline-missing", run_id="a")
    judge(store, ago(1), "better", run_id="b")
    assert unmeasured_nights(store, plan(), CHAMPION) == 0


def test_the_count_is_part_of_the_request_and_of_its_fingerprint() -> None:
    store = MemoryStore(uuid4().hex)
    change = Change(
        model="small", action="promote", version="1", fingerprint=digest(b"f"), model_digest=CHAMPION.digest, manifests={},
        data_date=ago(9), window_start=ago(12), pipeline="small", run_id="before", reason="better", baseline=None,
        recorded=datetime.now(UTC),
    )  # fmt: skip
    append(store, change, after=0)
    before = compose(store, plan(), "evaluate", OUTCOMES, "a")
    judge(store, ago(1), "baseline-missing")
    after = compose(store, plan(), "evaluate", OUTCOMES, "a")
    assert (before.unmeasured, after.unmeasured) == (0, 1)
    assert before.fingerprint != after.fingerprint
