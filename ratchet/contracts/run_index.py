"""The newest run of each date in one line, as it is stored for all dates of a pipeline together."""

from datetime import date

from pydantic import AwareDatetime, Field

from ratchet.contracts.document import Document
from ratchet.contracts.judgements import Interval
from ratchet.contracts.request import RunKind, RunPlan
from ratchet.contracts.result import Sha256

FORM = 1
"""1: the digest of a run is that of the model that it ships, and no longer always that of the measured one."""
Standing = str
"""promote, reject or inconclusive; `failed` or `unfinished` where a run has no verdict."""


class IndexedRun(Document):
    """A run in one line, without what the ledger says of it."""

    day: date
    run_id: str
    kind: RunKind
    created: AwareDatetime
    ended: bool = Field(
        default=False,
        description="Whether it has ended or failed, so that who changes its records writes this line too.",
    )
    noted: str = Field(
        "",
        description="The records that the line of a run under way is from: while it has these, it is believed. `again` "
        "while a stage is recorded again.",
    )
    standing: Standing = "unfinished"
    gain: Interval | None = Field(None, description="Relative, of the pipeline's metric.")
    would_promote: bool = Field(default=False, description="Whether the verdict is promote, whatever the run may do.")
    model: str = Field("", description="The name that the candidate is registered by, if it is.")
    version: str = ""
    digest: str = Field("", description="Of the model that it ships: of the refit, where there is one.")
    cause: str = ""
    cached: bool = False
    asks: bool = Field(default=False, description="Whether it waits for a person to approve its candidate.")
    against: str = Field("", description="What it was measured against; empty for a constant scorer.")
    chain: str = Field("", description="Of a backfill that is judged along its own winners.")

    @property
    def place(self) -> tuple[date, RunKind]:
        """What it is the newest run of."""
        return self.day, self.kind


class IndexedLedger(Document):
    """What the ledger of a model said up to a record."""

    number: int = Field(0, ge=0)
    etag: str = Field("", description="Of the record of that number in the store.")
    sha256: str = Field("", description="Of its bytes.")
    promoted: tuple[Sha256, ...] = Field((), description="The digests of all models that were promoted, sorted.")
    live: str = Field("", description="The digest of the model in production; empty if there is none.")


class RunIndex(Document):
    """The newest run of each date and kind, oldest date first, and the ledgers of their models.

    form: FORM of the release that made it. One of an older form is made again from the runs.
    """

    form: int = 0
    runs: tuple[IndexedRun, ...] = ()
    ledgers: dict[str, IndexedLedger] = Field(default_factory=dict)

    def with_runs(self, *runs: IndexedRun) -> "RunIndex":
        """The index with these runs, each in the place of an older one of its date and kind."""
        found = {run.place: run for run in self.runs}
        for run in runs:
            before = found.get(run.place)
            if before is None or before.run_id == run.run_id or before.created <= run.created:
                found[run.place] = run
        return self.model_copy(update={"runs": tuple(found[place] for place in sorted(found))})


def planned(plan: RunPlan) -> IndexedRun:
    """The line of a run of which no stage has ended."""
    return IndexedRun(day=plan.data_date, run_id=plan.run_id, kind=plan.kind, created=plan.created, chain=plan.chain)
