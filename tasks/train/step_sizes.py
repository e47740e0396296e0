"""Whether the days of a training have enough rows for its steps, before any row is read."""

from typing import Literal

from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import FeatureSet


def rows_of(features: FeatureSet, part: Literal["train", "valid"]) -> int:
    """The rows with a label of the days for training, or for validation."""
    days = features.split.train if part == "train" else features.split.valid
    return sum(day.rows for day in features.of(days))


def refuse_step_sizes(spec: PipelineSpec, features: FeatureSet) -> None:
    """Refuse training days that give no step. Raises DataRejected without rows, ConfigurationError for batch_size."""
    days, rows, asked = features.split.train, rows_of(features, "train"), spec.train.batch_size
    if not rows:
        raise DataRejected(
            f"the training days {days[0]} to {days[-1]} have no row with a label",
            remedy="deliver labels, or raise source.window_days to reach days that have some",
        )
    if asked != "auto" and asked > rows:
        raise ConfigurationError(
            f"train.batch_size: {asked:,} is more than the {rows:,} rows of the training days {days[0]} to {days[-1]};"
            f" allowed: auto, or at most {rows:,}",
            remedy="set train.batch_size to auto, or raise source.window_days",
        )
