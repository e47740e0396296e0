"""hop: the time that Airflow and the operator add to each stage, compared with a bare `docker run` of the same stage.

Both sides run the same chain on the same small data from an empty store, in the same image and with the same limits,
and get the same metrics. The bare side starts each container with the engine's command line and waits for it. Every
round runs both sides, in alternating order.
"""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.airflow_run import DAY, PIPELINE, sandbox
from benchmarks.measure import Result
from ratchet.checkout import PIPELINES
from ratchet.contracts import summaries
from ratchet.contracts.environment import variable
from ratchet.contracts.labels import Label
from ratchet.contracts.loading import load
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import REGULAR, Stage
from ratchet.runners.choice import stage_image
from ratchet.runners.job import Job
from ratchet.runs.jobs import job_for
from ratchet.runs.outcomes import outcome_of
from ratchet.runs.planning import make_plan
from ratchet.runs.requests import compose, why_skipped
from ratchet.store.opening import open_store
from ratchet.store.publishing import find_result

Outcomes = dict[Stage, Outcome]
_ROUNDS = 3
"""An odd number: the median of two is their mean, so that one delay would be half of it."""
_THREADS = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")


class _Round(NamedTuple):
    airflow_s: float
    bare_s: dict[Stage, float]


def run(*, full: bool) -> Result:
    """Three rounds of a night in Airflow and a bare one, with 20,000 rows a day for --full, else 1,000."""
    rounds = [_round(number, rows_per_day=20_000 if full else 1_000) for number in range(_ROUNDS)]
    airflow_s = statistics.median(each.airflow_s for each in rounds)
    bare_s = statistics.median(sum(each.bare_s.values()) for each in rounds)
    hops = len(REGULAR) + 1  # plan counts too; it has no container
    over = (airflow_s - bare_s) / hops
    stages = {stage: statistics.median(each.bare_s[stage] for each in rounds) for stage in rounds[0].bare_s}
    return Result(
        name="hop",
        ratio=over,
        goal=1.3,
        unit="s more per task",
        ours=airflow_s,
        peer=bare_s,
        peer_name="sum of bare docker run",
        rows=(
            ("rounds", str(len(rounds))),
            ("whole DAG run, median", f"{airflow_s:.1f} s"),
            *((f"docker run {stage}", f"{seconds:.2f} s") for stage, seconds in stages.items()),
            ("sum of docker run, median", f"{bare_s:.1f} s"),
            ("more per task", f"{over:.2f} s"),
        ),
    )


def _round(number: int, *, rows_per_day: int) -> _Round:
    """Run both sides once, from nothing. Raises if their metrics differ."""
    with tempfile.TemporaryDirectory(prefix="ratchet-hop-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        with sandbox(home, rows_per_day=rows_per_day) as airflow:
            environment = airflow.services.environment()
            if number % 2:
                bare_s, bare = _bare_night(home, environment)
                night = airflow.night()
            else:
                night = airflow.night()
                bare_s, bare = _bare_night(home, environment)
    if (ours := _numbers(night.outcomes)) != (theirs := _numbers(bare)):
        raise RuntimeError(f"the two sides differ: {ours} in Airflow, {theirs} bare")
    return _Round(night.seconds, bare_s)


def _numbers(ended: Outcomes) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """The metrics of candidate and baseline."""
    evaluated = ended["evaluate"].result
    if evaluated is None:
        raise RuntimeError("evaluate has no result")
    judged = summaries.judgement(evaluated)
    return judged.candidate_metrics, judged.baseline_metrics


def _bare_night(home: Path, environment: dict[str, str]) -> tuple[dict[Stage, float], Outcomes]:
    """Run a night with `docker run` alone: the seconds and the outcome of each stage."""
    os.environ.update({name: environment[name] for name in map(variable, ("data", "tracking_uri"))})
    folder = PIPELINES / PIPELINE
    store = open_store(str(home / "bare"))
    image = stage_image(gpu=False)
    plan = make_plan(
        folder=folder,
        spec=load(folder),
        data_date=DAY,
        run_id="bare",
        kind="local",
        store_uri=store.uri,
        tracking_uri=environment[variable("tracking_uri")],
        image=image,
    )
    seconds: dict[Stage, float] = {}
    outcomes: Outcomes = {}
    for stage in plan.spec.sequence:
        if why_skipped(plan.spec, stage, outcomes):
            continue
        request = compose(store, plan, stage, outcomes, "bare")
        seconds[stage] = _docker_run(home, stage, job_for(request, store, image))
        result = find_result(store, request.prefix)
        if result is None:
            raise RuntimeError(f"{stage} published nothing")
        outcomes[stage] = outcome_of(result, cached=False, because="")
    return seconds, outcomes


def _docker_run(home: Path, stage: Stage, job: Job) -> float:
    """The seconds that the engine's command line takes for a job that a runner would get."""
    file = home / f"{stage}.json"
    file.write_bytes(job.request)
    file.chmod(0o644)
    settings = job.environment(str(home), cpus=os.cpu_count())
    mounts = [f"{mount.path}:{mount.path}{':ro' if mount.read_only else ''}" for mount in job.mounts]
    quota = ("--cpu-period", "100000", "--cpu-quota", str(round(job.resources.cpus * 100_000)))
    limits = (*quota, "--memory", str(job.resources.memory), "--shm-size", str(job.resources.shm))
    options = [
        *("--network", job.network, "--user", job.user, "--label", f"{Label.TEST}=1", *limits),
        *(word for mount in (*mounts, f"{file}:{file}:ro") for word in ("-v", mount)),
        *(word for name in _THREADS for word in ("-e", f"{name}={settings[name]}")),
    ]
    start = time.perf_counter()
    subprocess.run(
        ("docker", "run", "--rm", *options, str(job.image), "stage", str(file)),  # noqa: S607 - the engine's client
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - start
