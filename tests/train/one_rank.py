"""`python -m tests.train.one_rank OPTIONS`: a training in miniature, as one of the ranks that the environment names, or by
itself. The first rank prints its losses, the digest of its weights, and how its steps were computed.

OPTIONS is JSON: kind of training; shards, or one for each rank; folder of checkpoints; stop_after, the steps after which
the last rank receives a notice to stop; segments to repeat; seed; settings, further ones of the loop.
"""

import json
import logging
import os
import sys
from contextlib import nullcontext
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ratchet.model.description import Architecture, CategoricalColumn, Description
from ratchet.model.layers import Layers
from ratchet.model.networks import Network
from tasks.train.checkpoint import Checkpointer
from tasks.train.heartbeat import Heartbeat
from tasks.train.ranks import RankDone, Ranks
from tasks.train.settings import Segment
from tasks.train.stopping import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows

LARGE = 100_000


class FilesFolder(MemoryFolder):
    """A CheckpointFolder of files."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.files = {path.name: path.read_bytes() for path in folder.iterdir()}

    def put(self, name: str, data: bytes) -> None:
        super().put(name, data)
        (self.folder / name).write_bytes(data)


class Normed(nn.Sequential):
    """Layers with a batch norm, whose buffers change in each step, and dropout."""

    def __init__(self, inputs: int) -> None:
        super().__init__(nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))


def made(kind: str) -> Network:
    """A network: `table` has one whose vectors have gradients of some rows only."""
    net = network("ranking" if kind == "ranking" else "binary", dropout=0.2)
    if kind not in ("table", "normed"):
        return net
    torch.manual_seed(0)
    vocabulary = LARGE if kind == "table" else 10
    described = Description(
        objective="binary",
        numeric=(),
        categorical=(CategoricalColumn(name="c", type="int64", vocabulary=vocabulary, dimension=4),),
        derived={},
        architecture=Architecture(
            kind="mlp", hidden=(16,), cross_layers=2, dropout=0.2, bins=0, number_dim=0, masked=0.01, skip=True
        ),
        classes=1,
    )
    return Network(described, (lambda inputs: Layers(Normed(inputs))) if kind == "normed" else None)


def main(options: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    kind, stop_after = options["kind"], options.get("stop_after")
    segments = tuple(Segment(**each) for each in options.get("segments", ()))
    several = "RANK" in os.environ
    with Ranks.join(Heartbeat(), device=torch.device("cpu")) if several else nullcontext(Ranks()) as ranks:
        net = made(kind)
        for weight in net.parameters():  # as code that draws by itself in each process
            weight.data.add_(ranks.rank)
        objective = "ranking" if kind == "ranking" else "binary"
        train, valid = rows(objective), rows(objective, 300, seed=5)
        if kind in ("table", "normed"):
            train, valid = (replace(each, numeric=each.numeric[:, :0]) for each in (train, valid))
        torch.manual_seed(options.get("seed", ranks.rank))  # what a rank draws by itself must not matter
        folder = FilesFolder(Path(options["folder"])) if "folder" in options else MemoryFolder()
        one = loop(
            objective,
            net=net,
            train=train,
            valid=valid,
            ranks=ranks,
            stop_after=stop_after if ranks.rank == ranks.size - 1 else None,
            checkpointer=Checkpointer(folder, keep=2, warn=logging.getLogger(__name__).warning),
            batch_size=256,
            epochs=3,
            shards=options.get("shards"),
            segments=segments,
            **options.get("settings", {}),
        )
        try:
            result = one.run()
        except StopTraining:
            sys.stdout.write(json.dumps("stopped"))
            return
        except RankDone:
            return
        if ranks.is_first:
            found = {
                "losses": [each.loss for each in result.history],
                "digest": sha256(b"".join(bits(net).values())).hexdigest(),
                "resumed_from": result.resumed_from,
                "segments": [asdict(each) for each in result.segments],
            }
            sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
