"""A step that does not fit into memory is computed again in smaller micro-batches, in the same process; the training says
so, and can be repeated to the bit.

The loss asks the host's allocator for a petabyte where a micro-batch is too large: what fails is the real allocator.
"""

from itertools import count

import pytest
import torch
from torch import Tensor

from ratchet.contracts.errors import ConfigurationError
from ratchet.model.networks import Network
from tasks.train.losses import LOSSES, Loss
from tasks.train.settings import Segment
from tasks.train.stopping import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows

PETABYTE = 2**50
TOO_MANY = 100
"""Rows of a micro-batch that does not fit; a batch has 128."""


def hungry(*, after: int = 0, most: int = TOO_MANY) -> Loss:
    """A loss that, after so many calls in training, needs more memory than there is for more than `most` rows."""
    calls = count()

    def loss(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
        if scores.requires_grad and next(calls) >= after and len(scores) > most:
            torch.empty(PETABYTE)
        return LOSSES["binary"](scores, label, weight, group)

    return loss


def segment(begin: int, accumulation: int) -> Segment:
    return Segment(begin=begin, accumulation=accumulation, device="cpu", threads=torch.get_num_threads())


def test_a_step_that_runs_out_of_memory_is_computed_again_in_two_micro_batches_and_no_step_is_lost() -> None:
    warnings: list[str] = []
    fitted, halved = network("binary", masked=0.0), network("binary", masked=0.0)
    whole = loop("binary", net=fitted).run()
    trained = loop("binary", net=halved, loss=hungry(after=20), warnings=warnings).run()
    assert trained.segments == (segment(0, 1), segment(20, 2))
    assert [each.step for each in trained.history] == [each.step for each in whole.history]
    assert [each.loss for each in trained.history] == pytest.approx([each.loss for each in whole.history], rel=1e-3)
    (warning,) = warnings
    assert "memory ran out after step 20: " in warning
    assert "in 2 micro-batches" in warning


def test_micro_batches_are_halved_until_they_fit() -> None:
    assert loop("binary", loss=hungry(most=24)).run().segments == (segment(0, 8),)


def test_where_no_micro_batch_fits_the_error_names_the_smallest_that_was_tried() -> None:
    message = r"^train ran out of memory in a step of 128 rows, in 64 micro-batches: .*; they cannot be smaller"
    with pytest.raises(ConfigurationError, match=message):
        loop("binary", loss=hungry(most=0)).run()


def test_validation_that_runs_out_of_memory_is_computed_again_in_smaller_chunks() -> None:
    made = network("binary")

    def hook(_module: object, given: tuple[Tensor, ...], _out: Tensor) -> None:
        if not made.training and len(given[0]) > TOO_MANY:
            torch.empty(PETABYTE)

    made.embedding.register_forward_hook(hook)
    trained = loop("binary", net=made, valid=rows("binary", 300, seed=5)).run()
    assert trained.segments[-1].accumulation == 2
    assert trained.history[0].valid_metric is not None


def test_a_validation_loss_that_runs_out_of_memory_is_computed_in_smaller_parts() -> None:
    seen: list[int] = []

    def loss(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
        if not scores.requires_grad:
            seen.append(len(scores))
            if len(scores) > 33_000:
                torch.empty(PETABYTE)
        return LOSSES["binary"](scores, label, weight, group)

    valid = rows("binary", 100_000, seed=5)
    whole = loop("binary", valid=valid, epochs=2).run()
    trained = loop("binary", valid=valid, epochs=2, loss=loss).run()
    assert seen == [50_000, 25_000, 25_000, 25_000, 25_000]
    assert trained.history[0].valid_loss == pytest.approx(whole.history[0].valid_loss)


def test_a_batch_norm_forgets_the_step_that_did_not_fit() -> None:
    made = [network("binary", masked=0.0) for _ in range(2)]
    for each in made:
        each.body.norm = torch.nn.BatchNorm1d(2)
        each.embedding.register_forward_hook(lambda _module, given, _out, each=each: _norm(each, given[0]))
    trained = loop("binary", net=made[0], loss=hungry(after=20)).run()
    loop("binary", net=made[1], segments=trained.segments).run()
    assert bits(made[0]) == bits(made[1])


def _norm(made: Network, places: Tensor) -> None:
    """Let the batch norm see a batch."""
    if made.training:
        made.body.norm(places.float().expand(-1, 2))


def test_a_training_that_halved_its_steps_resumes_with_the_number_that_fitted() -> None:
    folder, warnings = MemoryFolder(), list[str]()
    with pytest.raises(StopTraining):
        loop("binary", folder=folder, stop_after=20, loss=hungry()).run()
    trained = loop("binary", folder=folder, loss=hungry(), warnings=warnings).run()
    assert trained.segments == (segment(0, 2),)
    assert warnings == []


def test_a_training_with_a_halved_step_is_repeated_to_the_bit_from_its_segments() -> None:
    halved, repeated, other = (network("binary", dropout=0.2) for _ in range(3))
    torch.manual_seed(0)
    trained = loop("binary", net=halved, loss=hungry(after=20)).run()
    torch.manual_seed(0)
    again = loop("binary", net=repeated, segments=trained.segments).run()
    assert bits(repeated) == bits(halved)
    assert again.segments == trained.segments
    torch.manual_seed(0)
    loop("binary", net=other).run()
    assert bits(other) != bits(halved)


def test_a_training_resumes_in_other_micro_batches_from_the_folder_of_another_and_is_repeated_to_the_bit() -> None:
    first, second = MemoryFolder(), MemoryFolder()
    second.siblings.append(first)
    stopped = network("binary", dropout=0.2)
    torch.manual_seed(0)
    with pytest.raises(StopTraining):
        loop("binary", net=stopped, folder=first, stop_after=20).run()
    made = network("binary", dropout=0.2, seed=7)
    trained = loop("binary", net=made, folder=second, accumulation=2).run()
    assert trained.resumed_from == 20
    assert trained.segments == (segment(0, 1), segment(20, 2))
    assert "step-0000000020.json" in first.files
    assert "step-0000000020.json" not in second.files
    repeated = network("binary", dropout=0.2)
    torch.manual_seed(0)
    loop("binary", net=repeated, segments=trained.segments).run()
    assert bits(repeated) == bits(made)


def test_of_two_folders_the_newest_checkpoint_counts_and_a_damaged_one_does_not() -> None:
    own, other = MemoryFolder(), MemoryFolder()
    own.siblings.append(other)
    for folder, steps in ((own, 10), (other, 30)):
        with pytest.raises(StopTraining):
            loop("binary", folder=folder, stop_after=steps).run()
    assert loop("binary", folder=own).run().resumed_from == 30
    own.files = {name: data for name, data in own.files.items() if "0000000010" in name}
    other.files.update({name: b"cut" for name in other.files if name.startswith("step-0000000030.part")})
    warnings: list[str] = []
    assert loop("binary", folder=own, warnings=warnings).run().resumed_from == 16  # at the end of its first epoch
    assert "the checkpoint of step 30 is damaged" in warnings[0]


def test_a_notice_to_stop_at_a_step_that_has_been_saved_already_resumes_there_in_one_segment() -> None:
    folder = MemoryFolder()
    with pytest.raises(StopTraining):
        loop("binary", folder=folder, stop_after=20).run()
    assert loop("binary", folder=folder).run().segments == (segment(0, 1),)


@pytest.mark.parametrize("after", [3, 4, 6])
def test_a_shard_that_runs_out_of_memory_halves_all_shards_of_its_step_and_is_repeated_to_the_bit(after: int) -> None:
    """Two shards a step: the memory runs out in the second, in the first, and in the first of another step."""
    fitted, again = network("binary", dropout=0.2), network("binary", dropout=0.2)
    torch.manual_seed(0)
    found = loop("binary", net=fitted, shards=2, batch_size=256, loss=hungry(after=after)).run()
    begin = after // 2
    assert [(each.begin, each.accumulation, each.shards) for each in found.segments] == [(0, 1, 2), (begin, 2, 2)]
    torch.manual_seed(0)
    repeated = loop("binary", net=again, batch_size=256, segments=found.segments).run()
    assert repeated.segments == found.segments
    assert bits(again) == bits(fitted)
