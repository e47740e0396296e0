"""A rank that hangs is seen within the limit; the stacks of all are in the log, and training goes on to the same bits."""

import time
from pathlib import Path

import pytest

from ratchet.runs.events import Event
from tests.faults.ranks import FAULTY, on_two_ranks, plan, same_result
from tests.faults.trainings import Trainings, trained, trainings

LIMIT_S = 20
FAULTS = {
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "waits for ever": "time.sleep(10**6)",
}


@pytest.mark.heavy
@pytest.mark.parametrize("fault", FAULTS)
def test_a_rank_that_does_not_get_on_is_ended_with_stacks_and_changes_no_bit(fault: str, tmp_path: Path) -> None:
    model = FAULTY.format(fault=FAULTS[fault]).replace("FOLDER", str(tmp_path))
    with trainings(tmp_path, None, model=model, rows_per_day=600) as made:
        said: list[tuple[float, Event]] = []
        planned = plan(made, "hung", **{"train.watchdog": f"{LIMIT_S}s"})
        resumed = trained(on_two_ranks(made, planned, lambda event: said.append((time.monotonic(), event))))
        (again,) = (each.message for _, each in said if "it goes on at once" in each.message)
        assert f"rank 1 of 2 did not get on for {LIMIT_S}s after step" in again
        assert resumed.resumed_from is not None
        assert resumed.resumed_from >= 10  # one that was stopped goes on for its stack, and may get to the next one
        stacks = [(at, each) for at, each in said if each.name == "stacks"]
        assert [each.fields["rank"] for _, each in stacks] == [0, 1]
        assert "in _swap" in stacks[0][1].message
        assert "model.py" in stacks[1][1].message
        last_step = max(at for at, each in said if each.name == "progress" and at < stacks[0][0])
        assert stacks[0][0] - last_step < 2 * LIMIT_S
        same_result(made, resumed)


@pytest.mark.heavy
def test_the_only_process_of_a_training_ends_itself(tmp_path: Path) -> None:
    model = FAULTY.format(fault="time.sleep(10**6)").replace("FOLDER", str(tmp_path)).replace('== "1"', "is None")
    with trainings(tmp_path, None, model=model, rows_per_day=600) as made:
        said: list[Event] = []
        one = {"resources.train.processes": 1}
        resumed = trained(made.train(plan(made, "hung", **one, **{"train.watchdog": f"{LIMIT_S}s"}), said.append))
        (again,) = (each.message for each in said if "it goes on at once" in each.message)
        assert f"training did not get on for {LIMIT_S}s after step" in again
        (stacks,) = (each.message for each in said if each.name == "stacks")
        assert "model.py" in stacks
        assert "in _take_step" in stacks
        assert resumed.resumed_from == 10
        whole(made, resumed.digest, one)


def whole(made: Trainings, digest: str, one: dict[str, int]) -> None:
    assert trained(made.train(plan(made, "whole", **one))).digest == digest
