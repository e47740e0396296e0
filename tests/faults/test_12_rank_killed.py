"""A rank that is killed ends the training at once; it goes on from its checkpoint, to the bits of one that was not."""

from pathlib import Path

from ratchet.runs.events import Event
from tests.faults.ranks import FAULTY, on_two_ranks, plan, same_result
from tests.faults.trainings import trained, trainings

KILLED = FAULTY.format(fault="os.kill(os.getpid(), signal.SIGKILL)")


def test_a_killed_rank_costs_one_interval_and_changes_no_bit(tmp_path: Path) -> None:
    with trainings(tmp_path, None, model=KILLED.replace("FOLDER", str(tmp_path)), rows_per_day=600) as made:
        said: list[Event] = []
        resumed = trained(on_two_ranks(made, plan(made, "killed"), said.append))
        assert (tmp_path / "done").exists()
        (again,) = (each.message for each in said if "it goes on at once" in each.message)
        assert "rank 1 of 2 was killed by signal 9 after step 1" in again
        assert resumed.resumed_from == 10
        assert [each.shards for each in resumed.segments] == [2]
        same_result(made, resumed)
