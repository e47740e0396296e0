"""A profile names what a training waits for, with its remedy, and changes none of its bits."""

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
import torch
from torch import Tensor

from ratchet.contracts.resuming import mathematics
from tasks.train.checkpoint import Checkpointer
from tasks.train.loop import Loop
from tasks.train.losses import LOSSES
from tasks.train.profile_page import answer
from tasks.train.profiling import COPIES, PHASES, Profile, Profiler
from tasks.train.stopping import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows

BUSY_S = 0.01


def busy(seconds: float = BUSY_S) -> None:
    """Take time of the processor."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def profiled(one: Loop, folder: Path) -> Profile:
    with Profiler(one, folder / "trace.json.gz") as profiler:
        one.run()
    assert profiler.profile is not None
    return profiler.profile


def slow_read() -> Loop:
    train = rows("binary")
    made = loop("binary", train=train)
    reader = made._passes.level
    for each in {id(found): found for found in (reader, made._passes.falling)}.values():
        each.read = delayed(each.read)  # type: ignore[method-assign]
    return made


def delayed(call: Callable[..., object]) -> Callable[..., object]:
    def slow(*values: object) -> object:
        busy()
        return call(*values)

    return slow


def huge_layer() -> Loop:
    made = network("binary")
    made.body.huge = torch.nn.Linear(2048, 2048)
    plain = made.scores

    def scores(numeric: Tensor, places: Tensor, sizes: Tensor | None) -> Tensor:
        wide = numeric[:, :1].expand(-1, 2048)
        return plain(numeric, places, sizes) + 0 * made.body.huge(wide).mean(1)

    made.scores = scores  # type: ignore[method-assign]
    return loop("binary", net=made)


def slow_loss() -> Loop:
    def slow(*values: Tensor) -> Tensor:
        busy()
        return LOSSES["binary"](*values)

    return loop("binary", loss=slow)


def tiny_cadence() -> Loop:
    class Slow(MemoryFolder):
        def put(self, name: str, data: bytes) -> None:
            Event().wait(5 * BUSY_S)  # long beside a step on a busy machine, which it does not slow down
            super().put(name, data)

    return loop("binary", checkpointer=Checkpointer(Slow(), keep=2, warn=pytest.fail), checkpoint_steps=1)


@pytest.mark.parametrize(
    ("planted", "cause", "remedy"),
    [
        (slow_read, "It waits for rows: reading them takes", "resources.train.memory"),
        (huge_layer, "It computes:", "make train.model smaller"),
        (slow_loss, "It waits for the loss:", "whole tensors"),
        (tiny_cadence, "It waits for checkpoints:", "raise train.checkpoint.every"),
    ],
)
def test_a_planted_bottleneck_is_named_with_its_remedy(
    planted: Callable[[], Loop], cause: str, remedy: str, tmp_path: Path
) -> None:
    found = profiled(planted(), tmp_path)
    said = answer(found)
    assert said.startswith(cause), found
    assert remedy in said
    if planted is huge_layer:
        assert {"aten::addmm", "aten::mm"} & {operator.name for operator in found.operators[:3]}
    assert set(found.shares) == set(PHASES)
    assert sum(share for name, share in found.shares.items() if name != COPIES) == pytest.approx(1, abs=0.02)


def test_a_profile_changes_no_bit_and_leaves_no_wrapper(tmp_path: Path) -> None:
    plain, watched = (network("binary", dropout=0.2) for _ in range(2))
    torch.manual_seed(0)
    loop("binary", net=plain, valid=rows("binary", 300)).run()
    torch.manual_seed(0)
    one = loop("binary", net=watched, valid=rows("binary", 300))
    before = {name: set(vars(part)) for name, part in vars(one).items() if hasattr(part, "__dict__")}
    found = profiled(one, tmp_path)
    assert bits(watched) == bits(plain)
    assert {name: set(vars(part)) for name, part in vars(one).items() if hasattr(part, "__dict__")} == before
    assert found.steps > 20
    assert found.shares["validation"] > 0


def test_the_trace_has_the_phases_and_the_operators_in_chromes_format(tmp_path: Path) -> None:
    found = profiled(loop("binary"), tmp_path)
    with gzip.open(tmp_path / "trace.json.gz") as file:
        events = json.load(file)["traceEvents"]
    names = [event["name"] for event in events if event.get("ph") == "X"]
    assert names.count("forward") == names.count("backward") == names.count("reading rows") == 5
    assert {"aten::addmm", "loss"} <= set(names)
    assert any(operator.name.startswith("aten::") for operator in found.operators)
    assert 0 < sum(operator.share for operator in found.operators) <= 1
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json.gz"]


def test_a_training_that_is_stopped_or_too_short_has_what_was_seen_until_then(tmp_path: Path) -> None:
    for steps, is_measured in ((30, True), (8, False), (3, False)):
        one = loop("binary", stop_after=steps)
        profiler = Profiler(one, tmp_path / "trace.json.gz")
        with pytest.raises(StopTraining), profiler:
            one.run()
        assert (profiler.profile is not None) == is_measured
    assert not any("_take_step" in vars(part) for part in (one,))


def test_a_profile_is_no_part_of_the_mathematics() -> None:
    assert mathematics({"config.train.profile": "true", "config.train.seed": "0"}) == {"config.train.seed": "0"}


PROFILED = """
import sys
from pathlib import Path
from tasks.train.profiling import Profiler
from tests.train.miniature import loop

one = loop("binary")
with Profiler(one, Path(sys.argv[1])) as profiler:
    one.run()
print(profiler.profile is not None, *(name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules))
"""


def test_a_profile_does_not_import_torchs_compiler_and_prints_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROFILED, str(tmp_path / "trace.json.gz")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "True\n"
