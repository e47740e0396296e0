"""Two runs at once need the same day: one computes it, and the other waits and takes its part."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import Preempted
from ratchet.store.lease import Waiter, new_lease
from tests.runtime.test_days import ONE, Delivery, Parts
from tests.waiting import until
from tests.world import World, clicks


def events(world: World) -> list[str]:
    return [json.loads(line)["event"] for line in world.log.getvalue().splitlines()]


def test_a_day_that_another_run_computes_is_waited_for_and_not_computed_twice(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()
    one, two = clicks(tmp_path), clicks(tmp_path)
    two.run_id, two.number = "run-2", 100

    def slowly(delivery: Delivery) -> str:
        begun.set()
        assert go_on.wait(60)
        return delivery.text.upper()

    first, second = Parts(one, slowly), Parts(two)
    with ThreadPoolExecutor(2) as pool:
        made = pool.submit(first.build, ONE)
        assert begun.wait(60)
        taken = pool.submit(second.build, ONE)
        until(lambda: "waiting" in events(two))
        go_on.set()
        assert made.result(60) == taken.result(60)
    assert (first.made, second.made) == ([ONE[0].day], [])
    assert not list(one.store.list("leases"))


def test_a_stage_that_waits_for_a_day_obeys_a_notice_to_stop(tmp_path: Path) -> None:
    parts = Parts(clicks(tmp_path))
    with parts.opened() as days:
        days.ctx.stopping.set()
        key = paths.lease("clicks", "features.day", paths.last(days._prefix(days._parts(ONE[0]))))
        hold = Waiter(parts.world.store, key, new_lease("run-2", "other")).take()
        assert hold is not None
        try:
            with pytest.raises(Preempted, match="features received a notice to stop"):
                days.build(ONE, memory=1)
        finally:
            hold.release()
    assert parts.made == []
