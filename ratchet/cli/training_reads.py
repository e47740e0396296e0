"""What the training of a pipeline reads, as far as its file says."""

from math import ceil

from ratchet.contracts.kinds import most_rounds
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.step_rows import step_rows
from ratchet.pages.words import count

_EXAMPLES = (10_000, 1_000_000)
"""Rows of the training days, for which the steps are counted."""


def training_reads(spec: PipelineSpec) -> list[str]:
    """Two lines: days and columns; epochs and steps, or rounds of boosted trees."""
    held, valid, window = spec.evaluate.holdout_days, spec.train.valid_days, spec.source.window_days
    vectors = sum(one.is_vector for one in spec.columns.values())
    lists = sum(one.is_list for one in spec.columns.values())
    numeric, categorical = len(spec.with_role("numeric")) - vectors, len(spec.with_role("categorical")) - lists
    kinds = [(numeric, "numeric column"), (categorical, "categorical column")]
    kinds += [(number, name) for number, name in ((vectors, "vector column"), (lists, "list column")) if number]
    sizes = {rows: ceil(rows / step_rows(spec.train.batch_size, rows)) for rows in _EXAMPLES}
    steps = ", ".join(f"{count(steps, 'step')} for {rows:,} rows" for rows, steps in sizes.items())
    delay = spec.validate_.label_delay_days
    late = f"{delay} without all their labels, " if delay else ""
    days = f"{window - delay - held - valid} of {count(window, 'day')} ({late}{held} held out, {valid} for validation)"
    *first, last = (count(number, name) for number, name in kinds)
    columns = f"{', '.join(first)} and {last}"
    if (model := spec.train.model).is_boosted:
        most = count(most_rounds(model.rounds, measured=valid > 0), "round")
        return [
            f"training reads {days}, {columns}",
            f"a round adds a tree of up to {model.leaves} leaves; at most {most}",
        ]
    most = f"{count(spec.train.epochs, 'epoch')} and {count(spec.train.steps, 'step')}"
    return [
        f"training reads {days}, {columns}",
        f"an epoch has about {steps}; at most {most}",
    ]
