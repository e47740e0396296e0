"""Where an event happened: a stage of a run, read from a callback's context. Any part of it may be missing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from ratchet.contracts.errors import RatchetError
from ratchet_airflow.data_date import data_date
from ratchet_airflow.public_links import public
from ratchet_airflow.run_id import store_run_id

Context = Mapping[str, Any]
RUN = "run"
"""The name in place of a stage if the whole run is meant."""
_BACKFILL = "backfill__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A stage of a run, or the run.

    run_id: Airflow's. episode: the run's start, which changes when a person clears the run. try_number, max_tries: as
    Airflow counts them; None without a task.
    """

    pipeline: str
    run_id: str
    stage: str = RUN
    date: str = ""
    episode: str = ""
    try_number: int | None = None
    max_tries: int | None = None
    link: str = ""

    @classmethod
    def of(cls, context: Context, *, pipeline: str, timezone: str) -> Self:
        """From the context of a callback."""
        task, run = context.get("ti"), context.get("dag_run")
        return cls(
            pipeline=pipeline,
            run_id=str(context.get("run_id") or getattr(run, "run_id", "")),
            stage=str(getattr(task, "task_id", RUN)),
            date=_date(context, timezone),
            episode=episode_of(getattr(run, "start_date", None)),
            try_number=getattr(task, "try_number", None),
            max_tries=getattr(task, "max_tries", None),
            link=public(str(getattr(task, "log_url", ""))),
        )

    @property
    def attempt(self) -> str:
        """Such as `1 of 3`; empty without a task."""
        if self.try_number is None or self.max_tries is None:
            return ""
        return f"{self.try_number} of {max(self.max_tries + 1, self.try_number)}"

    @property
    def stored_run_id(self) -> str:
        """The run's id in the store."""
        return store_run_id(self.run_id)

    @property
    def backfill(self) -> bool:
        """Whether the run belongs to a backfill, which has one summary for all its runs."""
        return self.run_id.startswith(_BACKFILL)

    @property
    def run_link(self) -> str:
        """The run's page, from the link of its task."""
        return self.link.partition("/tasks/")[0] if "/tasks/" in self.link else ""

    def whole_run(self) -> Self:
        """The run that the stage is part of."""
        return replace(self, stage=RUN, try_number=None, max_tries=None, link=self.run_link)

    def previous_try(self) -> Self:
        """The try before this one."""
        number = (self.try_number or 1) - 1
        return replace(
            self, try_number=number, link=self.link.replace(f"?try_number={number + 1}", f"?try_number={number}")
        )


def episode_of(started: datetime | None) -> str:
    """A run's start in one spelling for all processes. A run that is cleared after its end starts again."""
    return started.astimezone(UTC).isoformat() if started else ""


def _date(context: Context, timezone: str) -> str:
    try:
        return data_date(context, timezone).isoformat()
    except (RatchetError, KeyError, AttributeError, TypeError):
        return ""
