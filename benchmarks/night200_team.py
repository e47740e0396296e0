"""night200-team: `night200` through the team set-up, with Celery, PostgreSQL and S3.

Memory is the working set of each service's container, and the processor time that of the container: a worker's tasks
are among them. Tasks are left to the triggerer after a minute, as ever there.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console

from benchmarks import no_op
from benchmarks.airflow_run import DAY
from benchmarks.many_pipelines import DAYS, SLOTS, TEMPLATE, Airflow, Night, add, measure, names, result
from benchmarks.measure import Result
from benchmarks.no_op_image import no_op_image, templates
from local.airflow_api import AirflowApi
from ratchet.checkout import ROOT
from ratchet.contracts.environment import variable
from ratchet.runners.engine import connect
from ratchet.samples.clicks import write
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from team import secret_files
from team.ending import end_stages
from team.settings import Settings
from team.stack import Stack
from tests.team.installation import free_ports

_SERVICES = ("api-server", "scheduler", "dag-processor", "triggerer", "watch", "reaper", "worker")
_AT_ONCE = 4
"""Stages that compute nothing: so many find a place in the pool, beside those that wait."""
_WELL_S = 600.0


def run(*, full: bool) -> Result:
    """200 pipelines, 20 of which wait, for --full; else 24 and 14."""
    waiting, others = names(200, 20) if full else names(24, 14)
    with tempfile.TemporaryDirectory(prefix="ratchet-night200-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        night = _night(home, waiting, others)
    return result("night200-team", night, waiting, others)


def _night(home: Path, waiting: list[str], others: list[str]) -> Night:
    for folder in (home / TEMPLATE, *(home / "pipelines" / name for name in (*waiting, *others))):
        add(folder)
    data, store = home / "data", (home / "store").as_uri()
    days = list(write(data, days=DAYS, rows_per_day=300, end=DAY, seed=0))
    here = {variable("data"): str(data), variable("store"): store, variable("tracking_uri"): (home / "runs").as_uri()}
    published = templates(home / TEMPLATE, {**os.environ, **here}, store)
    airflow, s3, mlflow = free_ports(3)
    settings = Settings(
        project=f"night200-{os.getpid()}", airflow_port=airflow, s3_port=s3, mlflow_port=mlflow, gpu_workers=0,
        pipelines=str(home / "pipelines"), pool_cpu=SLOTS * (len(waiting) + _AT_ONCE),
    )  # fmt: skip
    image = f"ratchet-stage:no-op-{os.getpid()}"
    with ExitStack() as ended:
        ended.enter_context(no_op_image(image, published))
        stack = ended.enter_context(_running(settings, image))
        bucket = ended.enter_context(_opened(stack, settings.store))
        for file in filter(Path.is_file, (home / "store").rglob("*")):
            bucket.upload(file, file.relative_to(home / "store").as_posix())
        with _opened(stack, settings.data) as sources:
            for file in days:
                sources.upload(file, file.relative_to(data).as_posix())

        def go() -> None:
            bucket.create(no_op.GO, b"")

        ended.callback(go)
        password = (stack.secrets / "airflow-admin-password").read_text(encoding="utf-8")
        api = AirflowApi(f"http://127.0.0.1:{airflow}", secret_files.ADMIN, password)
        containers = {member.service: member.container for member in stack.members() if member.service in _SERVICES}
        client = ended.enter_context(connect())
        memory, processor = (partial(_asked, client, containers, part) for part in ("memory", "processor"))
        return measure(Airflow(api, settings.worker_tasks, memory, processor, go), waiting, others)


@contextmanager
def _running(settings: Settings, image: str) -> Iterator[Stack]:
    """A stack, until the end of the block; then it is deleted."""
    words = (str(ROOT / "scripts" / "images.sh"), "team"), (str(ROOT / "scripts" / "images.sh"), "airflow")
    _, airflow = (subprocess.run(each, check=True, capture_output=True, text=True).stdout for each in words)
    stage = variable("stage_image")
    images = {stage.replace("STAGE", "AIRFLOW"): airflow.splitlines()[-1], stage: image}
    stack, console = Stack(ROOT, settings, images), Console(quiet=True)
    secret_files.write(stack.secrets, settings, stack.owner)
    try:
        starting, end = stack.begin_all(), time.monotonic() + _WELL_S
        while not starting.done or [member for member in stack.members() if not member.well]:
            if (failed := starting.failed()) or time.monotonic() > end:
                raise RuntimeError(failed or f"it did not start within {_WELL_S:.0f} s")
            time.sleep(1)
        yield stack
    finally:
        end_stages(stack, console, "down")
        stack.compose("down", "--remove-orphans", "--volumes")
        stack.forget()


@contextmanager
def _opened(stack: Stack, uri: str) -> Iterator[Store]:
    """A bucket of the stack, with all rights."""
    parser = ConfigParser(interpolation=None)
    parser.read(stack.secrets / "s3-admin", encoding="utf-8")
    keys = {name.upper(): value for name, value in parser["default"].items()}
    address = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{stack.settings.s3_port}", "AWS_REGION": "us-east-1"}
    with patch.dict(os.environ, {**keys, **address}):
        yield open_store(uri)


def _asked(client: Any, containers: dict[str, str], part: str) -> dict[str, float]:
    """The memory of each container in MiB, less the files that it could give back; or its processor time in seconds."""
    found = {}
    for name, container in containers.items():
        said: dict[str, Any] = client.stats(container, stream=False, one_shot=True)
        if part == "processor":
            found[name] = said["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9
            continue
        kept = said["memory_stats"]["stats"]
        files = kept.get("inactive_file", kept.get("total_inactive_file", 0))
        found[name] = (said["memory_stats"]["usage"] - files) / 2**20
    return found
