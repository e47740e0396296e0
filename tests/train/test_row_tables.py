"""A table that is sharded by row gives the bits of a whole one, on any number of ranks, and is saved by all of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts import summaries
from tasks.train import optimizer
from tasks.train.ranks import Ranks
from tasks.train.row_tables import fetch, row_tables, shard
from tasks.train.stripes import Stripe
from tests.model import test_lists as lists
from tests.train.miniature import network
from tests.train.one_rank import train
from tests.train.test_launch import on_two
from tests.train.test_ranks import run
from tests.train.test_stage import weights

pytestmark = pytest.mark.xdist_group("row tables")  # the trainings of `said` run once
POWERS = st.sampled_from([1, 2, 4, 8, 16])
PLAIN = {"kind": "table", "shards": 8, "settings": {"epochs": 1}}
"""A step of four pieces of rows in eight shards: some of them are empty."""
HARD = {
    **PLAIN,
    "sharded": True,
    "largest_gradient": 0.05,
    "settings": {"epochs": 1, "precision": "bf16", "ema": 0.9},
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What trainings say at their end, on one rank, then on four, then on two; they pass a checkpoint on."""
    folder, faulty = (str(tmp_path_factory.mktemp("checkpoints")) for _ in range(2))
    on, alone, threads = {**PLAIN, "folder": folder}, Ranks(), torch.get_num_threads()
    torch.set_num_threads(1)
    saving = {**PLAIN, "sharded": True, "folder": faulty, "settings": {"epochs": 1, "checkpoint_steps": 2}}
    on_one = [train(each, alone) for each in (HARD, PLAIN, {**PLAIN, "sharded": True}, {**on, "stop_after": 2})]
    on_four = run(4, [HARD, {**on, "stop_after": 3, "sharded": True}])
    on_two = run(
        2,
        [
            HARD,
            {**on, "stop_after": 2, "sharded": True},
            {**saving, "stop_after": 5, "full_for": "step-0000000004"},
            {**saving, "damaged": 1},
        ],
    )
    at_last = train(on, alone)
    torch.set_num_threads(threads)
    return {"one": on_one, "four": on_four, "two": on_two, "at last": at_last}


def test_sharded_tables_have_the_same_bits_on_any_number_of_ranks_and_less_of_them_each(said: dict[str, Any]) -> None:
    hard, whole, sharded, _ = said["one"]
    assert sharded["digest"] == whole["digest"]
    assert hard["losses"] != train({**HARD, "largest_gradient": 5.0}, Ranks())["losses"]  # it is clipped
    for name, ranks in (("two", 2), ("four", 4)):
        assert {**said[name][0], "numbers": 0} == {**hard, "numbers": 0}
        assert said[name][0]["numbers"] < 1.1 * hard["numbers"] / ranks


def test_a_checkpoint_is_passed_on_between_any_numbers_of_ranks_and_from_whole_tables_and_back(
    said: dict[str, Any],
) -> None:
    assert [said["one"][3], said["four"][1], said["two"][1]] == ["stopped"] * 3
    assert said["at last"]["resumed_from"] == 2 + 3 + 2
    assert said["at last"]["digest"] == said["one"][1]["digest"]
    assert [each["tables"] for each in said["at last"]["segments"]] == ["whole", "sharded", "whole"]


def test_a_checkpoint_of_which_one_rank_has_no_whole_part_is_none_for_all(said: dict[str, Any]) -> None:
    """One rank had no room for its part of step 4, and a bit of its part of step 5 was changed: left is step 2."""
    *_, stopped, resumed = said["two"]
    assert stopped == "stopped"
    assert resumed["resumed_from"] == 2
    assert resumed["digest"] == said["one"][1]["digest"]


