"""`ratchet nights`, `ratchet why` and `ratchet plan`: what they print, for a terminal of any width and for a pipe."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from datetime import date
from pathlib import Path

import pytest

from ratchet.cli.main import main
from ratchet.cli.plan import spans
from ratchet.contracts import paths
from ratchet.contracts.loading import load
from ratchet.contracts.request import Outcome
from ratchet.runs.planning import make_plan
from ratchet.samples import clicks
from ratchet.store.opening import open_store

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dags" / "pipelines" / "search-ranking"
DAY = date(2026, 3, 20)
CAUSE = (
    "2026-03-20: 2 of 20 checks failed\n- column price: min: least -1; allowed: at least 0\n- column country: in: 'XX'"
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with one run, which validate refused."""
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    for _ in clicks.write(tmp_path, days=3, rows_per_day=20, end=DAY, seed=0):
        pass
    spec = load(FOLDER, {"source.window_days": 3})
    uri = str(tmp_path / "store")
    make_plan(folder=FOLDER, spec=spec, data_date=DAY, run_id="r1", kind="local", store_uri=uri)
    failed = Outcome(stage="validate", state="failed", because=CAUSE, seconds=1.25)
    open_store(uri).create(paths.outcome(spec.name, "r1", "validate"), failed.model_dump_json(by_alias=True).encode())
    return uri


def on_terminal(columns: int, *arguments: str) -> list[str]:
    """The lines that `ratchet` prints on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    command = [sys.executable, "-m", "ratchet.cli.main", *arguments]
    with subprocess.Popen(command, cwd=ROOT, env=kept, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65_536):
                shown += part
        except OSError:  # a terminal whose last writer has closed it
            pass
        os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode().splitlines()


@pytest.mark.parametrize("columns", [80, 120])
def test_nights_wraps_the_reason_on_a_terminal(columns: int, store: str) -> None:
    shown = on_terminal(columns, "nights", "search-ranking", "--store", store)
    assert max(map(len, shown)) <= columns
    assert shown[0].split() == ["date", "run", "verdict", "gain", "would", "promote", "version"]
    assert shown[2].split() == ["2026-03-20", "local", "failed", "no"]
    assert " ".join(" ".join(shown[3:-1]).split()) == (
        "validate: 2026-03-20: 2 of 20 checks failed; column price: min: least -1; allowed: at least 0; "
        "column country: in: 'XX'"
    )
    assert shown[-1] == "1 date; failed 1"


def test_nights_in_a_pipe_has_one_line_for_each_run_with_the_whole_reason(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["nights", "search-ranking", "--store", store]) == 0
    heading, line, total = capsys.readouterr().out.splitlines()
    assert heading.endswith("  why")
    assert line.startswith("2026-03-20  local  failed ")
    assert line.endswith("allowed: at least 0; column country: in: 'XX'")
    assert total == "1 date; failed 1"


def test_a_stage_that_is_tried_again_by_itself_is_no_failure(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    key = paths.outcome("search-ranking", "r1", "validate")
    away = Outcome(stage="validate", state="failed", because="the engine is away", again=True)
    entry = open_store(store).head(key)
    assert entry is not None
    open_store(store).replace(key, away.model_dump_json(by_alias=True).encode(), expected=entry.etag)
    assert main(["nights", "search-ranking", "--store", store]) == 0
    _, line, total = capsys.readouterr().out.splitlines()
    assert line.split("  ")[2] == "unfinished"
    assert line.endswith("validate is tried again by itself: the engine is away")
    assert total == "1 date; unfinished 1"
    assert main(["why", "search-ranking/r1", "--store", store]) == 0
    assert "failed       0.0 s  tried again by itself: the engine is away" in capsys.readouterr().out


def test_why_lists_further_reasons_below_the_first(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "search-ranking/r1", "--store", store]) == 0
    first, *more = capsys.readouterr().out.splitlines()
    assert first == "validate  failed       1.2 s  2026-03-20: 2 of 20 checks failed"
    assert more == [f"{' ' * 31}{line}" for line in CAUSE.splitlines()[1:]]


@pytest.mark.parametrize("verb", ["why", "nights"])
def test_an_unknown_pipeline_is_an_error(verb: str, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "strange", "--store", store]) == 64
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"ratchet {verb}: no run of 'strange' in {store}; to do: check --store and the name of the pipeline\n"
    )


def test_an_unknown_run_is_an_error_that_names_the_newest(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "search-ranking/r2", "--store", store]) == 64
    assert "no run 'r2' of search-ranking" in (said := capsys.readouterr().err)
    assert "newest: r1; to do: name one of them" in said


def test_plan_lists_the_days_without_data_and_has_no_figure_before_the_first_run(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["plan", "search-ranking", "--store", store, "--set", "source.window_days=5"]
    assert main([*arguments, "--date", "2026-03-22"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1] == "3 days would be read for the first time: 2026-03-18 to 2026-03-20"
    assert shown[2] == "no data for 2 days: 2026-03-21 to 2026-03-22"
    assert shown[3].startswith("a run would stop in ingest, because 2026-03-22 has no data; deliver the day")
    assert shown[-1] == "in all no figure yet: a first run measures its stages"


def test_plan_of_a_whole_window_lists_no_missing_days(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "search-ranking", "--store", store, "--set", "source.window_days=3"]
    assert main([*arguments, "--date", "2026-03-20"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("search-ranking 2026-03-20: a window of 3 days, ")
    assert shown[2].startswith("baseline: none yet")


def test_days_that_follow_one_another_are_a_span() -> None:
    days = [date(2026, 3, day) for day in (1, 2, 3, 5, 8, 9)]
    assert list(spans(days)) == ["2026-03-01 to 2026-03-03", "2026-03-05", "2026-03-08 to 2026-03-09"]
