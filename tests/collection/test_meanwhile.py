"""At each deletion of a collection something else happens: it is killed, a run is promoted, or an old date runs again,
with the rows of now or with those of then.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.store.ledger import records
from tests.collection.test_collect import kinds
from tests.collection.village import FIRST, MODEL, NAME, Village


def old_nights(village: Village) -> list[str]:
    """Nights of which most are not kept any more, and their rows neither."""
    runs = []
    for pause in (1, 1, 14, 1, 1):
        runs.append(village.night())
        village.clock.days += pause
    return runs


def deletions(village: Village) -> int:
    return sum(each.objects for one in village.collect(apply=False) for each in one.goes.values())


def promote(village: Village, runs: list[str], call: int) -> None:
    """The first old run that can be promoted still: which ones cannot depends on the digests of a day's results."""
    old = runs[:3]
    for run in (*old[call % 3 :], *old[: call % 3]):
        with suppress(CorruptArtifact, KeyError):
            village.promote(run)
            return


def then(village: Village, runs: list[str], call: int) -> None:
    village.night(FIRST + timedelta(days=call % 3), kind="backfill")


def again(village: Village, runs: list[str], call: int) -> None:
    village.night(FIRST + timedelta(days=call % 3))


@pytest.mark.parametrize("act", [None, promote, again, then])
def test_at_each_deletion_all_that_is_named_is_whole(act: Callable[[Village, list[str], int], None] | None) -> None:
    with Village() as village:
        old_nights(village)
        number = deletions(village)
        assert "rows of days" in kinds(village.collect(apply=False))
    promotions = 0
    for call in range(1, number + 1, 4):
        with Village() as village:
            runs = old_nights(village)
            if act is None:
                with village.killed_at(call, "delete"):
                    village.collect()
            else:
                with village.meanwhile(call, partial(act, village, runs, call), "delete"):
                    village.collect()
            village.check()
            promotions += len(records(village.store, MODEL))
            village.collect()
            village.check()
            if act is None:
                left = {paths.published_prefix(one.key) for one in village.store.list(paths.published(NAME, "train"))}
                assert len(left) == 2
    assert number > 20
    assert act is not promote or 0 < promotions < number
