"""Shows a run as a live table in a terminal, else as plain lines, on standard error."""

import time
from collections.abc import Sequence
from datetime import date
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import REGULAR, Stage
from ratchet.production.reconcile import sentences
from ratchet.runs.events import Event
from ratchet.runs.local_run import LocalRun

_STYLES = {"done": "green", "cached": "cyan", "skipped": "yellow", "failed": "bold red", "running": "bold"}


class Display:
    """Shows the stages of one run while they run."""

    def __init__(self, pipeline: str, day: date, note: str, stages: Sequence[Stage] = REGULAR) -> None:
        """stages: of the run, in order."""
        self._console = Console(stderr=True)
        self._title = f"{pipeline} {day} ({note})"
        self._stages = stages
        self._started: dict[Stage, float] = {}
        self._ended: dict[Stage, Outcome] = {}
        self._messages: dict[Stage, str] = {}
        self._live = Live(console=self._console, get_renderable=self._table, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        else:
            self._console.print(self._title, highlight=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def stage(self, stage: Stage, outcome: Outcome | None) -> None:
        """Show that a stage began (None) or ended."""
        if outcome is None:
            self._started[stage] = time.monotonic()
        else:
            self._ended[stage] = outcome
            if not self._console.is_terminal:
                state = "cached" if outcome.cached else outcome.state
                self._console.print(f"  {stage:<9} {state:<8} {outcome.seconds:6.1f} s", highlight=False, markup=False)

    def event(self, stage: Stage, event: Event) -> None:
        """Show a line of a stage's log."""
        if event.name in {"progress", "info", "attempt"}:
            self._messages[stage] = event.message
            if event.name == "attempt" and not self._console.is_terminal:
                self._console.print(f"  {stage}: {event.message}", highlight=False, markup=False, soft_wrap=True)
        elif event.level == "warning":  # `end` shows the error of a failed stage
            self._console.print(Text(f"  {stage}: {event.message}", style="yellow"), soft_wrap=True)

    def end(self, run: LocalRun) -> None:
        """Show the verdict, the model, the error and the report."""
        judged, registered = run.judgement, run.registration
        lines = []
        if judged:
            lines.append(f"{judged.verdict}: {judged.explanation}")
        if registered:
            repeated = f", a refit of the measured model {registered.refit_of[:12]}" if registered.refit_of else ""
            lines.append(f"model {registered.model} version {registered.version}{repeated}: {run.in_production}")
        elif judged and (refused := run.refit_refused):
            lines.append(f"nothing is shipped: {refused}")
        if run.error:
            lines += _failure(run.error)
            if run.error.log and run.error.log not in run.error.remedy:
                lines.append(f"log {run.error.log}")
        if run.report:
            lines.append(f"report {run.report}")
        for line in lines:
            self._console.print(Text("  " + line), soft_wrap=True)
        for line in dict.fromkeys((*run.plan.production, *sentences(run.plan.spec.model_name, run.production))):
            self._console.print(Text(f"  production: {line}", style="yellow"), soft_wrap=True)

    def _table(self) -> Table:
        table = Table(title=self._title, title_justify="left", box=None, pad_edge=False)
        for heading in ("stage", "state", "seconds", ""):
            table.add_column(heading, justify="right" if heading == "seconds" else "left")
        for stage in self._stages:
            table.add_row(stage, *self._row(stage))
        return table

    def _row(self, stage: Stage) -> tuple[Text | str, str, str]:
        if outcome := self._ended.get(stage):
            state = "cached" if outcome.cached else outcome.state
            note = outcome.because if outcome.state != "done" else self._messages.get(stage, "")
            return Text(state, style=_STYLES[state]), f"{outcome.seconds:.1f}", note.partition("\n")[0][:100]
        if stage in self._started:
            seconds = time.monotonic() - self._started[stage]
            return Text("running", style=_STYLES["running"]), f"{seconds:.1f}", self._messages.get(stage, "")[:100]
        return "", "", ""


def _failure(error: RatchetError) -> list[str]:
    """An error in one line; one that lists the failed checks in a line for each, and a last one with the remedy."""
    first, *more = error.cause.splitlines()
    if not more:
        return [f"failed: {error}"]
    return [f"failed: {first}", *(f"  {line}" for line in more), f"to do: {error.remedy}"]
