"""A run in MLflow that a training fills while it runs. Its experiment is `<pipeline>.training`."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from ratchet.tracking.rest import RestClient

TAG = "ratchet.training"
_MOST_METRICS = 1000
"""In one request, by MLflow's limits."""


class Point(NamedTuple):
    """A value of a metric. milliseconds: since 1970."""

    name: str
    value: float
    milliseconds: int
    step: int


class LiveRun:
    """The run of one training, which is created when it is first written to; the next try goes on with it.

    Every call raises Unavailable or ConfigurationError where MLflow cannot be written to.
    """

    def __init__(self, uri: str, *, pipeline: str, training: str) -> None:
        """training: what the run is named and found by, such as `<run id> train`."""
        self._client = RestClient(uri)
        self._experiment, self._training = f"{pipeline}.training", training
        self._id: str | None = None

    @property
    def address(self) -> str:
        """The server's, for messages."""
        return self._client.address

    def write(self, points: Sequence[Point]) -> None:
        """Write values; writing one twice changes nothing that MLflow shows."""
        run = self._find()
        for begin in range(0, len(points), _MOST_METRICS):
            metrics = [
                {"key": point.name, "value": point.value, "timestamp": point.milliseconds, "step": point.step}
                for point in points[begin : begin + _MOST_METRICS]
            ]
            self._client.ask("POST", "runs/log-batch", {"run_id": run, "metrics": metrics})

    def finish(self, *, done: bool) -> None:
        """End the run."""
        status = {"status": "FINISHED" if done else "FAILED", "end_time": int(time.time() * 1000)}
        self._client.ask("POST", "runs/update", {"run_id": self._find(), **status})

    def _find(self) -> str:
        if self._id is None:
            experiment = self._experiment_id()
            quoted = self._training.replace("'", "")
            asked = {"experiment_ids": [experiment], "filter": f"tags.`{TAG}` = '{quoted}'", "max_results": 1}
            found = (self._client.ask("POST", "runs/search", asked) or {}).get("runs")
            run = found[0] if found else self._create(experiment)
            self._id = str(run["info"]["run_id"])
        return self._id

    def _create(self, experiment: str) -> dict[str, dict[str, str]]:
        asked = {
            "experiment_id": experiment,
            "run_name": self._training,
            "start_time": int(time.time() * 1000),
            "tags": [{"key": TAG, "value": self._training}],
        }
        answer = self._client.ask("POST", "runs/create", asked) or {}
        made: dict[str, dict[str, str]] = answer["run"]
        return made

    def _experiment_id(self) -> str:
        name = {"experiment_name": self._experiment}
        found = self._client.ask("GET", "experiments/get-by-name", name)
        if found is None:
            made = self._client.ask("POST", "experiments/create", {"name": self._experiment})
            return str((made or {})["experiment_id"])
        return str(found["experiment"]["experiment_id"])
