"""night200: Airflow's memory for each stage that runs, and the queue of tasks, in one night of 200 pipelines.

It is measured with the servers of `make serve` (see `many_pipelines`). Memory is the proportional set size (PSS) of all
processes of each server, and the processor time is that of each server's own process, without its tasks.
"""

import os
import tempfile
from functools import partial
from pathlib import Path
from unittest.mock import patch

from benchmarks import no_op
from benchmarks.airflow_memory import memory, processor_seconds
from benchmarks.airflow_run import DAY
from benchmarks.many_pipelines import DAYS, SLOTS, TEMPLATE, Airflow, Night, add, measure, names, result
from benchmarks.measure import Result
from benchmarks.no_op_image import no_op_image, templates
from local.airflow_api import AirflowApi
from local.services import Services
from ratchet.checkout import ROOT
from ratchet.contracts.environment import variable
from ratchet.samples.clicks import write

_DEFER_S = "5"
_SLOTS = 4
"""Of `make serve`."""


def run(*, full: bool) -> Result:
    """200 pipelines, 20 of which wait, for --full; else 20 and 10."""
    waiting, others = names(200, 20) if full else names(20, 10)
    with tempfile.TemporaryDirectory(prefix="ratchet-night200-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        night = _night(home, waiting, others)
    return result("night200", night, waiting, others)


def _night(home: Path, waiting: list[str], others: list[str]) -> Night:
    settings = {
        variable("pipelines"): str(home / "pipelines"),
        variable("runner"): "docker",
        variable("stage_image"): f"ratchet-stage:no-op-{os.getpid()}",
        variable("defer_seconds"): _DEFER_S,
        # A stage that waits keeps its slots of the pool.
        variable("pool_cpu"): str(SLOTS * len(waiting) + (os.cpu_count() or 1)),
    }
    for folder in (home / TEMPLATE, *(home / "pipelines" / name for name in (*waiting, *others))):
        add(folder)
    services = Services(ROOT, home, airflow_port=0, mlflow_port=0)
    for _ in write(services.data, days=DAYS, rows_per_day=300, end=DAY, seed=0):
        pass
    environment = services.environment() | {variable("tracking_uri"): (home / "tracking").as_uri()}
    published = templates(home / TEMPLATE, environment, services.store)
    go = partial((Path(services.store) / no_op.GO).touch)
    with no_op_image(settings[variable("stage_image")], published), patch.dict(os.environ, settings):
        try:
            services.start()
            services.wait()
            api = AirflowApi(services.airflow_url, services.user, services.password)
            return measure(
                Airflow(api, _SLOTS, partial(memory, home), partial(processor_seconds, home), go), waiting, others
            )
        finally:
            go()
            services.stop()
