"""Means of a loss of each row. Losses without an upper limit are `tailed`: a few rows may outweigh all others."""

from dataclasses import replace

import numpy as np

from ratchet.metrics.measurement import Measurement, mean_of_rows
from ratchet.metrics.rows import Floats, Rows

EPSILON = 1e-7  # the smallest distance of a probability from 0 and 1, so that its logarithm is finite


def logloss(rows: Rows, score: Floats) -> Measurement:
    """Cross-entropy in nats."""
    return mean_of_rows(_surprise(rows.label, score), rows, tailed=True)


def brier(rows: Rows, score: Floats) -> Measurement:
    """The squared distance of a probability from what happened (Brier 1950).

    It has an upper limit, but of a rare label a few rows make most of it.
    """
    return mean_of_rows(np.square(score - (rows.label > 0)), rows, tailed=True)


def mae(rows: Rows, score: Floats) -> Measurement:
    """Mean absolute error."""
    return mean_of_rows(np.abs(rows.label - score), rows, tailed=True)


def rmse(rows: Rows, score: Floats) -> Measurement:
    """Root of the mean squared error."""
    squares = mean_of_rows(np.square(rows.label - score), rows, tailed=True)
    return replace(squares, value=squares.value**0.5, combine=lambda sums: np.sqrt(sums[..., 0] / sums[..., 1]))


def pinball(rows: Rows, score: Floats, quantile: float) -> Measurement:
    """Quantile loss (Koenker and Bassett 1978): least in the mean for the true quantile."""
    error = rows.label - score
    return mean_of_rows(np.maximum(quantile * error, (quantile - 1) * error), rows, tailed=True)


def r2(rows: Rows, score: Floats) -> Measurement | None:
    """Coefficient of determination: 1 - squared error / squared distance from the mean label; None if that is 0."""
    weight = rows.weights
    away = rows.label - np.average(rows.label, weights=weight)  # so that squares keep their digits
    columns = np.stack([np.square(rows.label - score) * weight, away**2 * weight, away * weight, weight], axis=1)
    sums = rows.by_unit(columns)
    whole = columns.sum(axis=0)
    if not whole[1] > 0:
        return None
    information = rows.weights_of_units(np.ones(len(weight), bool))[:, None]
    return Measurement(
        value=float(_explained(whole)), sums=sums, combine=_explained, information=information, tailed=True
    )


def _explained(sums: Floats) -> Floats:
    spread = sums[..., 1] - sums[..., 2] ** 2 / sums[..., 3]
    return np.asarray(1 - sums[..., 0] / spread)


def _surprise(label: Floats, score: Floats) -> Floats:
    if score.ndim == 1:
        sure = np.clip(score, EPSILON, 1 - EPSILON)
        return np.asarray(-np.where(label > 0, np.log(sure), np.log1p(-sure)))
    classes = label.astype(np.int64)
    known = classes < score.shape[1]
    chance = np.where(known, score[np.arange(len(score)), np.where(known, classes, 0)], 0.0)
    return np.asarray(-np.log(np.clip(chance, EPSILON, 1.0)))
