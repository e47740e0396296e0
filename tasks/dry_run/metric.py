"""The functions of a pipeline's metric.py on the labels of the made-up rows and made-up scores."""

from pathlib import Path

import numpy as np

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.metrics.metrics import Floats, Rows
from ratchet.model.own_metric import PipelineMetrics
from tasks.dry_run.report import Report
from tasks.features.day import EncodedDay


def try_metrics(spec: PipelineSpec, folder: Path, encoded: EncodedDay | None, report: Report) -> None:
    """Load metric.py and call each function that the file names. Reports the first problem of each."""
    for name, found in spec.own_metrics.items():
        report.step(f"{found.function} of {found.file}")
        try:
            measures = PipelineMetrics(spec, folder)
            if encoded is not None:
                measures.value(name, *_made_up(spec, encoded))
        except ConfigurationError as error:
            report.problem(error)


def _made_up(spec: PipelineSpec, encoded: EncodedDay) -> tuple[Rows, Floats]:
    """The labels of the made-up rows, and scores that are as a model's."""
    label = encoded.arrays["label"].astype(np.float64)
    offsets = encoded.arrays["group"].astype(np.int64) if "group" in encoded.arrays else None
    weight = encoded.arrays["weight"].astype(np.float64) if "weight" in encoded.arrays else None
    draw = np.random.default_rng(0)
    classes = len(spec.columns[spec.label].allowed or ())
    multiclass = spec.train.objective == "multiclass"
    score = draw.dirichlet(np.ones(classes), len(label)) if multiclass else draw.random(len(label))
    return Rows(label=label, offsets=offsets, weight=weight), score
