"""A training on several ranks ends as the rank that failed first, with its error and its exit code."""

import signal
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError, OutOfMemory, Preempted, RatchetError, Unavailable
from tasks.train import launch, verdict, watchdog
from tasks.train.ranks import RankLost
from tests.train.test_stage import ROWS, Trainings, prepare, weights

MODEL = """
import os, signal, time
from torch import nn

class Mine(nn.Sequential):
    steps = 0

    def __init__(self, inputs):
        super().__init__(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        if self.training and len(x) > 30:  # not in the trial of a few rows
            Mine.steps += 1
            if Mine.steps == 5 and os.environ["RANK"] == "1":
                FAULT
        return super().forward(x)
"""


def on_two(folder: Path, objective: str = "binary", **files: str) -> Trainings:
    """Trainings on two processes, with a thread each."""
    trainings = prepare(folder, objective, **files)
    trainings.nights.document["resources"] = {"train": {"cpus": 2, "processes": 2}}
    return trainings


def test_two_processes_train_the_model_that_one_trains_in_two_shards(tmp_path: Path) -> None:
    trainings = on_two(tmp_path, "ranking")
    shared = trainings.train()
    assert [each["ranks"] for each in trainings.events("ranks")] == [2]
    found = summaries.trained(shared.result)
    assert [each.shards for each in found.segments] == [2]
    assert found.rows == 2 * ROWS
    assert shared.result.timings["train"] > 0
    assert shared.result.metrics["training_throughput_samples_per_sec"] > 0
    trainings.nights.document["resources"] = {"train": {"cpus": 1}}
    trainings.settings(shards=2)
    alone = trainings.train(run="alone")
    assert weights(trainings, alone) == weights(trainings, shared)
    assert summaries.trained(alone.result).evaluations[-1].loss == found.evaluations[-1].loss


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("raise ValueError('strange rows')", ConfigurationError, r"^model.py:\d+: ValueError: strange rows"),
        ("os._exit(3)", RatchetError, r"^rank 1 of 2 ended with exit code 3 after step 4, without a reason"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", RatchetError, r"^rank 1 of 2 ended with signal 11 after step 4"),
    ],
)
def test_the_error_of_a_rank_is_that_of_the_training(fault: str, kind: Any, said: str, tmp_path: Path) -> None:
    trainings = on_two(tmp_path, model=MODEL.replace("FAULT", fault))
    trainings.settings(model={"kind": "model.py:Mine", "embedding_dim": 4})
    with pytest.raises(RatchetError, match=said) as raised:
        trainings.train()
    assert type(raised.value) is kind


HANGS = """
import os, time

if os.environ.get("RANK") == "1":
    time.sleep(10**6)

from torch import nn

class Mine(nn.Sequential):
    def __init__(self, inputs):
        super().__init__(nn.Linear(inputs, 1))
"""


@pytest.mark.heavy
def test_a_rank_that_hangs_before_its_first_step_is_ended_with_stacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = on_two(tmp_path, model=HANGS)
    trainings.settings(model={"kind": "model.py:Mine", "embedding_dim": 4}, watchdog="1s")
    monkeypatch.setattr(watchdog, "START_S", 80)
    with pytest.raises(Preempted, match=r"^rank 1 of 2 did not get on for 1m20s before its first step"):
        trainings.train()
    assert "model.py" in [each["message"] for each in trainings.events("stacks")][1]


def test_how_a_rank_ended_that_says_nothing() -> None:
    def error(code: int, *, out_of_memory: bool = False) -> RatchetError:
        return launch.unsaid(1, 2, code, 7, out_of_memory=out_of_memory)

    assert type(error(-signal.SIGKILL)) is Preempted
    assert type(error(-signal.SIGTERM)) is Preempted
    assert type(error(-signal.SIGKILL, out_of_memory=True)) is OutOfMemory
    assert type(error(-signal.SIGABRT, out_of_memory=True)) is RatchetError


def raised(folder: Path, rank: int, error: BaseException) -> verdict.Verdict:
    with verdict.Writer(folder, rank) as writer:
        raise error
    found = verdict.read(folder, rank)
    assert found is not None
    assert writer.code == found.code
    return found


def test_that_a_rank_lost_another_one_is_no_cause_where_there_is_more(tmp_path: Path) -> None:
    lost = raised(tmp_path, 0, RankLost("rank 0 lost another one: closed"))
    cause = raised(tmp_path, 1, MemoryError("too large"))
    assert verdict.read(tmp_path, 2) is None
    assert verdict.first_of([lost, cause]) is cause
    assert type(verdict.error_of(cause)) is OutOfMemory
    assert type(verdict.error_of(lost)) is Unavailable
    data = verdict.error_of(raised(tmp_path, 1, Preempted("stopped", remedy="wait")))
    assert (type(data), data.cause, data.remedy) == (Preempted, "stopped", "wait")
    bug = verdict.error_of(raised(tmp_path, 1, KeyError("x")))
    assert (type(bug), bug.cause) == (RatchetError, "KeyError: 'x'")
