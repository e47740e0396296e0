"""The end of a run, as `ratchet run` shows it where the output is no terminal."""

import io
from datetime import date

import pytest
from rich.console import Console

from ratchet.cli.display import Display
from ratchet.contracts.errors import ConfigurationError, DataRejected, RatchetError
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import REGULAR, STAGES, Stage
from ratchet.runs.local_run import LocalRun
from tests.runs.test_requests import JUDGED, TRAINED, outcome


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ConfigurationError("no column a", remedy="add it"), ["  failed: no column a; to do: add it"]),
        (
            DataRejected("2 of 20 checks failed\n- price: min\n- country: in", remedy="read the page"),
            ["  failed: 2 of 20 checks failed", "    - price: min", "    - country: in", "  to do: read the page"],
        ),
    ],
)
def test_a_failure_has_its_time_and_one_line_for_each_check(
    planned: LocalRun, error: RatchetError, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with Display("shop", date(2026, 3, 20), "a note") as display:
        display.stage("validate", Outcome(stage="validate", state="failed", because=error.cause, seconds=1.25))
        display.end(LocalRun(plan=planned.plan, outcomes={}, error=error, report=None))
    assert capsys.readouterr().err.splitlines() == [
        "shop 2026-03-20 (a note)", "  validate  failed      1.2 s", *shown
    ]  # fmt: skip


COMPARED = {"of": "a" * 64, "loss": 9, "measured_loss": 1, "metric": "auc", "score": 0.5, "measured_score": 0.7}


def ended(planned: LocalRun, *, refused: str, registered: bool) -> LocalRun:
    made = {"model": "shop", "version": "7", "mlflow_run_id": "r", "promoted": True, "refit_of": "a" * 64}
    outcomes: dict[Stage, Outcome] = {
        "evaluate": outcome("evaluate", summary=JUDGED),
        "refit": outcome("refit", summary={**TRAINED, "refit": {**COMPARED, "refused": refused}}),
        **({"register": outcome("register", summary=made)} if registered else {}),
    }
    return LocalRun(plan=planned.plan, outcomes=outcomes, error=None, report=None)


@pytest.mark.parametrize(
    ("refused", "line"),
    [
        ("", "  model shop version 7, a refit of the measured model aaaaaaaaaaaa: in production"),
        ("refit-diverged: the loss is 9", "  nothing is shipped: refit-diverged: the loss is 9"),
    ],
)
def test_a_refit_is_shown_as_one_and_a_refused_one_with_its_reason(
    planned: LocalRun, refused: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Display("shop", date(2026, 3, 20), "") as display:
        display.end(ended(planned, refused=refused, registered=not refused))
    assert capsys.readouterr().err.splitlines()[1:] == ["  promote: better by 2 %", line]


@pytest.mark.parametrize("refit", [True, False])
def test_a_terminal_lists_a_refit_only_for_a_pipeline_that_has_one(
    refit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr("ratchet.cli.display.Console", lambda **_: console)
    stages = STAGES if refit else REGULAR
    with Display("shop", date(2026, 3, 20), "", stages):
        pass
    assert ("refit" in screen.getvalue()) is refit
