"""Scores of a model that knows other classes, as scores of the classes that the pipeline file has now."""

import numpy as np

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.metrics.metrics import Floats


def same_classes(scores: Floats, spec: PipelineSpec) -> Floats:
    """Probabilities [rows, classes] of a multiclass model for the classes of the file; any other scores as they are.

    Classes are 0, 1, 2, ... without a gap, so the first ones are the same. To a class that it does not know a model
    gives no probability. The probability of a class that is gone goes to the others, in proportion: no row has it.
    """
    if spec.train.objective != "multiclass" or scores.ndim == 1:
        return scores
    wanted = len(spec.columns[spec.label].allowed or ())
    known = min(scores.shape[1], wanted)
    found = np.zeros((len(scores), wanted))
    found[:, :known] = scores[:, :known]
    if scores.shape[1] > wanted:
        total = found.sum(axis=1, keepdims=True)
        found = np.where(total > 0, found / np.where(total > 0, total, 1), 1 / wanted)
    return found
