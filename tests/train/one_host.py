"""`python -m tests.train.one_host OPTIONS`: one of the ranks that the environment names. It takes rows from the first rank
of its host, and prints what it has.

OPTIONS is JSON: the folder of a table on a disk, if it is not to be in memory; dies, whether rank 0 dies while it reads.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tasks.train.data import Rows
from tasks.train.disk_table import DiskBuilder
from tasks.train.heartbeat import Heartbeat
from tasks.train.host_table import read_once
from tasks.train.joining import join
from tasks.train.ranks import RankLost, Ranks
from tasks.train.table import Builder, Layout
from tests.train.miniature import rows

ROWS = 3000


def joined(build: Callable[[Layout, int], Builder]) -> Rows:
    """Rows with groups, in two blocks, at other places."""
    blocks = [rows("ranking", ROWS // 2, seed=seed, weighted=True) for seed in (1, 2)]
    return join(blocks, np.arange(ROWS, dtype=np.int32)[::-1].copy(), build=build)


def digest(made: Rows) -> str:
    """Of all that the rows hold."""
    parts = (made.numeric, made.places, made.label, made.weight, made.sizes, made.number)
    return sha256(b"".join(part.contiguous().numpy().tobytes() for part in parts if part is not None)).hexdigest()


def main(options: dict[str, Any]) -> None:
    read = list[bool]()
    with Ranks.join(Heartbeat(), device=torch.device("cpu")) as ranks:

        def joined_here(build: Callable[[Layout, int], Builder]) -> Rows:
            read.append(True)
            if "folder" in options:
                return joined(partial(DiskBuilder, folder=Path(options["folder"])))
            made = joined(build)
            if options.get("dies"):
                os._exit(0)
            return made

        try:
            made = read_once(ranks, joined_here)
        except RankLost:
            sys.stdout.write(json.dumps("lost"))
            return
        assert made.table is not None
        maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        address = made.table.words.data_ptr()
        (mapped,) = (
            line for line in maps if int(line.split("-")[0], 16) <= address < int(line.split("-")[1].split(" ")[0], 16)
        )
        found = {
            "read": bool(read),
            "digest": digest(made),
            "rights": mapped.split()[1],
            "inode": mapped.split()[4],
            "file": made.table.file is not None,
            "left": len(list(Path(options["folder"]).iterdir())) if "folder" in options else 0,
        }
        sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
