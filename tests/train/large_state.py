"""`python -m tests.train.large_state STORE FOLDER MIB PART_MIB` saves a state of so many MiB twice and reads it.

It prints the bytes of the state, and the most bytes of memory that saving took above the training's own.
"""

import json
import sys
from pathlib import Path

import pytest
import torch

from ratchet.store.checkpoint_folder import StoreCheckpointFolder
from ratchet.store.opening import open_store
from tasks.train.checkpoint import Checkpoint, Checkpointer
from tests.shop import Shop

MIB = 1 << 20


def main() -> None:
    uri, folder, size, part = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    store = open_store(uri)
    store.prepare()
    asked = Shop.make(store, folder / "scratch").request("train", attempt="one")
    files = StoreCheckpointFolder(store, asked, folder)
    names = ("model.a", "optimizer.0.exp_avg", "optimizer.0.exp_avg_sq", "model.b")
    state = {name: torch.full((size * MIB // 16 // 64, 64), 1.0) for name in names}
    checkpointer = Checkpointer(files, keep=1, warn=pytest.fail, part_bytes=part * MIB)
    checkpointer.save(Checkpoint(step=1, state={"small": torch.ones(1)}))  # loads what writing needs
    checkpointer.wait()
    Path("/proc/self/clear_refs").write_text("5")  # from here on the peak is counted
    before = memory("VmRSS")
    for step in (2, 3):
        checkpointer.save(Checkpoint(step=step, state=state))
        checkpointer.wait_for_copy()
        for tensor in state.values():
            tensor.add_(1)
    assert checkpointer.close() is None
    most = memory("VmHWM") - before
    del checkpointer
    found = Checkpointer(files, keep=1, warn=pytest.fail).newest()
    assert found is not None
    assert all(bool((found.state[name] == 2).all()) for name in names)
    stored = sum(entry.bytes for entry in store.list("checkpoints"))
    json.dump({"state": size * MIB, "stored": stored, "memory": most}, sys.stdout)


def memory(field: str) -> int:
    """Bytes of this process's memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main()
