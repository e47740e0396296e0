"""A table that is sharded by row gives the bits of a whole one, on any number of ranks, and is saved by all of them."""

import json
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

POWERS = st.sampled_from([1, 2, 4, 8, 16])
PLAIN = {"kind": "table", "shards": 8, "settings": {"epochs": 1}}
"""A step of four pieces of rows in eight shards: some of them are empty."""
HARD = {
    **PLAIN,
    "sharded": True,
    "largest_gradient": 0.05,
    "settings": {"epochs": 1, "precision": "bf16", "ema": 0.9},
}


def test_sharded_tables_have_the_same_bits_on_any_number_of_ranks_and_a_checkpoint_changes_hands(
    tmp_path: Path,
) -> None:
    def stopped(folder: str, steps: int, *, sharded: bool) -> dict[str, Any]:
        return {**PLAIN, "folder": str(tmp_path / folder), "stop_after": steps, "sharded": sharded}

    alone = Ranks()
    whole, hard = train(PLAIN, alone), train(HARD, alone)
    assert hard["losses"] != train({**HARD, "largest_gradient": 5.0}, alone)["losses"]  # it is clipped
    assert train({**PLAIN, "sharded": True}, alone)["digest"] == whole["digest"]
    assert train(stopped("passed on", 2, sharded=False), alone) == "stopped"
    on_four = run(4, [HARD, stopped("passed on", 3, sharded=True)])
    on_two = run(2, [HARD, stopped("passed on", 2, sharded=True)])
    for one, ranks in ((on_four, 4), (on_two, 2)):
        assert one[1] == "stopped"
        assert {**one[0], "numbers": 0} == {**hard, "numbers": 0}
        assert one[0]["numbers"] < 1.1 * hard["numbers"] / ranks
    at_last = train({**PLAIN, "folder": str(tmp_path / "passed on")}, alone)
    assert at_last["resumed_from"] == 2 + 3 + 2
    assert at_last["digest"] == whole["digest"]
    assert [each["tables"] for each in at_last["segments"]] == ["whole", "sharded", "whole"]


def test_a_checkpoint_of_which_one_rank_has_no_whole_part_is_none_for_all(tmp_path: Path) -> None:
    saving = {**PLAIN, "sharded": True, "folder": str(tmp_path), "settings": {"epochs": 1, "checkpoint_steps": 2}}
    assert run(2, {**saving, "stop_after": 5, "full_for": "step-0000000004"}) == "stopped"
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["step-0000000002.json", "step-0000000005.json"]
    newest = json.loads((tmp_path / "step-0000000005.json").read_bytes())
    *_, file = newest["content"]["ranks"][0]["state"]["files"]
    data = bytearray((tmp_path / file["name"]).read_bytes())
    data[-1] ^= 1
    (tmp_path / file["name"]).write_bytes(data)
    resumed = run(2, saving)
    assert resumed["resumed_from"] == 2
    assert resumed["digest"] == train(PLAIN, Ranks())["digest"]


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
