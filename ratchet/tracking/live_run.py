"""A run in MLflow that a training fills while it runs. Its experiment is `<pipeline>.training`."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from ratchet.contracts.errors import Unavailable
from ratchet.tracking.rest import RestClient

TAG = "ratchet.training"
STORE_TAG = "ratchet.store"
_MOST_METRICS = 1000
"""In one request, by MLflow's limits."""


def experiment_of(pipeline: str) -> str:
    """The name of the experiment with the trainings of a pipeline."""
    return f"{pipeline}.training"


class Point(NamedTuple):
    """A value of a metric. milliseconds: since 1970."""

    name: str
    value: float
    milliseconds: int
    step: int


class LiveRun:
    """The run of one training, which is created when it is first written to; the next try goes on with it.

    Every call raises Unavailable or ConfigurationError where MLflow cannot be written to, and as it is with libraries,
    perhaps another error.
    """

    def __init__(self, uri: str, *, pipeline: str, training: str, store: str) -> None:
        """training: what the run is named, such as `<run id> train`. store: the label of its store.

        It is found by both: several stores may have one server.
        """
        self._client = RestClient(uri)
        self._experiment, self._training = experiment_of(pipeline), training.replace("'", "")
        self._store = store
        self._id: str | None = None

    def write(self, points: Sequence[Point]) -> None:
        """Write values; writing one twice changes nothing that MLflow shows."""
        run = self._find()
        for begin in range(0, len(points), _MOST_METRICS):
            metrics = [
                {"key": point.name, "value": point.value, "timestamp": point.milliseconds, "step": point.step}
                for point in points[begin : begin + _MOST_METRICS]
            ]
            if self._client.ask("POST", "/runs/log-batch", {"run_id": run, "metrics": metrics}) is None:
                self._id = None
                raise Unavailable(f"MLflow at {self._client.address} refuses metrics of run {run}: was it deleted?")

    def finish(self, *, done: bool) -> None:
        """End the run."""
        status = {"status": "FINISHED" if done else "FAILED", "end_time": int(time.time() * 1000)}
        self._client.ask("POST", "/runs/update", {"run_id": self._find(), **status})

    def leave(self) -> None:
        """Another process goes on with the run."""

    def _find(self) -> str:
        if self._id is None:
            experiment = self._experiment_id()
            condition = f"tags.`{TAG}` = '{self._training}' and tags.`{STORE_TAG}` = '{self._store}'"
            asked = {"experiment_ids": [experiment], "filter": condition, "max_results": 1}
            found = (self._client.ask("POST", "/runs/search", asked) or {}).get("runs")
            self._id = self._go_on(found[0]["info"]) if found else self._create(experiment)
        return self._id

    def _go_on(self, run: dict[str, str]) -> str:
        """The id of the run of an earlier try, which is under way again."""
        if run["status"] != "RUNNING":
            self._client.ask("POST", "/runs/update", {"run_id": run["run_id"], "status": "RUNNING"})
        return run["run_id"]

    def _create(self, experiment: str) -> str:
        asked = {
            "experiment_id": experiment,
            "run_name": self._training,
            "start_time": int(time.time() * 1000),
            "tags": [{"key": TAG, "value": self._training}, {"key": STORE_TAG, "value": self._store}],
        }
        answer = self._client.ask("POST", "/runs/create", asked)
        if answer is None:
            raise Unavailable(
                f"MLflow at {self._client.address} makes no run in the experiment {self._experiment}: was it deleted?",
                remedy=f"restore the experiment {self._experiment}",
            )
        return str(answer["run"]["info"]["run_id"])

    def _experiment_id(self) -> str:
        name = {"experiment_name": self._experiment}
        found = self._client.ask("GET", "/experiments/get-by-name", name)
        if found is None:
            made = self._client.ask("POST", "/experiments/create", {"name": self._experiment})
            return str((made or {})["experiment_id"])
        return str(found["experiment"]["experiment_id"])
