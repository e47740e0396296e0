"""hop: what Airflow and the operator add to each stage, over a bare `docker run` of the same stage.

Both sides run the same chain on the same small data from an empty store, in the same image. The bare side starts each
container with the engine's own command line, and waits for it.
"""

import os
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.airflow_run import DAY, PIPELINE, ROOT, sandbox
from benchmarks.measure import Result
from tasks.chain.outcomes import outcome_of
from tasks.chain.planning import make_plan
from tasks.chain.requests import compose, why_skipped
from tasks.contracts.loading import load
from tasks.contracts.operations import STAGES, Stage
from tasks.contracts.request import Outcome
from tasks.runners.choosing import stage_image
from tasks.runtime.publishing import published
from tasks.runtime.store.opening import open_store


def run(*, full: bool) -> Result:
    """One night through Airflow, one bare."""
    with tempfile.TemporaryDirectory(prefix="ratchet-hop-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        with sandbox(home, rows_per_day=20_000 if full else 1_000) as airflow:
            airflow_s = airflow.night()
            bare = _bare_night(home, airflow.services.environment())
    bare_s = sum(bare.values())
    hops = len(STAGES) + 1  # and plan, which has no container
    over = (airflow_s - bare_s) / hops
    return Result(
        name="hop",
        ratio=over,
        goal=1.3,
        unit="s over, per stage",
        ours=airflow_s,
        peer=bare_s,
        peer_name="sum of bare docker run",
        rows=(
            ("whole DAG run", f"{airflow_s:.1f} s"),
            *((f"docker run {stage}", f"{seconds:.2f} s") for stage, seconds in bare.items()),
            ("sum of docker run", f"{bare_s:.1f} s"),
            ("over, per task", f"{over:.2f} s"),
        ),
    )


def _bare_night(home: Path, environment: dict[str, str]) -> dict[str, float]:
    """Seconds by stage of a night run with `docker run` alone."""
    os.environ.update({name: environment[name] for name in ("RATCHET_DATA", "MLFLOW_TRACKING_URI")})
    folder = ROOT / "dags" / "pipelines" / PIPELINE
    store = open_store(str(home / "bare"))
    image = stage_image(gpu=False)
    plan = make_plan(
        folder=folder,
        spec=load(folder),
        data_date=DAY,
        run_id="bare",
        kind="local",
        store_uri=store.uri,
        tracking_uri=environment["MLFLOW_TRACKING_URI"],
        image=image,
    )
    seconds: dict[str, float] = {}
    outcomes: dict[Stage, Outcome] = {}
    for stage in STAGES:
        if why_skipped(stage, outcomes):
            continue
        request = compose(store, plan, stage, outcomes, "bare")
        seconds[stage] = _docker_run(home, stage, request.model_dump_json(by_alias=True), image)
        result = published(store, request.prefix)
        if result is None:
            raise RuntimeError(f"{stage} published nothing")
        outcomes[stage] = outcome_of(result, cached=False, because="")
    return seconds


def _docker_run(home: Path, stage: str, request: str, image: str) -> float:
    file = home / f"{stage}.json"
    file.write_text(request, encoding="utf-8")
    file.chmod(0o644)
    network = ("--network", "host") if stage in {"register", "report"} else ("--network", "none")
    limits = ("--cpus", "2", "--memory", "4g", "--user", "10001:10001", "--label", "ratchet.test=1")
    mounts = (
        "-v",
        f"{home / 'bare'}:{home / 'bare'}",
        "-v",
        f"{home / 'data'}:{home / 'data'}:ro",
        "-v",
        f"{file}:{file}:ro",
    )
    start = time.perf_counter()
    subprocess.run(  # noqa: S603 - our own words
        ("docker", "run", "--rm", *network, *limits, *mounts, image, "stage", str(file)),  # noqa: S607 - the engine's own
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - start
