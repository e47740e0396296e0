"""A job that was left and is gone, without an engine. Those of real trainings are in test_left_job."""

import threading
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from ratchet.runners.process import ProcessRunner
from ratchet.runners.runner import Engine
from ratchet.runs.left_job import Follower, Why, left_work
from ratchet.runs.taking import place_of
from ratchet.runs.work import Work
from ratchet.store.lease import Waiter, new_lease
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import publish, training
from tests.runs.test_requests import plan

HERE = Engine("e", "here")


class Host(ProcessRunner):
    """Of a host whose engine has no container."""

    durable = True
    engine: Any = None

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine


@pytest.fixture
def left() -> Work:
    """What an attempt has left to the triggerer, in the engine of this host."""
    store = MemoryStore(uuid.uuid4().hex)
    work = training(store, plan({}, store=store.uri))
    hold = Waiter(store, work.lease, new_lease(work.plan.run_id, work.attempt), engine=HERE.id).take()
    assert hold is not None
    hold.point_at(work.attempt, datetime.now(UTC), place=place_of(work, HERE))
    assert hold.hand_over()
    return work


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        (HERE, Why("its container is gone", again=True)),
        (Engine("f", "other"), Why("the triggerer does not see its container", again=False)),
    ],
)
def test_the_container_that_comes_after_one_that_went_can_be_left_too(left: Work, engine: Engine, why: Why) -> None:
    """As after `make down` and `make up`; but a triggerer that reaches another engine is of no use again."""
    over = threading.Event()
    follower = Follower(left.store, left.plan, left.request, Host(engine), name="t", over=over, on_event=print)
    assert follower.follow() == why


def test_what_was_left_and_is_gone_begins_again_unless_its_result_is_there(left: Work) -> None:
    request = left.request.model_dump_json(by_alias=True)
    assert left_work(left.store, left.plan, request, "", Host(HERE)) is None
    publish(left, left.attempt)
    found = left_work(left.store, left.plan, request, "", Host(HERE))
    assert found is not None
    assert found.request == left.request
