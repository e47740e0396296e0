"""What training promises on a GPU. Where there is none, these tests are skipped."""

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ratchet.contracts.errors import ConfigurationError
from tasks.train import optimizer, passes
from tasks.train.heartbeat import Heartbeat
from tasks.train.profiling import COPIES, PHASES, Profiler
from tasks.train.ranks import Ranks
from tasks.train.row_tables import shard
from tests.train.miniature import network, rows
from tests.train.on_gpu import CPU, GPU, NEEDS_GPU, as_a_training_begins, close, losses, made
from tests.train.test_trial import tried

__all__ = ["as_a_training_begins"]
pytestmark = NEEDS_GPU
OBJECTIVES = ("ranking", "binary", "regression", "multiclass")
KINDS = [*((objective, kind) for objective in OBJECTIVES for kind in ("dcn", "tabm")), ("ranking", "set")]
WAYS: dict[str, dict[str, Any]] = {
    "whole": {},
    "micro-batches": {"accumulation": 4},
    "shards": {"shards": 2},
    "average": {"ema": 0.9},
    "sgd": {"optimizer": "sgd"},
    "again": {"recompute": True},
}


@pytest.mark.parametrize(("objective", "kind"), KINDS)
def test_the_losses_of_the_steps_are_those_of_a_cpu(objective: str, kind: str) -> None:
    close(made(objective, kind, epochs=2).run(), made(objective, kind, device=CPU, epochs=2).run(), within=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_compute_a_step_has_the_losses_of_a_cpu(way: str) -> None:
    valid = rows("binary", 300, seed=5)
    changes = {"epochs": 2, "valid": valid, **WAYS[way]}
    close(made(**changes).run(), made(device=CPU, **changes).run(), within=1e-3)


def test_large_tables_have_the_losses_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "LARGE", 1)
    close(made(epochs=2, ema=0.9).run(), made(device=CPU, epochs=2, ema=0.9).run(), within=1e-3)


@pytest.mark.parametrize(("precision", "within"), [("tf32", 0.01), ("bf16", 0.03), ("fp16", 0.03)])
@pytest.mark.parametrize("kind", ["dcn", "tabm"])
def test_each_precision_trains(kind: str, precision: str, within: float) -> None:
    exact, found = made(kind=kind).run(), made(kind=kind, precision=precision).run()
    assert [each.precision for each in found.segments] == [precision]
    assert losses(found)[-16:].mean() < 0.8 * losses(found)[:4].mean()
    close(found, exact, within)
    assert not np.array_equal(losses(found), losses(exact))  # it was rounded
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("objective", ["binary", "regression", "multiclass"])
@pytest.mark.parametrize("kind", ["dcn", "tabm"])
def test_recorded_steps_are_those_that_are_computed_one_kernel_at_a_time(objective: str, kind: str) -> None:
    """With the same random numbers, also afterwards, and while the learning rate falls."""
    warnings = list[str]()
    one, plain = (made(objective, kind, random=True, warnings=warnings) for _ in range(2))
    plain._computation.graphs = None
    graphs = one._computation.graphs
    torch.manual_seed(1)
    found, drawn = one.run(), torch.rand(1, device=GPU)
    torch.manual_seed(1)
    close(found, plain.run(), within=1e-4)
    assert torch.equal(drawn, torch.rand(1, device=GPU))
    assert graphs is not None
    assert len(graphs._graphs) >= 1
    assert warnings == []


