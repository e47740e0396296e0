"""memory-train: the most memory of a process that trains on 100 million rows of ten columns; 8 GiB are allowed.

Twenty made-up days in a store in a folder: five numbers, five categories, a label. The process reads them as the stage
does, with resources.train.memory as allowed, and trains the default network for some steps. Its memory counts with the
pages of mapped files, and without the kernel's cache. The quick variant has a tenth of the rows and of what is allowed.
"""

import json
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.made_up import default_network, seconds_of_a_step
from benchmarks.measure import Result
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import StageRequest
from ratchet.contracts.result import Artifact
from ratchet.contracts.summaries import FeatureDay, FeatureSet, Split
from ratchet.runtime.context import StageContext
from ratchet.runtime.logs import StageLog
from ratchet.store.artifacts import sha256_file
from ratchet.store.file import FileStore
from ratchet.store.publishing import Transaction
from tasks.train.days import missing, read
from tasks.train.startup import prepare

_DAYS, _COLUMNS, _STEPS = 20, 5, 100
IDS = 1000
"""Of each column of categories, from 1 on."""
_CLICKED = 0.1
_FIRST = date(2026, 1, 1)
_MEMORY = 8 << 30


def run(*, full: bool) -> Result:
    """Once: it takes minutes at full size."""
    rows, allowed = (100_000_000, _MEMORY) if full else (10_000_000, _MEMORY // 10)
    with tempfile.TemporaryDirectory(prefix="ratchet-") as folder:
        features = write_days(Path(folder), rows)
        (Path(folder) / "features.json").write_text(features.model_dump_json(), encoding="utf-8")
        call = [sys.executable, "-m", "benchmarks.memory_train", folder, str(allowed)]
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    peak = found["peak"] / 2**30
    return Result(
        name="memory-train",
        ratio=peak / (allowed / 2**30),
        goal=1.0,
        unit="of what is allowed",
        ours=peak,
        peer=allowed / 2**30,
        peer_name="allowed, GiB",
        rows=(
            ("rows; steps", f"{rows:,}; {_STEPS}"),
            (
                "the most memory",
                f"{peak:.2f} GiB; {found['anonymous'] / 2**30:.2f} GiB at the end without mapped files",
            ),
            ("to read the days; a step", f"{found['reading']:.1f} s; {1000 * found['step']:.1f} ms"),
            ("where", found["where"]),
        ),
    )


def write_days(folder: Path, rows: int) -> FeatureSet:
    """Write encoded days to the store in a folder."""
    store, days = FileStore(folder / "store"), []
    for number in range(_DAYS):
        draw, count = np.random.default_rng(number), rows // _DAYS
        arrays: dict[str, NDArray[Any]] = {
            "numeric": draw.standard_normal((count, _COLUMNS), np.float32),
            "categorical": draw.integers(1, IDS + 1, (count, _COLUMNS)),
            "label": (draw.random(count, np.float32) < _CLICKED).astype(np.float32),
        }
        files = {}
        for name, array in arrays.items():
            path = folder / "array.npy"
            np.save(path, array)
            key = f"{number}/{name}.npy"
            files[name] = Artifact(key=key, sha256=sha256_file(path), bytes=path.stat().st_size)
            store.upload(path, key)
            path.unlink()
        days.append(FeatureDay(day=_FIRST + timedelta(days=number), rows=count, arrays=files))
    dates = tuple(day.day for day in days)
    names = [f"{kind}{number}" for kind in "xc" for number in range(_COLUMNS)]
    return FeatureSet(
        numeric=tuple(names[:_COLUMNS]),
        categorical=tuple(names[_COLUMNS:]),
        days=tuple(days),
        split=Split(train=dates[:-1], valid=dates[-1:], holdout=()),
    )


def context(folder: Path, disk: Path, features: FeatureSet, memory: int, log: StringIO) -> StageContext:
    """What days are read by from the store in a folder. disk: an empty folder. memory: resources.train.memory."""
    numbers, ids = features.numeric, features.categorical
    spec = PipelineSpec.model_validate(
        {
            "name": "memory",
            "source": {"kind": "files", "uri": "rows/{date}.parquet", "window_days": _DAYS},
            "columns": {
                **{name: {"role": "numeric", "type": "float64"} for name in numbers},
                **{name: {"role": "categorical", "type": "int64"} for name in ids},
                "label": {"role": "label", "type": "int64"},
            },
            "train": {"objective": "binary"},
            "evaluate": {"metric": "auc"},
            "resources": {"train": {"cpus": 1, "memory": f"{memory >> 20}m"}},
        }
    )
    only: dict[str, Any] = {"spec": spec}  # of a request, to read days takes the pipeline alone
    store = FileStore(folder / "store")
    return StageContext(
        request=StageRequest.model_construct(**only),
        store=store,
        scratch=disk,
        disk=disk,
        folder=disk,
        log=StageLog("train", log),
        transaction=Transaction(store, "nothing", "one"),
    )


def _train(folder: Path, memory: int) -> dict[str, float | str]:
    """Read the days and train, as the stage does. Returns bytes of memory and seconds."""
    features = FeatureSet.model_validate_json((folder / "features.json").read_text(encoding="utf-8"))
    device, log = prepare(seed=0, cpus=1, gpus=0), StringIO()
    network = default_network(features.numeric, features.categorical, IDS)
    with tempfile.TemporaryDirectory(dir=folder) as disk:
        ctx = context(folder, Path(disk), features, memory, log)
        begin = time.perf_counter()
        rows = read(ctx, network, features, features.split.train, features.split.valid)
        network.preprocess.flagged.copy_(missing(rows))
        reading = time.perf_counter() - begin
        seconds = seconds_of_a_step(network.to(device), rows, steps=_STEPS)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return {
        "peak": float(status["VmHWM"].split()[0]) * 1024,
        "anonymous": float(status["RssAnon"].split()[0]) * 1024,
        "reading": reading,
        "step": seconds,
        "where": json.loads(log.getvalue().splitlines()[0])["message"],
    }


if __name__ == "__main__":
    print(json.dumps(_train(Path(sys.argv[1]), int(sys.argv[2]))))
