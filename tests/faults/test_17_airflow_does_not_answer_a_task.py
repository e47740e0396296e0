"""The API server is away when a task asks it what an earlier try has kept: the task is tried again, and goes on well."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from ratchet.contracts.request import Outcome
from ratchet.runs.outcomes import outcomes
from ratchet.runs.upgrading import settle_here
from ratchet.runs.work import Work
from ratchet.store.opening import open_store
from tests.plugins.test_operators import States, context, plan_in, recorded, task


class DeafStates(States):
    """The API server is away from a call on. left: calls before that. late: whether only its answers are lost."""

    left, late = 0, False

    def get(self, key: str) -> Any:
        return self._asked(lambda: super(DeafStates, self).get(key))

    def set(self, key: str, value: Any) -> None:
        self._asked(lambda: super(DeafStates, self).set(key, value))

    def delete(self, key: str) -> None:
        self._asked(lambda: super(DeafStates, self).delete(key))

    def _asked(self, call: Callable[[], Any]) -> Any:
        self.left -= 1
        found = call() if self.left >= 0 or self.late else None
        if self.left < 0:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"message": "away"}))
        return found


def test_a_try_that_does_not_reach_airflow_is_tried_again_and_a_clear_stays_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each call of a task that was cleared. All come before its stage begins."""
    store = open_store(plan_in(tmp_path, monkeypatch, days=3).store)
    states, calls, noted = DeafStates(), 0, list[bool]()

    def settled(*given: Any, cleared: Callable[[], bool], **named: Any) -> Outcome | Work:
        noted.append(cleared())
        return settle_here(*given, cleared=cleared, **named)

    monkeypatch.setattr("ratchet.runs.upgrading.settle_here", settled)
    while True:
        states.left, states.late = calls // 2, calls % 2 == 1
        try:
            task().execute(context(states, try_number=calls + 2, max_tries=99))
        except AirflowRuntimeError:
            calls += 1
        else:
            break
        failed = outcomes(store, "search-ranking", "r").get("ingest")
        assert failed is None or (failed.state, failed.again) == ("failed", True)
        assert list(store.list("leases")) == list(store.list("published")) == []
    assert calls > 10
    assert noted[0]
    result = recorded(store).result
    assert result is not None
    assert states.kept == {"ratchet_max_tries": 99, "ratchet_attempt": result.attempt}
