"""Held-out rows of two models that are made, seeded, with the troubles that real ones have."""

from datetime import date

import numpy as np
import pandas as pd

from ratchet.contracts.slices import Slice
from ratchet.metrics.metrics import Floats, Rows
from ratchet.verdict.gate_check.gate import GateKeys
from ratchet.verdict.gate_check.sample import Column, Sample
from ratchet.verdict.masks import SliceRows, slice_rows

DAY = date(2026, 3, 20)
SIZE = 10
"""Rows of a group."""


def keys(metric: str, *, min_gain: float = 0.0, **more: object) -> GateKeys:
    return GateKeys(
        **{"metric": metric, "min_gain": min_gain, "confidence": 0.95, "max_slice_loss": 0.1, "seed": 0, **more}
    )


def sample(rows: Rows, candidate: Floats, baseline: Floats, **more: object) -> Sample:
    return Sample(
        **{
            "run_id": "r",
            "day": DAY,
            "rows": rows,
            "candidate": candidate,
            "baseline": baseline,
            "baseline_kind": "champion",
            **more,
        }
    )


def values_of(column: str, values: object) -> tuple[SliceRows, ...]:
    """The slices of a column by its values."""
    return tuple(slice_rows(Slice(column=column), pd.DataFrame({column: values})))


def ranked(groups: int, *, ours: float = 1.0, theirs: float = 1.0, seed: int = 0) -> Sample:
    """Groups of ten with one or two clicks; models are the truth with noise of these sizes, and share half of it."""
    generator = np.random.default_rng(seed)
    label = generator.random((groups, SIZE)) < 0.06
    label[np.arange(groups), generator.integers(SIZE, size=groups)] = True
    truth = label + generator.normal(size=label.shape)
    candidate = truth + ours * generator.normal(size=label.shape)
    baseline = truth + theirs * generator.normal(size=label.shape)
    rows = Rows(label=label.ravel().astype(np.float64), offsets=np.arange(0, groups * SIZE + 1, SIZE))
    country = np.array(["DE", "FR", "US"])[np.repeat(generator.integers(3, size=groups), SIZE)]
    return sample(rows, candidate.ravel(), baseline.ravel(), slices=values_of("country", country))


def skewed(units: int, *, seed: int = 0) -> Sample:
    """Log-normal labels; the candidate errs less on most of them and more on the few largest."""
    generator = np.random.default_rng(seed)
    label = np.exp(1.2 * generator.normal(size=units))
    noise = generator.normal(size=units)
    tail = label > np.quantile(label, 0.96)
    baseline = label * (1 + 0.5 * noise)
    candidate = label * (1 + np.where(tail, 0.62, 0.3) * noise)
    return sample(Rows(label=label, offsets=None), candidate, baseline)


def rare(positives: int, rows: int = 2000, *, seed: int = 0) -> Sample:
    """A binary problem with few positives; both models see half of the signal."""
    generator = np.random.default_rng(seed)
    label = np.zeros(rows)
    label[generator.permutation(rows)[:positives]] = 1
    signal = 1.5 * label + generator.normal(size=rows)
    candidate, baseline = (1 / (1 + np.exp(3 - signal - 0.5 * generator.normal(size=rows))) for _ in range(2))
    return sample(Rows(label=label, offsets=None), candidate, baseline)


def of_users(users: int = 200, each: int = 25, *, seed: int = 0) -> Sample:
    """A binary problem in which a model errs by user; the column user_id is there, the gate knows nothing of it."""
    generator = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), each)
    logit = 1.5 * generator.normal(size=len(user))
    label = (generator.random(len(user)) < 1 / (1 + np.exp(-logit))).astype(np.float64)
    candidate, baseline = (1 / (1 + np.exp(-logit - generator.normal(size=users)[user])) for _ in range(2))
    order = generator.permutation(len(user))
    columns = {
        "user_id": Column(codes=user[order], values=()),
        "shop": Column(codes=generator.integers(300, size=len(user)), values=()),
    }
    return sample(Rows(label=label[order], offsets=None), candidate[order], baseline[order], others=columns)
