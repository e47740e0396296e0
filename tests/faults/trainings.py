"""Trainings in containers or processes: a small pipeline with a model of its own, up to its features."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts import summaries
from ratchet.contracts.labels import Label
from ratchet.contracts.loading import loads
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import TrainedModel
from ratchet.runners.docker import DockerRunner
from ratchet.runners.process import ProcessRunner
from ratchet.runs.events import Event
from ratchet.runs.local_run import attempt_stage
from ratchet.runs.planning import make_plan
from ratchet.runs.work import OnEvent
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from tests.readable import readable_by_all

DAY = date(2026, 11, 20)
BEFORE: tuple[Stage, ...] = ("ingest", "validate", "features")
PIPELINE = """
name: faulty
source: {{kind: files, uri: "{data}/date={{date}}/*.parquet", window_days: 4}}
columns:
  query: {{role: group, type: int64}}
  x: {{role: numeric, type: float64}}
  kind: {{role: categorical, type: string}}
  clicked: {{role: label, type: int64}}
train:
  objective: binary
  model: {{kind: "model.py:Mine", embedding_dim: 4}}
evaluate: {{metric: auc}}
resources: {{train: {{cpus: 1}}}}
"""


def _quiet(_event: Event) -> None:
    """Listen to nothing."""


@dataclass(frozen=True, kw_only=True)
class Trainings:
    """A pipeline's folder, its source, a store, and an image, or none to train in processes; run_ids begins the id of every
    run."""

    folder: Path
    image: str | None
    store_uri: str
    run_ids: str = field(default_factory=lambda: uuid.uuid4().hex)

    def plan(self, name: str, *, day: date = DAY, **overrides: Any) -> RunPlan:
        """The plan of a run; the same name again is the same run."""
        text = (self.folder / "pipeline" / "pipeline.yaml").read_text(encoding="utf-8")
        return make_plan(
            folder=self.folder / "pipeline",
            spec=loads(text, overrides=overrides),
            data_date=day,
            run_id=f"{self.run_ids}-{name}",
            kind="local",
            store_uri=self.store_uri,
            image=self.image,
        )

    @property
    def store(self) -> Store:
        """Where everything is."""
        return open_store(self.store_uri)

    def prepare(self, plan: RunPlan) -> None:
        """Run what comes before a training, as processes."""
        for stage in BEFORE:
            attempt_stage(plan, stage, ProcessRunner(), name=uuid.uuid4().hex[:16], on_event=_quiet)

    def train(self, plan: RunPlan, on_event: OnEvent = _quiet) -> Outcome:
        """Run the training."""
        runner = DockerRunner() if self.image else ProcessRunner()
        return attempt_stage(plan, "train", runner, name=uuid.uuid4().hex[:16], on_event=on_event)


@contextmanager
def trainings(
    folder: Path, image: str | None, *, model: str, rows_per_day: int, store_uri: str | None = None
) -> Iterator[Trainings]:
    """A pipeline whose model.py is `model`. At the end no container of its runs may be left.

    store_uri: where everything is kept, if not in the folder.
    """
    readable_by_all(folder)
    data, pipeline = folder / "data", folder / "pipeline"
    pipeline.mkdir()
    (pipeline / "pipeline.yaml").write_text(PIPELINE.format(data=data), encoding="utf-8")
    (pipeline / "model.py").write_text(model, encoding="utf-8")
    for back in range(-1, 4):
        day = DAY - timedelta(days=back)
        path = data / f"date={day}" / "part-0.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table(_rows(day, rows_per_day)), path)
    made = Trainings(folder=folder, image=image, store_uri=store_uri or (folder / "store").as_uri())
    try:
        yield made
    finally:
        left = containers(made) if image else []
        for handle in left:
            DockerRunner().remove(handle)
    assert left == []


def containers(made: Trainings, *, stage: Stage = "train") -> list[str]:
    """The containers of the runs, running or ended."""
    runs = {entry.key.split("/")[2] for entry in made.store.list("runs/faulty")}
    return [handle for run in runs for handle in DockerRunner().find({Label.RUN: run, Label.STAGE: stage})]


def trained(outcome: Outcome) -> TrainedModel:
    """What a training says of itself."""
    assert outcome.result is not None
    return summaries.trained(outcome.result)


def _rows(day: date, count: int) -> Mapping[str, Any]:
    draw = np.random.default_rng(day.toordinal())
    x = draw.normal(size=count)
    return {
        "query": np.arange(count) // 8,
        "x": x,
        "kind": [f"k{kind}" for kind in draw.integers(0, 5, count)],
        "clicked": (draw.random(count) < 1 / (1 + np.exp(-2 * x))).astype(np.int64),
    }
