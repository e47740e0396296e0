"""Between two log points the host never waits for the device, whatever is trained; what it may wait for is listed.

The bits are those of a training on the host, so the device of these tests computes what a real one is asked for.
"""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import adam

from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn
from ratchet.model.layers import Layers
from ratchet.model.networks import Network
from tasks.train import data, loop, optimizer, passes
from tasks.train.device_table import copied
from tasks.train.losses import LOSSES, of_members
from tasks.train.precision import Precision
from tasks.train.ranks import Ranks
from tasks.train.row_tables import shard
from tests.train import miniature
from tests.train.far_device import FAR, FarDevice, FarTensor

STEPS = 3
OBJECTIVES = ("ranking", "binary", "regression", "multiclass")
KINDS = [
    *((objective, kind) for objective in OBJECTIVES for kind in ("dcn", "mlp", "linear", "tabm")),
    ("ranking", "set"),
]


class Own(nn.Module):
    """Layers of a pipeline: a row's output depends on those of its group."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.head, self.norm = nn.Linear(inputs, 1), nn.BatchNorm1d(inputs)

    def forward(self, x: Tensor, groups: Tensor, sizes: Tensor) -> Tensor:
        out: Tensor = self.head(self.norm(x))
        return out - (out.new_zeros(len(sizes), 1).index_add(0, groups, out))[groups]


def own_network() -> Network:
    """Own layers that read groups, and a statistic of a category that is masked now and then."""
    torch.manual_seed(0)
    return Network(
        Description(
            objective="ranking",
            numeric=(NumericColumn(name="a", transform=None), NumericColumn(name="c count", transform=None, of="c")),
            categorical=(CategoricalColumn(name="c", type="int64", vocabulary=10, dimension=4),),
            derived={},
            architecture=Architecture(kind="model.py:Own", hidden=(), cross_layers=1, dropout=0.0, masked=0.2),
        ),
        lambda inputs: Layers(Own(inputs), asks=("x", "groups", "sizes")),
    )


class SameThread:
    """An executor without a thread: the far device is entered in this one."""

    def __init__(self, *_: object) -> None: ...

    def submit(self, call: Callable[..., Any], *args: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(call(*args))
        return done


@pytest.fixture(autouse=True)
def _far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adam, "_device_dtype_check_for_fused", lambda *_, **__: None)  # it lists real devices
    monkeypatch.setattr(data, "ThreadPoolExecutor", SameThread)


def waits(
    objective: str, kind: str = "dcn", *, make: Callable[[], Network] | None = None, **changes: Any
) -> Counter[str]:
    """What the host waited for in some steps; they end with the bits of the same steps on the host."""
    far, near = FarDevice(), _steps(objective, kind, make, None, changes)
    with far:
        assert _steps(objective, kind, make, far, changes) == near
    return Counter(far.waits)


def _steps(
    objective: str, kind: str, make: Callable[[], Network] | None, far: FarDevice | None, changes: dict[str, Any]
) -> list[bytes]:
    members = 2 if kind == "tabm" else 1
    made = make() if make else miniature.network(objective, kind, dropout=0.1, masked=0.2, members=members)
    rows = miniature.rows(objective, 600, weighted=True)
    loss = of_members(LOSSES[objective]) if kind == "tabm" else None
    one = miniature.loop(objective, net=made.to(FAR) if far else made, train=rows, loss=loss, **changes)
    one._average.restart()
    made.train()
    torch.manual_seed(0)
    if far:
        far.waits.clear()
    for _ in range(STEPS):
        one._take_step(stop=False)
        one._state.step += 1
    weights = [each.detach() for each in (*made.parameters(), *made.body.buffers(), *one._average.tensors().values())]
    return [(each.near if isinstance(each, FarTensor) else each).numpy().tobytes() for each in weights]


@pytest.mark.parametrize(("objective", "kind"), KINDS)
def test_a_step_of_any_loss_and_kind_waits_for_nothing(objective: str, kind: str) -> None:
    assert waits(objective, kind, accumulation=2, ema=0.9) == {}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_step_in_shards_waits_for_nothing(objective: str) -> None:
    assert waits(objective, shards=2) == {}


@pytest.mark.parametrize("objective", ["binary", "ranking"])
def test_a_step_whose_table_is_on_the_device_waits_for_nothing(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "on_device", lambda table, device: copied(table, device) if device == FAR else None)
    assert waits(objective) == {}


def test_a_step_of_sgd_waits_for_nothing() -> None:
    assert waits("binary", optimizer="sgd", ema=0.9) == {}


def test_large_tables_wait_for_the_number_of_their_rows_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch counts the different rows of a sparse gradient on the device, and makes tensors of that size."""
    monkeypatch.setattr(optimizer, "LARGE", 1)
    assert waits("binary", ema=0.9) == {"_coalesce (optimizer.py, clip)": STEPS}


def test_sharded_tables_wait_for_the_numbers_of_what_they_fetch_and_of_their_rows() -> None:
    """What is exchanged has sizes that the host has to know."""

    def sharded() -> Network:
        made = miniature.network("binary", "dcn", dropout=0.1, masked=0.2)
        assert shard(made, Ranks(), smallest=1) == 1
        return made

    found = waits("binary", make=sharded, ema=0.9)
    assert found == {"index (row_tables.py, _unique)": 3 * STEPS, "_coalesce (row_tables.py, take_gradient)": STEPS}


def test_fp16_waits_for_the_norm_of_the_gradient_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a step is taken depends on it. Autocast knows no device of tests."""
    monkeypatch.setattr(Precision, "apply_to", lambda *_: None)
    assert waits("binary", precision="fp16") == {"_local_scalar_dense (precision.py, accepts)": STEPS}


def test_own_layers_with_groups_and_statistics_of_categories_wait_for_nothing() -> None:
    assert waits("ranking", make=own_network, accumulation=2) == {}


def test_a_training_waits_when_it_logs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It logs at the end of an epoch here. A save, which copies the state to the host, is left out."""
    monkeypatch.setattr(loop, "_LOG_EVERY_S", 1e9)
    monkeypatch.setattr(loop.Loop, "_save", lambda _: None)
    far = FarDevice()
    with far:
        made = miniature.network("ranking").to(FAR)
        one = miniature.loop("ranking", net=made, epochs=2)
        far.waits.clear()
        assert len(one.run().trace) == 32
    assert Counter(far.waits) == {"_to_copy (step_losses.py, _to_host)": 6}
