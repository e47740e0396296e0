"""Make the store of a release for the corpus, and pack its code: `python -m tests.releases.make_store FOLDER`.

That is done before the release is tagged, in its checkout. FOLDER must not exist. It is written into documents, so take
a neutral one, such as /srv/example. Takes some minutes. The next release has its stores read by the code packed here.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.checkout import ROOT
from ratchet.cli.main import main
from ratchet.contracts import left_paths, paths
from ratchet.contracts.release_number import RELEASE
from ratchet.outbox.incidents import join
from ratchet.outbox.letter import Letter
from ratchet.outbox.lost_letters import lost_letters
from ratchet.outbox.outbox import Outbox
from ratchet.runners.runner import Engine
from ratchet.runs.answers import record_answer
from ratchet.runs.history import plan_of, runs_of
from ratchet.runs.index_mending import renew_index
from ratchet.runs.known_hosts import mark_host
from ratchet.runs.left_elsewhere import leave
from ratchet.runs.outcomes import outcomes
from ratchet.runs.requests import compose
from ratchet.store.base import Store
from ratchet.store.lease import Waiter, new_lease
from ratchet.store.opening import open_store
from ratchet.store.place import Place

HERE = "here"
"""The installation."""
AT = datetime(2026, 3, 20, 6, tzinfo=UTC)
FIRST = date(2026, 3, 10)
DAYS = 9
PIPELINE = """
name: shop
source: {{kind: files, uri: "{data}/{{date}}.parquet", window_days: 4}}
columns:
  user: {{role: id, type: int64}}
  price: {{role: numeric, type: float64, max: 100}}
  kind: {{role: categorical, type: string}}
  plan: {{role: categorical, type: string}}
  at: {{role: time, type: timestamp}}
  bought: {{role: label, type: int64}}
joins:
  users:
    source: {{kind: files, uri: "{data}/users-{{date}}.parquet", missing_days: skip}}
    "on": [user]
    time: updated_at
    within: 30d
    columns: [plan]
