"""What makes a training start sooner changes none of its bits."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from ratchet.contracts.errors import ConfigurationError
from tasks.train.startup import AdamW, prepare
from tests.train.miniature import bits, network, rows


@pytest.fixture(autouse=True)
def torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_DETERMINISTIC", "0")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    before = torch.get_deterministic_debug_mode()
    yield
    torch.set_deterministic_debug_mode(before)


def trained(kind: type[torch.optim.AdamW]) -> dict[str, bytes]:
    net, batch = network("binary"), rows("binary", 128)
    optimizer = kind(net.parameters(), lr=1e-2, weight_decay=0.1, fused=True)
    for _ in range(20):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            net.scores(batch.numeric, batch.places), batch.label
        )
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
    return bits(net)


def test_adamw_takes_the_steps_of_torchs_adamw_to_the_bit() -> None:
    assert trained(AdamW) == trained(torch.optim.AdamW)


def test_preparing_and_a_first_step_do_not_import_torchs_compiler() -> None:
    program = """
import sys, torch
from tasks.train.rows_optimizer import RowsAdam
from tasks.train.startup import AdamW, prepare
prepare(seed=0, cpus=1, gpus=0)
weight = torch.nn.Parameter(torch.ones(1))
optimizer = AdamW([weight], fused=True)
weight.sum().backward()
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
optimizer.zero_grad()
table = torch.nn.Embedding(3, 2, sparse=True)
rows = RowsAdam(table.parameters(), lr=0.1, eps=1e-3, factor=1.0)
rows.zero_grad()
table(torch.tensor([1])).sum().backward()
rows.step()
rows.load_state_dict(rows.state_dict())
print(*(name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_prepare_sets_seed_threads_and_determinism() -> None:
    assert prepare(seed=3, cpus=1.6, gpus=0) == torch.device("cpu")
    assert torch.initial_seed() == 3
    assert torch.get_num_threads() == 2
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_deterministic_debug_mode() == 2  # an error, not a warning


@pytest.mark.skipif(torch.cuda.is_available(), reason="this host has a GPU")
def test_a_gpu_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"resources\.train\.gpus is 2, but this host has no GPU"):
        prepare(seed=0, cpus=1, gpus=2)
