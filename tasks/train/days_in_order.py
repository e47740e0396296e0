"""The pipeline's curriculum for the days of a training."""

from collections.abc import Sequence
from datetime import date

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import FeatureSet, Split
from tasks.train.curriculum import Sampling, by_age


def parts_of(spec: PipelineSpec, split: Split) -> list[Sequence[date]]:
    """The days whose rows are shuffled together: those of each part, or with a curriculum each day by itself."""
    if spec.train.curriculum is None:
        return [split.train, split.valid]
    return [[day] for day in (*split.train, *split.valid)]


def sampling_of(spec: PipelineSpec, features: FeatureSet) -> Sampling | None:
    """How often the rows of each day are met, if not once in an epoch."""
    if spec.train.curriculum is None:
        return None
    days = [*features.of(features.split.train), *features.of(features.split.valid)]
    return by_age([(day.day, day.rows) for day in days], spec.train.curriculum.half_life_days)
