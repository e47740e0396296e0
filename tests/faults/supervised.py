"""One Airflow whose servers are killed, stopped and locked out, with a small pipeline for each fault."""

import re
import sys
from collections.abc import Iterator
from datetime import datetime

import psutil
import pytest

from tests.airflow.installation import EXPECTATIONS, JUST_NOW, NIGHTLY, ROOT, RUNS_S, YESTERDAY, Installation
from tests.faults.ticking import ticking
from tests.readable import readable_by_all

DEAF = "deaf"
"""A pipeline whose training ignores the notice to stop."""
RESTARTED = "engine-restarted"
FAULTS = {"scheduler-killed": 0.2, "server-away": 1.0, "server-hung": 0.12, "database-locked": 0.1}
"""A pipeline per fault that comes while a stage runs. Its training outlasts the wait for it, however fast the machine,
and ends within the last two."""
DEFERRED = {"triggerer-killed": 0.55, "marked-deferred": 1.5}
"""Pipelines whose training is left to the triggerer."""
SHARED = {"shared": 50.0, "shared-failed": 200.0}
"""Pipelines whose features are made by two tasks, and the seconds that each day takes at least."""
DEFER_S = 40
"""Seconds after which that happens. The other trainings, and each try of them, are shorter or do not mind."""
ATTEMPTS = {
    "worker-killed": 0.5,
    "late-attempt": 0.5,
    "marked-failed": 0.5,
    RESTARTED: 0.2,
    "endless": 3.0,
    DEAF: 3.0,
    **DEFERRED,
}
SLOW = FAULTS | ATTEMPTS
"""Pipelines whose training counts its steps aloud, more than TICKS, and the seconds that each step takes."""
SECRET = "with-a-secret"
"""A pipeline whose source is a database that is named with the secret, and does not answer."""
LOST_S = 30
"""Without a heartbeat; half of what is usual, so that tests wait half as long."""
PICKED_UP_S = LOST_S + 10 + 60
"""The last 60 are for a machine that does other work."""
TICKS = 90
_EXAMPLE = "search-ranking"
_SMALLER = {
    NIGHTLY: JUST_NOW,
    "item_id:  {role: categorical,": "item_id:  {{role: ignore,",  # few days of it say less than their mean
    "window_days: 30": "window_days: 4",
    "model: {kind: dcn}": "model: {{kind: dcn, hidden: [32]}}\n  epochs: 3",
    "to: [mlops]": "to: []",
    EXPECTATIONS: "",
    _EXAMPLE: "{name}",
}
_NO_DATABASE = """\
source:
  kind: sql
  uri: postgresql+psycopg://shop:${SHOP_PASSWORD}@127.0.0.1:1/shop
  query: select * from clicks where shown_at >= :date
  window_days: 4
"""
_DAWDLING = """
import time


def derive(df):
    if len(df) > 1000:  # not the few rows of the trial
        time.sleep({seconds})
    return df.assign(one=1.0)
"""
_OF_TWO_TASKS = {
    "  query_id: {": "  one: {role: numeric, type: float64, derived: true}\n  query_id: {",
    "resources: {": "resources: {features: {tasks: 2, cpus: 1}, ",
}
_SLOWER = {
    "{kind: dcn, hidden: [32]}": '{kind: "model.py:Mine", embedding_dim: 4}\n  batch_size: 100\n  learning_rate: 1.0e-2',
    "timeout: 4h}}": "timeout: 4h, grace: {grace}}}",
}


