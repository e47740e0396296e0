"""The model in production cannot be compared with: the verdict names why, and register has nothing to do.

Whole nights: planned, composed and run as in a run.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest

from ratchet.store.file import FileStore
from ratchet.store.ledger import champion, records
from tests.evaluate.nights import FIRST, Nights, judgement
from tests.faults.bad_nights import NEXT, nights, office

Harm = Callable[[FileStore, str], None]


__all__ = ["nights", "office"]


def published(store: FileStore, output: str) -> str:
    live = champion(store, "grades")
    assert live is not None
    (found,) = [
        key
        for key in (entry.key for entry in store.list(live.manifests["train"].rpartition("/")[0]))
        if key.endswith(f"/{output}")
    ]
    return found


def gone(store: FileStore, key: str) -> None:
    store.delete(key)


def flipped(store: FileStore, key: str) -> None:
    data = bytearray(store.read(key))
    data[len(data) // 2] ^= 1
    store.delete(key)
    store.create(key, bytes(data))


@pytest.mark.parametrize("output", ["weights", "description", "code"])
@pytest.mark.parametrize(("harm", "reason"), [(gone, "baseline-missing"), (flipped, "baseline-unreadable")])
def test_36_a_champion_that_is_gone_or_damaged_is_named_and_stays(
    nights: Nights, output: str, harm: Harm, reason: str
) -> None:
    harm(nights.store, published(nights.store, output))
    done = nights.run(NEXT)
    assert (judgement(done).verdict, judgement(done).reason) == ("inconclusive", reason)
    assert done["register"].state == "skipped"
    assert len(records(nights.store, "grades")) == 1


def test_36_a_champion_that_was_trained_on_the_held_out_rows_is_named_and_stays(nights: Nights) -> None:
    """A person asks that the day before may move production, which has been trained on that day."""
    earlier = FIRST - timedelta(days=1)
    nights.deliver(earlier)
    done = nights.run(earlier, promote="auto")
    assert (judgement(done).verdict, judgement(done).reason) == ("inconclusive", "baseline-saw-holdout")
    assert f"{earlier}" in judgement(done).explanation
    assert done["register"].state == "skipped"
    assert len(records(nights.store, "grades")) == 1


def test_36_an_equal_champion_is_named_and_stays(nights: Nights) -> None:
    """The same rows and the same mathematics again; the pipeline's own code changes nothing."""
    nights.deliver(FIRST)
    nights.code = {"features.py": "def derive(df):\n    return df\n"}
    done = nights.run(FIRST)
    assert (judgement(done).verdict, judgement(done).reason) == ("reject", "identical")
    assert done["register"].state == "skipped"
    assert len(records(nights.store, "grades")) == 1
