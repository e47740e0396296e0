"""Layers multiply in less than fp32 only while they train, and what they learn is fp32, to the bit after a resume."""

from typing import Any

import pytest
import torch
from torch import Tensor

from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.summaries import FeatureSet, Split
from ratchet.model.description import Architecture, Description
from tasks.train import optimizer
from tasks.train.endings import convert_endings
from tasks.train.loop import Loop
from tasks.train.losses import LOSSES, of_members
from tasks.train.precision import Precision, resolve
from tasks.train.settings import Segment
from tasks.train.step_losses import NotFinite
from tasks.train.stopping import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows

CPU = torch.device("cpu")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize(
    ("objective", "kind"),
    [("ranking", "set"), ("binary", "dcn"), ("regression", "mlp"), ("multiclass", "dcn"), ("binary", "tabm")],
)
def test_layers_compute_in_half_the_bits_and_learn_as_in_all_of_them(objective: str, kind: str, precision: str) -> None:
    def train(name: str) -> list[float]:
        made = network(objective, kind, members=3 if kind == "tabm" else 1)
        loss = of_members(LOSSES[objective]) if kind == "tabm" else LOSSES[objective]
        one = loop(objective, net=made, loss=loss, precision=name)
        seen: list[torch.dtype] = []
        layer = next(each for each in made.body.modules() if isinstance(each, torch.nn.Linear))
        layer.register_forward_hook(lambda _module, _given, out: seen.append(out.dtype))
        torch.manual_seed(0)
        found = one.run()
        assert set(seen) == {{"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[name]}
        state = {tensor.dtype for key, tensor in one._state.state_dict().items() if key.startswith(("model.", "opt"))}
        assert not state & {torch.bfloat16, torch.float16}
        assert found.segments[0].precision == name
        return [each.loss for each in found.history]

    whole, half = train("fp32"), train(precision)
    assert half != whole
    assert half[-1] == pytest.approx(whole[-1], rel=0.1)


def test_validation_is_computed_in_fp32() -> None:
    made, plain, valid = network("binary", "dcn"), network("binary", "dcn"), rows("binary", 300, seed=5)
    one = loop("binary", net=made, valid=valid, precision="bf16")
    one.run()
    plain.load_state_dict(made.state_dict())
    made.eval()
    plain.eval()
    with torch.inference_mode():
        assert torch.equal(one._computation.scores(valid), plain.scores(valid.numeric, valid.places))


def _overflowing(**given: Any) -> Loop:
    """A training in fp16 whose loss has a scale at first that no gradient fits under."""
    one = loop("binary", precision="fp16", **given)
    one._precision.loss_scale.scale = 2.0**24
    return one


@pytest.mark.parametrize("steps", [2, 20])
def test_a_training_in_fp16_skips_steps_and_resumes_to_the_bit(steps: int) -> None:
    whole, begun, resumed = (network("binary", dropout=0.2, seed=seed) for seed in (0, 0, 9))
    torch.manual_seed(0)
    found = _overflowing(net=whole).run()
    assert 3 <= found.skipped <= 12
    assert torch.isinf(torch.from_numpy(found.trace)).sum() == found.skipped
    assert (found.history[-1].step, found.history[-1].loss < found.history[0].loss) == (48, True)
    folder = MemoryFolder()
    torch.manual_seed(0)
    with pytest.raises(StopTraining):
        _overflowing(net=begun, folder=folder, stop_after=steps).run()
    assert loop("binary", net=resumed, folder=folder, precision="fp16").run().skipped == found.skipped
    assert bits(resumed) == bits(whole)


def test_a_gradient_that_no_scale_makes_finite_is_an_error_that_names_its_step() -> None:
    def loss(scores: Tensor, label: Tensor, *_: object) -> Tensor:
        return (scores - label).square().mean() + (scores * 0).sum().sqrt()  # a finite loss without a finite gradient

    with pytest.raises(NotFinite, match=r"the gradient is nan at step 17$"):
        loop("binary", loss=loss, precision="fp16").run()


def test_fp16_in_micro_batches_and_shards_takes_the_same_steps() -> None:
    def losses(**given: Any) -> list[float]:
        made = network("binary", masked=0.0)
        return [each.loss for each in loop("binary", net=made, precision="fp16", batch_size=256, **given).run().history]

    whole = losses()
    assert losses(accumulation=3) == pytest.approx(whole, rel=0.01)
    assert losses(shards=2) == pytest.approx(whole, rel=0.01)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_what_to_do_about_a_number_that_is_not_finite_depends_on_the_precision(precision: str) -> None:
    made = network("binary")
    described = Description(
        objective="binary",
        numeric=(),
        categorical=(),
        derived={},
        architecture=Architecture(kind="mlp", hidden=(16,), cross_layers=1, dropout=0.0),
    )
    features = FeatureSet(numeric=(), categorical=(), days=(), split=Split(train=(), valid=(), holdout=()))
    with (
        pytest.raises(RatchetError) as raised,
        convert_endings(described, made, features, rows("binary"), precision=precision),
    ):
        raise NotFinite("the gradient is inf at step 3")
    wider, lower = "set train.precision to bf16 or fp32; ", "lower train.learning_rate; limit columns with min and max"
    assert raised.value.remedy.startswith(wider + lower if precision == "fp16" else lower)


def test_a_precision_is_repeated_from_the_segments() -> None:
    made, again, other = (network("binary") for _ in range(3))
    torch.manual_seed(0)
    found = loop("binary", net=made, precision="bf16").run()
    torch.manual_seed(0)
    repeated = loop("binary", net=again, segments=found.segments).run()
    assert bits(again) == bits(made)
    assert repeated.segments == found.segments == (
        Segment(begin=0, accumulation=1, device="cpu", threads=1, precision="bf16"),
    )  # fmt: skip
    torch.manual_seed(0)
    loop("binary", net=other).run()
    assert bits(other) != bits(made)


def test_tf32_is_for_the_steps_of_a_training_alone() -> None:
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    with Precision("tf32").multiplying():
        assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("high", True)
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before
    with Precision("bf16").multiplying():
        assert torch.get_float32_matmul_precision() == before[0]


def test_a_cpu_computes_in_fp32_unless_it_is_asked_otherwise() -> None:
    assert [resolve(asked, CPU) for asked in ("auto", "fp32", "bf16", "fp16")] == ["fp32", "fp32", "bf16", "fp16"]
    with pytest.raises(ConfigurationError, match=r"train.precision: tf32 needs a GPU .* allowed here: auto"):
        resolve("tf32", CPU)


def test_the_gradients_of_a_large_table_are_scaled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "LARGE", 1)

    def train(precision: str) -> Tensor:
        made = network("binary", masked=0.0)
        loop("binary", net=made, precision=precision, accumulation=2, epochs=1).run()
        return made.state_dict()["embedding.tables.4.weight"]

    torch.testing.assert_close(train("fp16"), train("fp32"), rtol=0.05, atol=0.01)