def test_a_training_that_went_on_with_sharded_tables_is_repeated_to_the_bit(tmp_path: Path) -> None:
    clipped = {**PLAIN, "largest_gradient": 0.05, "seed": 0, "settings": {"epochs": 2}}
    assert train({**clipped, "folder": str(tmp_path), "stop_after": 12}, Ranks()) == "stopped"
    found = train({**clipped, "folder": str(tmp_path), "sharded": True}, Ranks())
    assert [(each["begin"], each["tables"]) for each in found["segments"]] == [(0, "whole"), (12, "sharded")]
    repeated = train({**clipped, "sharded": True, "segments": found["segments"]}, Ranks())
    assert (repeated["digest"], repeated["segments"]) == (found["digest"], found["segments"])
    assert train({**clipped, "sharded": True}, Ranks())["digest"] != found["digest"]


OWN = """
from torch import nn
from tasks.train import optimizer

optimizer.LARGE = 2

class Mine(nn.Sequential):
    def __init__(self, inputs):
        super().__init__(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, 1))
"""


def test_two_processes_with_sharded_tables_ship_the_model_of_one_with_whole_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimizer, "LARGE", 2)
    trainings = on_two(tmp_path, model=OWN)
    model = {"kind": "model.py:Mine", "embedding_dim": 4}
    trainings.settings(model=model, shards=2, tables="sharded")
    sharded = trainings.train()
    assert [each.tables for each in summaries.trained(sharded.result).segments] == ["sharded"]
    trainings.settings(model=model, shards=2)
    trainings.nights.document["resources"] = {"train": {"cpus": 1}}
    whole = trainings.train(run="whole")
    assert weights(trainings, sharded) == weights(trainings, whole)
    assert summaries.trained(sharded.result).parameters == summaries.trained(whole.result).parameters


@given(rows=st.integers(0, 70), ours=st.tuples(POWERS, POWERS), theirs=st.tuples(POWERS, POWERS), data=st.data())
def test_a_stripe_takes_its_rows_from_a_block_of_any_other(
    rows: int, ours: tuple[int, int], theirs: tuple[int, int], data: st.DataObject
) -> None:
    own, other = (Stripe(every, first % every) for every, first in (ours, theirs))
    every = torch.arange(rows)
    stored = every[other.first :: other.every]
    begin = data.draw(st.integers(0, len(stored)))
    block = stored[begin : data.draw(st.integers(begin, len(stored)))]
    into = torch.full((own.count(rows),), -1)
    taken = own.take(into, block, other, begin)
    wanted = every[own.first :: own.every]
    has = torch.isin(wanted, block)
    assert torch.equal(into, torch.where(has, wanted, -1))
    assert taken == int(has.sum())


def test_what_was_not_fetched_is_no_vector() -> None:
    net = network("binary").eval()
    assert shard(net, Ranks(), smallest=1) == 1
    fetch(net, torch.tensor([[3], [5]], dtype=torch.int32))
    standard = torch.zeros(1, 2)
    assert net.scores(standard, torch.tensor([[5]])).isfinite().all()
    with pytest.raises(IndexError):
        net.scores(standard, torch.tensor([[4]]))


def test_the_gradient_of_vectors_that_lists_share_is_that_of_a_whole_table() -> None:
    whole, sharded = lists.network().train(), lists.network().train()
    assert shard(sharded, Ranks(), smallest=1) == 1
    numeric, ids = map(torch.from_numpy, lists.encoded(lists.FRAME))
    places = whole.preprocess.places(ids)
    fetch(sharded, places)
    (table,), (row_table,) = whole.embedding.tables.values(), row_tables(sharded)
    table.sparse = True
    for net in (whole, sharded):
        torch.manual_seed(0)
        net.scores(net.preprocess.standardise(numeric), places).square().sum().backward()
    found, wanted = row_table.sum_at_owners(row_table.take_gradient()), table.weight.grad.coalesce()
    assert len(wanted.values()) > 5
    assert torch.equal(found.indices(), wanted.indices())
    assert torch.equal(found.values(), wanted.values())