validate: {{volume: null}}
train: {{objective: binary, refit: true, epochs: 3, learning_rate: 0.03, model: {{kind: mlp, hidden: [4]}}}}
gate: {{min_gain: 0.1%, confidence: 0.5}}
resources: {{train: {{cpus: 1}}}}
"""


def rows(day: date, count: int = 300) -> pa.Table:
    """What is bought depends on the price and the kind."""
    draw = np.random.default_rng(day.toordinal())
    price, kind = draw.normal(size=count), draw.integers(0, 3, count)
    bought = (draw.random(count) < 1 / (1 + np.exp(-3 * price - kind))).astype(np.int64)
    user = draw.integers(0, 50, count)
    noon = datetime.combine(day, datetime.min.time()) + timedelta(hours=12)
    kinds, at = [f"k{one}" for one in kind], pa.array([noon] * count, pa.timestamp("us"))
    return pa.table({"user": user, "price": price, "kind": kinds, "at": at, "bought": bought})


def deliver(folder: Path, day: date) -> None:
    """Write the files of a day, with the same times whenever they are unpacked."""
    since = pa.array([datetime.combine(day, datetime.min.time()) + timedelta(hours=1)] * 50, pa.timestamp("us"))
    plans = ["free" if one % 3 else "paid" for one in range(50)]
    users = pa.table({"user": list(range(50)), "plan": plans, "updated_at": since})
    for name, table in ((f"{day}.parquet", rows(day)), (f"users-{day}.parquet", users)):
        pq.write_table(table, folder / name)
        at = datetime.combine(day, datetime.min.time(), UTC).timestamp()
        os.utime(folder / name, (at, at))


def make(folder: Path) -> None:
    """The nights: the first model, more of them, a refused day that is let in, a run as of then, a rebuild, a hold, a purge."""
    data, pipeline, store = folder / "data", folder / "shop", str(folder / "store")
    for place in (data, pipeline):
        place.mkdir(parents=True)
    (pipeline / "pipeline.yaml").write_text(PIPELINE.format(data=data), encoding="utf-8")
    days = [FIRST + timedelta(days=number) for number in range(DAYS)]
    for day in days:
        deliver(data, day)
    bad = data / f"{days[6]}.parquet"
    pq.write_table(rows(days[6]).set_column(1, "price", pa.array(np.full(300, 200.0))), bad)
    os.utime(bad, (1773100000, 1773100000))
    who = ("--by", "Ada", "--because", "an example", "--store", store)

    def call(*words: str, ends: int = 0) -> None:
        assert main(words) == ends, words

    def night(day: date, *more: str, ends: int = 0) -> None:
        call("run", str(pipeline), "--date", str(day), "--store", store, "--runner", "process", *more, ends=ends)

    night(days[4])
    night(days[5])
    night(days[6], ends=65)
    call("data", "accept", "shop", str(days[6]), *who)
    night(days[5], "--as-of", "then", "--promote", "never")
    call("reproduce", "shop@1", "--store", store, "--runner", "process")
    call("hold", "shop", "--because", "an example", "--store", store)
    call("release", "shop", "--because", "an example", "--store", store)
    call(
        "data",
        "purge",
        "shop",
        "--column",
        "user",
        "--value",
        "7",
        "--because",
        "an example",
        "--store",
        store,
        "--yes",
    )
    leave_what_servers_write(open_store(store), days[5])


def leave_what_servers_write(store: Store, day: date) -> None:
    """The index, a lease whose container may live, the mark of a host, a job that was left to the follower of that host,
    a person's answers, an alert that waits, and one that reached nobody."""
    assert renew_index(store, "shop")
    engine = Engine("gpu-1/1", "gpu-1")
    mark_host(store, HERE, engine, 2)
    lease = paths.lease("shop", "train", "0" * 64)
    hold = Waiter(store, lease, new_lease("local-1", "try1", installation=HERE), engine=engine.id).take()
    assert hold is not None
    hold.point_at("try1", AT, place=Place(engine=engine.id, host=engine.host, sign="runs/shop/local-1/train-alive"))
    hold.release(lives=True)
    plan = plan_of(store, "shop", runs_of(store, "shop", day)[0])
    assert plan is not None
    asked = compose(store, plan, "features", outcomes(store, "shop", plan.run_id), "try1")
    leave(store, left_paths.left(HERE, engine.id, "try1"), asked)
    for by in ("ada", "ben"):
        record_answer(store, plan, "yes", by=by, at=AT, text="an example", evaluation="0" * 64)
    letter = Letter(
        event=paths.alert("shop", plan.run_id, "1-train-retry"), receiver="mlops", pipeline="shop", occasion="retry",
        title="shop: train is tried again", body="an example", kind="warning", cause="the engine is away",
        made=AT, due=AT,
    )  # fmt: skip
    outbox = Outbox(
        store=store, installation=HERE, addresses=lambda _: None, send=lambda *_: False, given_up=lambda _: None
    )
    assert outbox.post(letter.event, b"{}", [join(outbox, letter)])
    lost = letter.model_copy(update={"event": paths.alert("shop", plan.run_id, "2-train-failure"), "cause": ""})
    assert outbox.post(lost.event, b"{}", [lost])
    outbox.addresses = lambda _: []
    outbox.deliver(lost)
    assert [one.title for one in lost_letters(store, HERE, "shop")] == [lost.title]


def pack_code(archive: Path) -> None:
    """Pack what reads a store: the modules of this checkout, without what Git does not know."""
    names = subprocess.run(
        ["git", "ls-files", "ratchet", "tasks"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    with tarfile.open(archive, "w:xz", format=tarfile.PAX_FORMAT) as packed:
        for name in names.stdout.splitlines():
            packed.add(ROOT / name, name, recursive=False)


def pack(folder: Path, archive: Path) -> None:
    """Pack what `make` left, without checkpoints, and MLflow's own data, which name this machine."""
    with tarfile.open(archive, "w:xz", format=tarfile.PAX_FORMAT) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not {"checkpoints", "mlflow"} & {*path.parts}:
                packed.add(path, str(path.relative_to(folder)), recursive=False)


if __name__ == "__main__":
    made = Path(sys.argv[1])
    make(made)
    pack(made, Path(__file__).with_name(f"{RELEASE}.tar.xz"))
    pack_code(Path(__file__).with_name(f"{RELEASE}.code.tar.xz"))
    shutil.rmtree(made)
