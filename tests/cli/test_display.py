"""The end of a run, as `ratchet run` shows it where the output is no terminal."""

from datetime import date

import pytest

from ratchet.cli.display import Display
from ratchet.contracts.errors import ConfigurationError, DataRejected, RatchetError
from ratchet.contracts.request import Outcome
from ratchet.runs.local_run import LocalRun


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
