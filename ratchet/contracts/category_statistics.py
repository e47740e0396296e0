"""Statistics of categories as numbers of a model: which ones a pipeline declares, and where they have no meaning."""

from collections.abc import Iterator

from ratchet.contracts.columns import Statistic
from ratchet.contracts.misfits import Misfit
from ratchet.contracts.pipeline import PipelineSpec

FEWEST_DAYS = 2
"""Training days: a row gets the statistics of those before it, so rows of the first have none."""


def statistics_of(spec: PipelineSpec) -> tuple[tuple[str, Statistic], ...]:
    """The (column, statistic) pairs of a pipeline, in the order in which its network has them after other numbers."""
    return tuple((name, each) for name in spec.with_role("categorical") for each in spec.columns[name].statistics)


def name_of(column: str, statistic: Statistic) -> str:
    """The name of such a number. No column has it: names of columns have no spaces."""
    return f"{statistic} of {column}"


def statistics_fit(spec: PipelineSpec) -> Iterator[Misfit]:
    """The rule for pipeline files: labels have a mean, and there are other training days."""
    declared = {name: getattr(column, "statistics", ()) for name, column in spec.columns.items()}
    for name, statistics in declared.items():
        if "target_mean" in statistics and spec.train.objective == "multiclass":
            yield Misfit(("columns", name, "statistics"), "the number of a class has no mean", "count")
    days = spec.source.window_days - spec.evaluate.holdout_days - spec.train.valid_days
    days -= spec.validate_.label_delay_days
    if any(declared.values()) and days < FEWEST_DAYS:
        message = f"statistics of categories need {FEWEST_DAYS} training days, and this window has {days}"
        yield Misfit(("source", "window_days"), message, remedy="raise it, or take the statistics out")
