"""A network with members: each has a loss of its own in training, and scores are means of what they mean."""

from pathlib import Path

import pytest
import torch

from ratchet.model.bodies import Members
from ratchet.model.networks import finish
from tasks.train.computation import Computation
from tasks.train.custom_code import load_loss
from tasks.train.losses import LOSSES
from tests.train.miniature import CLASSES, loop, network, rows, settings

OBJECTIVES = ["binary", "regression", "multiclass", "ranking"]
MEMBERS = 5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_loss_is_the_mean_of_the_losses_of_the_members(tmp_path: Path, objective: str, weighted: bool) -> None:
    loss, mass = load_loss(objective, "tabm", tmp_path)
    made, few = network(objective, "tabm", members=MEMBERS), rows(objective, 200, weighted=weighted)
    raw = made.scores(few.numeric, few.places).detach()
    assert raw.shape == (len(few), MEMBERS, *([CLASSES] if objective == "multiclass" else []))
    ours, one = (Computation(made, settings(objective), loss=each, mass=mass) for each in (loss, LOSSES[objective]))
    expected = torch.stack([one.loss(member, few) for member in raw.unbind(1)]).mean()
    torch.testing.assert_close(ours.loss(raw, few), expected)
    assert ours.mean_loss(raw, few) == pytest.approx(float(expected), rel=1e-5)


def test_a_probability_is_the_mean_of_the_probabilities_of_the_members() -> None:
    made, few = network("binary", "tabm", members=MEMBERS).eval(), rows("binary", 50)
    raw = made.scores(few.numeric, few.places).detach()
    torch.testing.assert_close(finish(made, "binary", raw), torch.sigmoid(raw).mean(1))
    assert finish(made, "ranking", raw).shape == (50,)
    of_classes = network("multiclass", "tabm", members=MEMBERS)
    final = finish(of_classes, "multiclass", of_classes.scores(few.numeric, few.places).detach())
    torch.testing.assert_close(final.sum(1), torch.ones(50))


def test_members_differ_and_a_member_is_a_network_of_its_own() -> None:
    torch.manual_seed(0)
    made = Members(torch.nn.Linear(6, 4), 6, 4, 2, MEMBERS)
    assert made.scale.abs().eq(1).all()
    x = torch.randn(3, 6)
    found = made(x)
    for member in range(MEMBERS):
        own = made.deep(x * made.scale[member]) @ made.heads.weight[member] + made.heads.bias[member]
        torch.testing.assert_close(found[:, member], own)
    assert float(found.detach().std(1).min()) > 0.01


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_it_trains(tmp_path: Path, objective: str) -> None:
    loss, _ = load_loss(objective, "tabm", tmp_path)
    made = network(objective, "tabm", members=MEMBERS)
    valid = rows(objective, 300, seed=1)
    history = loop(objective, net=made, train=rows(objective, 1000), valid=valid, loss=loss, epochs=4).run().history
    assert history[-1].loss < 0.9 * history[0].loss
    assert history[0].valid_loss is not None
