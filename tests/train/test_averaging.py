"""The average of the weights is that of its definition, for a table whose rows change now and then too; it is what is
validated and shipped, and a resumed training has it to the bit."""

import pytest
import torch
from torch import Tensor

from ratchet.model.networks import Network
from tasks.train import optimizer
from tasks.train.data import Rows
from tasks.train.loop import Loop
from tasks.train.schedule import Fall
from tasks.train.stopping import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows

DECAY = 0.9
TABLE = "embedding.tables.4.weight"


def rare() -> Rows:
    """Rows whose categories are met in some steps only, and the last ones never."""
    made = rows("binary", 1000)
    made.places.copy_((torch.arange(1000) // 130 + 1).clamp(max=7).unsqueeze(1))
    return made


def defined(one: Loop, made: Network) -> dict[str, Tensor]:
    """The average by its definition, of all rows in each step; it is complete when the training is.

    The planned fall begins with the average, and with another one.
    """
    average = {name: weight.detach().clone() for name, weight in made.named_parameters()}
    step, begin, updates = one._optimizer.step, one._average.begin, [0]

    def beginning() -> None:
        begin()
        for name, weight in made.named_parameters():
            torch.testing.assert_close(weight.detach(), average[name], rtol=1e-5, atol=1e-6)
            average[name] = weight.detach().clone()
        updates.append(0)

    def stepping() -> None:
        step()
        updates[-1] += 1
        t = updates[-1]
        d = min(DECAY, (1 + t) / (10 + t))
        for name, weight in made.named_parameters():
            average[name] = d * average[name] + (1 - d) * weight.detach()

    one._optimizer.step = stepping  # type: ignore[method-assign]  # as the profiler does
    one._average.begin = beginning  # type: ignore[method-assign]  # likewise
    return average


@pytest.mark.parametrize("smallest", [10**6, 1])
def test_the_shipped_weights_are_the_average_by_its_definition(smallest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "LARGE", smallest)
    made, plain = network("binary", masked=0.0), network("binary", masked=0.0)
    one = loop("binary", net=made, train=rare(), batch_size=64, ema=DECAY, accumulation=2)
    assert [len(table) for table in one._optimizer.tables] == ([11] if smallest == 1 else [])
    expected = defined(one, made)
    one.run()
    torch.testing.assert_close(dict(made.named_parameters()), expected, rtol=1e-5, atol=1e-6)
    loop("binary", net=plain, train=rare(), batch_size=64, accumulation=2).run()
    assert (made.state_dict()[TABLE] - plain.state_dict()[TABLE]).abs().max() > 1e-4


def test_the_average_is_what_is_validated_and_what_the_fall_begins_with() -> None:
    """The metric is best at the second evaluation; one more is the patience."""
    seen: list[Tensor] = []
    made, values = network("binary"), iter([0.5, 0.4, 0.6])
    watched = made.body.linear.weight

    def metric(*_: object) -> float:
        seen.append(watched.detach().clone())
        return next(values)

    one = loop(
        "binary", net=made, valid=rows("binary", 300, seed=5), metric=metric, patience=1, epochs=60, ema=DECAY
    )  # fmt: skip
    before: list[Tensor] = []
    flush, begin_fall = one._flush_losses, one._state.begin_fall
    starts: list[Tensor] = []

    def flushing() -> None:
        flush()
        before.append(watched.detach().clone())

    def beginning(fall: Fall) -> None:
        begin_fall(fall)
        starts.extend([watched.detach().clone(), one._average._of_layers[_place(one, watched)].clone()])

    one._flush_losses = flushing  # type: ignore[method-assign]  # as the profiler does
    one._state.begin_fall = beginning  # type: ignore[method-assign]  # likewise
    assert one.run().best == 2
    assert not torch.equal(seen[1], before[1])
    assert torch.equal(starts[0], seen[1])
    assert torch.equal(starts[1], seen[1])


def _place(one: Loop, weight: Tensor) -> int:
    return next(place for place, each in enumerate(one._optimizer.layers) if each is weight)


@pytest.mark.parametrize("steps", [9, 16, 25])
def test_an_average_resumes_to_the_bit(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "LARGE", 1)
    whole, begun, resumed = (network("binary", dropout=0.2, seed=seed) for seed in (0, 0, 9))
    valid, folder = rows("binary", 300, seed=5), MemoryFolder()
    torch.manual_seed(0)
    found = loop("binary", net=whole, valid=valid, ema=DECAY).run()
    torch.manual_seed(0)
    with pytest.raises(StopTraining):
        loop("binary", net=begun, valid=valid, folder=folder, ema=DECAY, stop_after=steps).run()
    again = loop("binary", net=resumed, valid=valid, folder=folder, ema=DECAY).run()
    assert bits(resumed) == bits(whole)
    assert [each.valid_metric for each in again.history] == [each.valid_metric for each in found.history]
    complete = network("binary", seed=8, dropout=0.2)
    loop("binary", net=complete, valid=valid, folder=folder, ema=DECAY).run()
    assert bits(complete) == bits(whole)
