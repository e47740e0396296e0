"""A training on several ranks computes what one process computes, to the bit, and any number of them goes on with it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.train.ranks import RankDone, Ranks
from tests.ports import hold, number

_LONGEST_S = 300


def train(size: int, **options: Any) -> Any:
    """What the first of `size` ranks says at its end; the options are those of `one_rank`."""
    return run(size, options)


def run(size: int, options: dict[str, Any] | list[dict[str, Any]]) -> Any:
    """The same for a training, or several in turn."""
    command = [sys.executable, "-m", "tests.train.one_rank", json.dumps(options)]
    with hold() as meeting:
        ranks = []
        for rank in range(size):
            address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{number(meeting)}", "GLOO_SOCKET_IFNAME": "lo"}
            several = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), **address}
            env = {**os.environ, **(several if size > 1 else {})}
            ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        said = [each.communicate(timeout=_LONGEST_S)[0] for each in ranks]
    assert [each.returncode for each in ranks] == [0] * size
    assert not any(said[1:])
    return json.loads(said[0])


@pytest.mark.parametrize("kind", ["binary", "ranking", "table", "normed"])
def test_one_two_and_four_ranks_end_with_the_same_bits(kind: str) -> None:
    alone = train(1, kind=kind, shards=4)
    assert alone["losses"][-1] < alone["losses"][0]
    assert train(2, kind=kind, shards=4) == alone
    assert train(4, kind=kind, shards=4) == alone


def test_two_ranks_with_bf16_and_an_average_end_with_the_bits_of_one() -> None:
    alone = train(1, kind="table", shards=2, settings={"precision": "bf16", "ema": 0.9})
    assert train(2, kind="table", shards=2, settings={"precision": "bf16", "ema": 0.9}) == alone
    assert train(1, kind="table", shards=2)["digest"] != alone["digest"]


def test_any_number_of_ranks_goes_on_from_a_checkpoint_and_changes_no_bit(tmp_path: Path) -> None:
    alone = train(1, kind="binary", shards=4)
    assert train(4, kind="binary", folder=str(tmp_path), stop_after=3) == "stopped"
    assert train(2, kind="binary", folder=str(tmp_path), stop_after=4) == "stopped"
    resumed = train(1, kind="binary", folder=str(tmp_path))
    assert resumed.pop("resumed_from") == 3 + 4
    assert alone.pop("resumed_from") is None
    assert resumed == alone


def test_a_training_that_two_ranks_took_over_from_one_is_repeated_to_the_bit_by_one(tmp_path: Path) -> None:
    assert train(1, kind="binary", folder=str(tmp_path), stop_after=3, seed=0) == "stopped"
    found = train(2, kind="binary", folder=str(tmp_path))
    assert [(each["begin"], each["shards"]) for each in found["segments"]] == [(0, 1), (3, 2)]
    repeated = train(1, kind="binary", segments=found["segments"], seed=0)
    assert repeated["digest"] == found["digest"]
    assert repeated["segments"] == found["segments"]


def test_only_the_first_rank_stays_to_save_the_model() -> None:
    Ranks().leave_if_not_first()
    with pytest.raises(RankDone):
        Ranks(rank=1, size=2).leave_if_not_first()