@pytest.mark.parametrize("spoilt_by", ["a wait", "memory"])
def test_a_step_that_cannot_be_recorded_is_computed_all_the_same(
    spoilt_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings = list[str]()
    one, plain = made(random=True, warnings=warnings), made(random=True)
    plain._computation.graphs = None
    backward = one._computation.backward

    def spoilt(*given: Any) -> Tensor:
        loss = backward(*given)
        if torch.cuda.is_current_stream_capturing():
            return loss + float(loss) if spoilt_by == "a wait" else torch.empty(1 << 50, device=GPU)
        return loss

    monkeypatch.setattr(one._computation.graphs, "_backward", spoilt)
    torch.manual_seed(1)
    found = one.run()
    torch.manual_seed(1)
    close(found, plain.run(), within=1e-4)
    assert len(warnings) == 1
    assert warnings[0].startswith("steps are not recorded for the GPU")
    torch.cuda.empty_cache()  # the memory is whole again


@pytest.mark.parametrize("where", ["device", "host"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_between_two_log_points_the_host_waits_for_nothing(
    objective: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "host":
        monkeypatch.setattr(passes, "on_device", lambda *_: None)
    one = made(objective, random=True, train=rows(objective, 2000, weighted=objective == "binary"), epochs=3)
    one._network.train()
    one._average.restart()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(12):
            one._take_step(stop=False)
            one._state.step += 1
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("objective", ["ranking", "binary"])
def test_rows_on_the_device_are_those_of_the_host(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"train": rows(objective, 2000, weighted=True), "valid": rows(objective, 300, seed=5)}
    there = made(objective, random=True, **given).run()
    monkeypatch.setattr(passes, "on_device", lambda *_: None)
    close(there, made(objective, random=True, **given).run(), within=1e-5)


@pytest.mark.parametrize("stopped", [3, 20, 40])
def test_a_training_that_is_killed_goes_on_from_its_checkpoint(stopped: int, tmp_path: Path) -> None:
    program = """
import os, signal, sys, json
from pathlib import Path
import torch
from tasks.train.checkpoint import Checkpointer
from tasks.train.startup import prepare
from tests.train.miniature import loop, network
from tests.train.one_rank import FilesFolder
prepare(seed=0, cpus=1, gpus=1)
after, polls = int(sys.argv[2]), iter(range(10**9))
def poll():
    if next(polls) == after:
        os.kill(os.getpid(), signal.SIGKILL)
    return False
checkpointer = Checkpointer(FilesFolder(Path(sys.argv[1])), keep=2, warn=print)
net = network("binary", "dcn", dropout=0.2, masked=0.2).to("cuda")
torch.manual_seed(7)
found = loop("binary", net=net, checkpointer=checkpointer, stopping=poll, checkpoint_steps=2).run()
print(json.dumps([found.resumed_from, found.trace[:, 0].tolist()]))
"""

    def run(folder: str, after: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / folder), str(after)]
        return subprocess.run(command, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[2])

    assert run("killed", stopped).returncode == -signal.SIGKILL
    again, whole = run("killed", -1), run("whole", -1)
    assert again.returncode == 0, again.stderr
    (step, resumed), (_, undisturbed) = json.loads(again.stdout), json.loads(whole.stdout)
    assert (step or 0) >= stopped - 4
    assert np.allclose(resumed, undisturbed, rtol=1e-4, atol=1e-6)


def test_a_table_that_is_sharded_over_one_gpu_trains_as_a_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "LARGE", 1)
    whole = made(epochs=2).run()
    values = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}
    for name, value in {**values, "MASTER_PORT": "29531"}.items():
        monkeypatch.setenv(name, value)
    with Ranks.join(Heartbeat(), device=GPU) as ranks:
        total = torch.ones(3, device=GPU)
        ranks._add_others(total)  # by NCCL
        assert total.tolist() == [1.0] * 3
        net = network("binary", "dcn", dropout=0.0, masked=0.0)
        assert shard(net, ranks, smallest=1) == 1
        close(made(net=net, ranks=ranks, epochs=2).run(), whole, within=1e-4)


def test_a_profile_has_the_phases_kernels_and_copies_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "on_device", lambda *_: None)
    one = made(random=True, epochs=5)
    with Profiler(one, tmp_path / "trace.json.gz") as profiler:
        one.run()
    found = profiler.profile
    assert found is not None
    assert found.shares[COPIES] > 0
    assert sum(found.shares[phase] for phase in PHASES if phase != COPIES) == pytest.approx(1, abs=0.01)
    assert max(found.shares[phase] for phase in ("forward", "backward", "update")) > 0.05
    trace = gzip.decompress((tmp_path / "trace.json.gz").read_bytes()).decode()
    assert "Memcpy HtoD" in trace


def test_own_layers_that_fail_in_the_precision_of_a_gpu_are_refused_before_a_day_is_read(tmp_path: Path) -> None:
    body = "x.new_zeros(len(x), 1).index_add(0, torch.arange(len(x), device=x.device), self.layer(x))"
    tried(tmp_path, body=body, device=GPU)
    with pytest.raises(ConfigurationError, match=r"^model\.py:10: RuntimeError: index_add_\(\): "):
        tried(tmp_path, body=body, device=GPU, precision="bf16")
