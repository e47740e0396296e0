"""`python -m tests.train.one_rank OPTIONS`: a training in miniature, as one of the ranks that the environment names, or by
itself. The first rank prints its losses, the digest of its weights, and how its steps were computed.

OPTIONS is JSON, of a training or of several in turn: kind of training; shards, or one for each rank; folder of checkpoints; stop_after, the steps after which
the last rank receives a notice to stop; segments to repeat; seed; settings, further ones of the loop; sharded, whether its table is sharded by row;
largest_gradient, the norm to which a larger one is clipped; full_for, how the names of files begin for which the last
rank has no room; damaged, the rank of whose newest file a bit is changed before.
"""

import errno
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
from tasks.train import loop as loop_module
from tasks.train.checkpoint import Checkpointer
from tasks.train.heartbeat import Heartbeat
from tasks.train.ranks import RankDone, Ranks
from tasks.train.row_tables import row_tables, shard, unshard
from tasks.train.settings import Segment
from tasks.train.stopping import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows

LARGE = 100_000


class FilesFolder(MemoryFolder):
    """A CheckpointFolder of files, which all ranks see."""

    def __init__(self, folder: Path, *, full_for: str = "") -> None:
        """full_for: how the names of files begin for which there is no room."""
        super().__init__()
        self.folder, self.full_for = folder, full_for
        folder.mkdir(exist_ok=True)

    def put(self, name: str, data: bytes) -> None:
        if self.full_for and name.startswith(self.full_for):
            raise OSError(errno.ENOSPC, "no room")
        (self.folder / name).write_bytes(data)

    def get(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def names(self) -> list[str]:
        return [path.name for path in self.folder.iterdir()]

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


def damage(folder: Path, rank: int) -> None:
    """Change a bit of what a rank has written of the newest checkpoint."""
    newest = json.loads(max(folder.glob("step-*.json")).read_bytes())
    file = folder / newest["content"]["ranks"][rank - 1]["state"]["files"][-1]["name"]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


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


def main(given: dict[str, Any] | list[dict[str, Any]]) -> None:
    torch.set_num_threads(1)
    several = "RANK" in os.environ
    with Ranks.join(Heartbeat(), device=torch.device("cpu")) if several else nullcontext(Ranks()) as ranks:
        made = [train(options, ranks) for options in (given if isinstance(given, list) else [given])]
    if ranks.is_first:
        sys.stdout.write(json.dumps(made if isinstance(given, list) else made[0]))


def train(options: dict[str, Any], ranks: Ranks) -> Any:
    """What the first rank says of a training."""
    kind, stop_after = options["kind"], options.get("stop_after")
    objective = "ranking" if kind == "ranking" else "binary"
    net = made(kind)
    if options.get("sharded"):
        assert shard(net, ranks, smallest=LARGE) == 1
    own = {id(table.weight) for table in row_tables(net)}
    for weight in net.parameters():  # as code that draws by itself in each process
        weight.data.add_(ranks.rank * (id(weight) not in own))
    train, valid = rows(objective), rows(objective, 300, seed=5)
    if kind in ("table", "normed"):
        train, valid = (replace(each, numeric=each.numeric[:, :0]) for each in (train, valid))
    torch.manual_seed(options.get("seed", ranks.rank))  # what a rank draws by itself must not matter
    if "damaged" in options:
        if ranks.is_first:
            damage(Path(options["folder"]), options["damaged"])
        ranks.gather(None)  # not before the file is as it is
    full_for = options.get("full_for", "") if ranks.rank == ranks.size - 1 else ""
    folder = FilesFolder(Path(options["folder"]), full_for=full_for) if "folder" in options else MemoryFolder()
    one = loop(
        objective,
        net=net,
        train=train,
        valid=valid,
        ranks=ranks,
        stop_after=stop_after if ranks.rank == ranks.size - 1 else None,
        checkpointer=Checkpointer(folder, keep=2, warn=logging.getLogger(__name__).warning, part_bytes=1 << 18),
        **{"batch_size": 256, "epochs": 3, "shards": options.get("shards"), **options.get("settings", {})},
        segments=tuple(Segment(**each) for each in options.get("segments", ())),
    )
    largest = loop_module._LARGEST_GRADIENT
    loop_module._LARGEST_GRADIENT = options.get("largest_gradient", largest)
    try:
        result = one.run()
    except StopTraining:
        return "stopped"
    except RankDone:
        return None
    finally:
        loop_module._LARGEST_GRADIENT = largest
    tensors = [each for each in one._state.state_dict().values() if isinstance(each, torch.Tensor)]
    numbers = sum(each.numel() for each in tensors if each.is_floating_point())
    unshard(net)
    return {
        "losses": [each.loss for each in result.history],
        "digest": sha256(b"".join(bits(net).values())).hexdigest(),
        "resumed_from": result.resumed_from,
        "segments": [asdict(each) for each in result.segments],
        "numbers": numbers,
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
