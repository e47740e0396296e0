"""goodput: useful time of steps / wall time of a training that is killed again and again, and ends with the same bits.

A process reads the days from a store in a folder and trains the default network, as the stage does, on one thread; a
timer kills it with SIGKILL, and the next one goes on at once from the newest checkpoint. Useful is the time of the
steps that the final weights are made of, as the training counts it: not what was taken twice, and no start.

`--full` kills every two minutes of ten, and saves every ten seconds. The quick variant kills every 20 seconds and saves
every second. It measures what a kill costs so; its ratio is that of a kill every two minutes at this cost.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path

from benchmarks.checkpoint import Folder
from benchmarks.made_up import BATCH, default_network, training
from benchmarks.measure import Result
from benchmarks.memory_train import IDS, context, write_days
from ratchet.contracts.summaries import FeatureSet
from tasks.train.checkpoint import Checkpointer
from tasks.train.days import missing, read
from tasks.train.startup import prepare

_EVERY_S = 120.0
_ROWS, _MEMORY = 200_000, 4 << 30
_MOST_KILLS = 40


def run(*, full: bool) -> Result:
    """The ratio is the share of the time that is lost, of what may be lost: a tenth."""
    kill_every, save_every, useful = (_EVERY_S, 10.0, 600.0) if full else (20.0, 1.0, 30.0)
    with tempfile.TemporaryDirectory(prefix="ratchet-") as name:
        folder = Path(name)
        features = write_days(folder, _ROWS)
        (folder / "features.json").write_text(features.model_dump_json(), encoding="utf-8")
        tried = _train(folder, "tried", steps=40, save_every=1e9)
        steps = int(useful / tried["seconds"] * 40)
        whole = _train(folder, "whole", steps=steps, save_every=1e9)
        begin = time.perf_counter()
        kills = 0
        while (found := _train(folder, "killed", steps=steps, save_every=save_every, limit=kill_every)) == {}:
            kills += 1
            if kills > _MOST_KILLS:
                raise RuntimeError(
                    f"{kills} tries of {kill_every:.0f} s did not end the training: the machine is too busy"
                )
        wall = time.perf_counter() - begin
    if found["digest"] != whole["digest"]:
        raise RuntimeError("the weights of the training that was killed have other bits")
    lost = (wall - found["seconds"]) / (kills + 1)  # each try begins once, also the last one
    goodput = found["seconds"] / wall if full else 1 - lost / _EVERY_S
    return Result(
        name="goodput",
        ratio=(1 - goodput) / 0.1,
        goal=1.0,
        unit="of what may be lost, a tenth of the time",
        ours=goodput,
        peer=0.9,
        peer_name="useful time / wall time, at least",
        rows=(
            ("steps; kills", f"{steps:,}; {kills}, every {kill_every:.0f} s; the same bits as without"),
            (
                "wall time; useful",
                f"{wall:.1f} s; {found['seconds']:.1f} s: {found['seconds'] / wall:.3f} as it was run",
            ),
            ("the same steps, not disturbed", f"{whole['seconds']:.1f} s"),
            ("a kill costs, with a save every", f"{lost:.1f} s, {save_every:.0f} s"),
            ("useful / wall, with a kill every two minutes", f"{goodput:.3f}"),
        ),
    )


def _train(folder: Path, name: str, *, steps: int, save_every: float, limit: float | None = None) -> dict[str, float]:
    """What a training says at its end; nothing if it was killed after `limit` seconds."""
    given = json.dumps({"name": name, "steps": steps, "save_every": save_every})
    call = [sys.executable, "-m", "benchmarks.goodput", str(folder), given]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            return {}
    if process.returncode:
        raise RuntimeError(f"a training ended with {process.returncode}")
    ended: dict[str, float] = json.loads(said)
    return ended


def _main(folder: Path, name: str, steps: int, save_every: float) -> None:
    prepare(seed=0, cpus=1, gpus=0)
    features = FeatureSet.model_validate_json((folder / "features.json").read_text(encoding="utf-8"))
    network = default_network(features.numeric, features.categorical, IDS)
    with tempfile.TemporaryDirectory(dir=folder) as disk:
        ctx = context(folder, Path(disk), features, _MEMORY, StringIO())
        rows = read(ctx, network, features, features.split.train, features.split.valid)
        network.preprocess.flagged.copy_(missing(rows))
        (folder / name).mkdir(exist_ok=True)
        checkpointer = Checkpointer(Folder(folder / name), keep=2, warn=lambda text: print(text, file=sys.stderr))
        result = training(
            network,
            rows,
            checkpointer=checkpointer,
            batch_size=BATCH,
            steps=steps,
            epochs=steps,
            checkpoint_every_s=save_every,
        ).run()
    weights = b"".join(tensor.numpy().tobytes() for tensor in network.state_dict().values())
    seconds = sum(each.seconds for each in result.history)
    print(json.dumps({"digest": hashlib.sha256(weights).hexdigest(), "seconds": seconds}))


if __name__ == "__main__":
    options = json.loads(sys.argv[2])
    _main(Path(sys.argv[1]), options["name"], options["steps"], options["save_every"])
