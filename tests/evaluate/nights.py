"""Nights of a small pipeline: planned, and each stage composed and run as in a run, in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts import paths
from ratchet.contracts.loading import load
from ratchet.contracts.registration import Registration
from ratchet.contracts.request import AsOf, Outcome
from ratchet.contracts.stages import STAGES, Stage, stage_module
from ratchet.contracts.summaries import Judgement
from ratchet.production.baseline import Mode
from ratchet.runs.planning import make_plan
from ratchet.runs.requests import Outcomes, compose, why_skipped
from ratchet.runtime.context import StageContext
from ratchet.runtime.logs import StageLog
from ratchet.store.file import FileStore

FIRST = date(2026, 11, 20)
WINDOW = 4
COLUMNS: dict[str, dict[str, Any]] = {
    "seller": {"role": "id", "type": "int64"},
    "shop": {"role": "categorical", "type": "string"},
    "size": {"role": "categorical", "type": "int64"},
    "price": {"role": "numeric", "type": "float64"},
    "weight": {"role": "numeric", "type": "float64"},
    "grade": {"role": "label", "type": "int64", "in": [0, 1, 2]},
}

TRAIN: dict[str, Any] = {
    "objective": "multiclass",
    "epochs": 12,
    "learning_rate": 0.02,
    "model": {"kind": "mlp", "embedding_dim": 2, "hidden": [8]},
}


def rows(day: date, count: int = 400) -> pa.Table:
    """A day of which the grade follows the price."""
    draw = np.random.default_rng(day.toordinal())
    price, weight = draw.normal(size=(2, count))
    grade = np.digitize(price + 0.3 * draw.normal(size=count), [-0.5, 0.5])
    return pa.table(
        {
            "seller": draw.integers(0, 40, count),
            "shop": draw.choice(["north", "south", "west"], count),
            "size": draw.integers(0, 5, count),
            "price": price,
            "weight": pa.array(weight, mask=draw.random(count) < 0.1),
            "grade": grade,
        }
    )


@dataclass(kw_only=True)
class Nights:
    """A pipeline's folder, its source and its store, all below `folder`. source: the URI and what kind of source."""

    folder: Path
    store: FileStore
    columns: dict[str, Any] = field(default_factory=lambda: dict(COLUMNS))
    sections: dict[str, Any] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    number: int = 0
    name: str = "grades"

    def deliver(self, last: date, change: Callable[[pa.Table], pa.Table] = lambda table: table) -> None:
        """Write the days of a window."""
        for back in range(WINDOW):
            day = last - timedelta(days=back)
            path = self.folder / "source" / f"{day}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(change(rows(day)), path)

    def pipeline(self) -> Path:
        """The pipeline's folder, as it is now."""
        document = {
            "name": self.name,
            "source": {"kind": "files", "uri": f"{self.folder / 'source'}/{{date}}.parquet", "window_days": WINDOW},
            "columns": self.columns,
            "train": TRAIN,
            **self.sections,
        }
        folder = self.folder / f"pipeline-{self.number}"
        folder.mkdir()
        (folder / "pipeline.yaml").write_text(json.dumps(document))
        for name, text in self.code.items():
            (folder / name).write_text(text)
        return folder

    def run(
        self,
        day: date = FIRST,
        *,
        until: Stage = "register",
        promote: Mode | None = None,
        as_of: AsOf = "now",
        rebuild: bool = False,
    ) -> dict[Stage, Outcome]:
        """One night up to a stage: the outcomes, by stage."""
        self.number += 1
        folder = self.pipeline()
        plan = make_plan(
            folder=folder, spec=load(folder), data_date=day, run_id=f"run-{self.number}", kind="manual",
            store_uri=self.store.uri, promote=promote, as_of=as_of, rebuild=rebuild,
        )  # fmt: skip
        outcomes: dict[Stage, Outcome] = {}
        for stage in STAGES[: STAGES.index(until) + 1]:
            if (why := why_skipped(plan.spec, stage, outcomes)) is not None:
                outcomes[stage] = Outcome(stage=stage, state="skipped", because=why)
                continue
            outcomes[stage] = self._stage(plan, stage, outcomes)
            data = outcomes[stage].model_dump_json(by_alias=True).encode()
            self.store.create(paths.outcome(plan.spec.name, plan.run_id, stage), data)
        return outcomes

    def _stage(self, plan: Any, stage: Stage, outcomes: Outcomes) -> Outcome:
        request = compose(self.store, plan, stage, outcomes, "attempt-1")
        with StageContext.open(request, store=self.store, log=StageLog(stage, StringIO())) as ctx:
            found = ctx.commit(import_module(stage_module(stage)).run(ctx))
        result = found.result
        return Outcome(stage=stage, state="done", manifest=found.key, content=result.content, result=result)


def judgement(outcomes: Outcomes) -> Judgement:
    """What evaluate said."""
    result = outcomes["evaluate"].result
    assert result is not None
    return Judgement.model_validate(result.summary)


def registration(outcomes: Outcomes) -> Registration:
    """What register did."""
    result = outcomes["register"].result
    assert result is not None
    return Registration.model_validate(result.summary)


def scores(nights: Nights, outcomes: Outcomes) -> pa.Table:
    """What evaluate published of each held-out row."""
    result = outcomes["evaluate"].result
    assert result is not None
    path = nights.store.local(result.outputs["scores"].key)
    assert path is not None
    return pq.read_table(path)
