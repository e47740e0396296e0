"""The loop learns, repeats itself to the bit, resumes to the bit, and stops before harm is done."""

import pytest
import torch

from tasks.train.loop import NotFinite, Stopped
from tests.train.shelves import CLASSES, MemoryShelf, bits, loop, network, rows

OBJECTIVES = ("ranking", "binary", "regression", "multiclass")


@pytest.mark.parametrize("kind", ["linear", "mlp", "dcn"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_architecture_learns_every_objective(objective: str, kind: str) -> None:
    made = network(objective, kind)
    trained = loop(objective, net=made, epochs=4).run()
    assert trained.history[-1].loss < trained.history[0].loss
    held = rows(objective, seed=1)
    with torch.inference_mode():
        raw = made.eval().scores(held.numeric, held.places)
    if objective == "multiclass":
        assert raw.shape == (len(held), CLASSES)
        assert (raw.argmax(1) == held.label).double().mean() > 0.6
    else:
        assert torch.corrcoef(torch.stack([raw, held.label]))[0, 1] > (0.35 if objective != "regression" else 0.8)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_same_seed_gives_the_same_bits(objective: str) -> None:
    first, second = network(objective, dropout=0.1), network(objective, dropout=0.1)
    for made in (first, second):
        torch.manual_seed(3)
        loop(objective, net=made).run()
    assert bits(first) == bits(second)
    other = network(objective, dropout=0.1)
    loop(objective, net=other, seed=1).run()
    assert bits(other) != bits(first)


@pytest.mark.parametrize("steps", [1, 7, 16, 17, 30, 47])
@pytest.mark.parametrize("objective", ["ranking", "binary"])
def test_a_resumed_training_ends_with_the_bits_of_an_undisturbed_one(objective: str, steps: int) -> None:
    torch.manual_seed(0)
    whole = network(objective, dropout=0.2)
    valid = rows(objective, 300, seed=5)
    undisturbed = loop(objective, net=whole, valid=valid).run()
    shelf = MemoryShelf()
    torch.manual_seed(0)
    begun = network(objective, dropout=0.2)
    with pytest.raises(Stopped):
        loop(objective, net=begun, shelf=shelf, valid=valid, stop_after=steps).run()
    torch.manual_seed(99)  # another process knows nothing of the first one's random numbers
    resumed = network(objective, seed=99, dropout=0.2)
    trained = loop(objective, net=resumed, shelf=shelf, valid=valid).run()
    assert trained.resumed_from is not None
    assert bits(resumed) == bits(whole)
    assert [done.loss for done in trained.history] == [done.loss for done in undisturbed.history]


def test_a_training_that_was_over_is_not_trained_again() -> None:
    shelf = MemoryShelf()
    first, second = network("binary"), network("binary", seed=9)
    loop("binary", net=first, shelf=shelf).run()
    trained = loop("binary", net=second, shelf=shelf).run()
    assert bits(first) == bits(second)
    assert len(trained.history) == 3


def test_the_best_epoch_is_kept_and_patience_ends_the_training() -> None:
    made = network("binary")
    noise = rows("binary", 60)
    trained = loop("binary", net=made, train=noise, valid=rows("binary", 500, seed=7), epochs=60, learning_rate=0.1,
                   batch_size=16, patience=2).run()  # fmt: skip
    metrics = [done.valid_metric for done in trained.history]
    assert len(metrics) < 60
    assert metrics.index(min(value for value in metrics if value is not None)) == trained.best_epoch - 1
    assert len(metrics) == trained.best_epoch + 2


def test_without_a_validation_day_the_last_epoch_counts() -> None:
    assert loop("binary").run().best_epoch == 3


def test_a_loss_that_is_no_number_stops_the_training_before_it_is_saved() -> None:
    poisoned = rows("binary")
    poisoned.numeric[1000] = torch.inf
    shelf = MemoryShelf()
    made = network("binary")
    made.preprocess.forward = None  # type: ignore[assignment]  # the loop does not call it
    made.preprocess.numbers = lambda numeric: torch.cat([numeric, torch.zeros_like(numeric)], dim=1)  # type: ignore[method-assign]
    with pytest.raises(NotFinite, match=r"the loss is (nan|inf) at epoch 1, step \d+ of 16"):
        loop("binary", net=made, train=poisoned, shelf=shelf).run()
    assert not shelf.files


def test_checkpoints_are_kept_to_the_newest_few() -> None:
    shelf = MemoryShelf()
    loop("binary", shelf=shelf, checkpoint_every_s=0).run()
    assert sorted(name for name in shelf.files if name.endswith(".json")) == [
        "step-0000000047.json",
        "step-0000000048.json",
    ]
    assert len(shelf.files) == 4


@pytest.mark.parametrize("damage", ["flip", "cut", "lose", "document"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(damage: str) -> None:
    shelf, said = MemoryShelf(), []
    whole = network("binary")
    loop("binary", net=whole).run()
    with pytest.raises(Stopped):
        loop("binary", shelf=shelf, stop_after=40, checkpoint_every_s=0).run()
    newest = max(name for name in shelf.files if name.endswith(".safetensors"))
    data = bytearray(shelf.files[newest])
    data[len(data) // 2] ^= 1
    document = newest.replace(".safetensors", ".json")
    if damage == "lose":
        del shelf.files[newest]
    elif damage == "document":
        shelf.files[document] = shelf.files[document].replace(b'"epoch": 3', b'"epoch": 2')
    else:
        shelf.files[newest] = bytes(data) if damage == "flip" else bytes(data[:-9])
    again = network("binary", seed=4)
    trained = loop("binary", net=again, shelf=shelf, warnings=said).run()
    assert trained.resumed_from == 39
    assert "is damaged" in said[0]
    assert bits(again) == bits(whole)


def test_a_save_that_fails_is_told_and_training_goes_on() -> None:
    class Full(MemoryShelf):
        def put(self, name: str, data: bytes) -> None:
            raise OSError("no space left on device")

    said: list[str] = []
    trained = loop("binary", shelf=Full(), warnings=said).run()
    assert len(trained.history) == 3
    assert len(said) == 3
    assert "no space left on device" in said[0]
