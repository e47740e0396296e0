"""What the judge has to know of a night beside the scores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from ratchet.contracts.authority import Finding
from ratchet.contracts.repetition import Repetition
from ratchet.contracts.request import StageRequest
from ratchet.contracts.summaries import TrainedModel
from ratchet.metrics.metrics import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A simple scorer that a first model has to beat: the mean label by a column. scores: of the held-out rows."""

    column: str
    scores: Floats


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What serving costs. times: milliseconds of (candidate, champion) for a batch, in turns; sizes in bytes."""

    times: Sequence[tuple[float, float]] = ()
    size: int = 0
    champion_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class Night:
    """data_date: of the run. digest: the candidate's.

    repetition: which attempt at the held-out days this is. unmeasured: for how many nights before this one the champion
    could not be measured. tables: on a night without a champion. costs: where the gate limits them. authority: why
    there is no verdict, whatever the scores are. seen: held-out days that the candidate knows of a model that it began
    with.
    """

    data_date: date
    digest: str
    repetition: Repetition = field(default_factory=Repetition)
    unmeasured: int = 0
    tables: Sequence[Table] = ()
    costs: Costs | None = None
    authority: Finding | None = None
    seen: tuple[date, ...] = ()


def night_of(
    request: StageRequest, trained: TrainedModel, digest: str, *, tables: Sequence[Table], costs: Costs | None
) -> Night:
    """The night of a request."""
    return Night(
        data_date=request.data_date,
        digest=digest,
        repetition=request.repetition,
        unmeasured=request.unmeasured,
        tables=tables,
        costs=costs,
        authority=request.authority,
        seen=trained.has_seen(trained.split.holdout),
    )