class FaultInstallation(Installation):
    """An Airflow with a run of a pipeline under way, and what came of it."""

    def processes(self, pipeline: str, run_id: str) -> list[psutil.Process]:
        """The training's task process, and the worker that it was forked from."""
        task = psutil.Process(self.api.tasks(pipeline, run_id)["train"]["pid"])
        worker = task.parent()
        assert worker is not None
        return [task, worker]

    def finishers(self, container: str) -> list[psutil.Process]:
        """The processes that see to the end of a container whose task is gone."""
        words = ["-m", "ratchet.runners.detached", container]
        running = psutil.process_iter(["cmdline"])
        return [process for process in running if (process.info["cmdline"] or [])[2:5] == words]

    def began(self, pipeline: str, run_id: str) -> datetime:
        """When the last try of the training began."""
        return datetime.fromisoformat(self.api.tasks(pipeline, run_id)["train"]["start_date"])

    def second_try(self, pipeline: str, run_id: str) -> None:
        """Wait until the second try of the training says that it goes on with what it found."""
        self.until(lambda: self.api.tasks(pipeline, run_id)["train"]["try_number"] == 2, seconds=3 * PICKED_UP_S)
        self.until(lambda: "going on with it" in self.log(pipeline, run_id, "train", attempt=2), seconds=PICKED_UP_S)

    def published_once(self, pipeline: str, run_id: str) -> dict[str, str]:
        """The run has ended well, and each stage is published once; the states of its tasks."""
        from ratchet.store.opening import open_store

        states = self.wait(pipeline, run_id, seconds=RUNS_S)
        assert states["run"] == "success", f"{states}\n{self.failures(pipeline, run_id, states)}"
        store = open_store(str(self.services.store))
        for stage, outcome in self.outcomes(pipeline, run_id).items():
            prefix = f"published/{pipeline}/{stage}/"
            manifests = [entry.key for entry in store.list(prefix) if entry.key.endswith("/manifest.json")]
            assert manifests == ([outcome.manifest] if outcome.manifest else [])
        return states

    def failures(self, pipeline: str, run_id: str, states: dict[str, str]) -> str:
        """The end of the log of each task that failed, with all its tries."""
        tries = self.api.tasks(pipeline, run_id)
        return "\n".join(
            f"{task}, try {attempt}:\n{self.log(pipeline, run_id, task, attempt=attempt)[-4000:]}"
            for task, state in states.items()
            if state == "failed" and task in tries
            for attempt in range(1, tries[task]["try_number"] + 1)
        )

    def ended_once(self, pipeline: str, run_id: str) -> None:
        """The run has ended well; each stage is published once, and there is one version, in production."""
        from mlflow import MlflowClient

        from ratchet.contracts.stages import REGULAR
        from ratchet.store.ledger import records
        from ratchet.store.opening import open_store

        states = self.published_once(pipeline, run_id)
        assert set(states.values()) == {"success"}, states
        store = open_store(str(self.services.store))
        assert set(self.outcomes(pipeline, run_id)) == set(REGULAR)
        assert len(records(store, pipeline)) == 1
        versions = MlflowClient(self.services.mlflow_url).search_model_versions(f"name='{pipeline}'")
        assert [version.version for version in versions] == ["1"]


@pytest.fixture(scope="session")
def faulted(tmp_path_factory: pytest.TempPathFactory, stage_image: str) -> Iterator[FaultInstallation]:
    """A running Airflow that knows a pipeline per fault, each still switched off. Stages run in containers."""
    from ratchet.samples.clicks import write

    if str(ROOT / "plugins") not in sys.path:
        sys.path.append(str(ROOT / "plugins"))
    home = tmp_path_factory.mktemp("faulted")
    readable_by_all(home)
    made = FaultInstallation(
        home,
        {
            "RATCHET_RUNNER": "docker",
            "RATCHET_STAGE_IMAGE": stage_image,
            "RATCHET_DEFER_SECONDS": f"{DEFER_S}",
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "30",
            "RATCHET_POOL_CPU": "6",  # three trainings at once, which wait most of the time
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": f"{LOST_S}",
        },
    )
    for _ in write(made.services.data, days=5, rows_per_day=3000, end=YESTERDAY, seed=0):
        pass
    for name in (*SLOW, *SHARED):
        if name != RESTARTED:
            add(made, name)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def add(made: Installation, name: str) -> None:
    """A pipeline that is small, and slow or without its data if its name says so."""
    text = (ROOT / "dags" / "pipelines" / _EXAMPLE / "pipeline.yaml").read_text(encoding="utf-8")
    code = {}
    changes = {usual: changed.format(name=name) for usual, changed in _SMALLER.items()}
    if name in SLOW:
        code["model.py"] = ticking(SLOW[name], deaf=name == DEAF)
        grace = "20s" if name == DEAF else "1m"
        changes |= {usual: changed.replace("{grace}", grace) for usual, changed in _SLOWER.items()}
    if name in SHARED:
        code["features.py"] = _DAWDLING.format(seconds=SHARED[name])
        changes |= _OF_TWO_TASKS
    for usual, changed in changes.items():
        assert usual in text
        text = text.replace(usual, changed)
    if name == SECRET:
        text = re.sub(r"source:\n(  .*\n)+", _NO_DATABASE, text)
        assert "SHOP_PASSWORD" in text
    made.add(name, text, code)
