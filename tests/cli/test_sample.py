"""`ratchet sample`, `ratchet run` on a terminal, and the choice of a runner."""

import io
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from ratchet.cli.display import Display
from ratchet.cli.main import main
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.request import Outcome
from ratchet.runners.choice import choose_image, choose_runner, stage_image
from ratchet.runs.events import Event


@pytest.mark.parametrize("kind", ["clicks", "payments"])
def test_sample_writes_the_requested_days(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sample", kind, "--days", "2", "--rows-per-day", "200", "--end", "2026-03-20", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert f"2 days of {kind} up to 2026-03-20" in capsys.readouterr().out
    assert sorted(path.parent.name for path in tmp_path.rglob("*.parquet")) == ["date=2026-03-19", "date=2026-03-20"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--days", "0"), "--days must be above 0"),
        (("--rows-per-day", "0"), "--rows-per-day must be above 0"),
        (("--end", "soon"), "--end: 'soon' is not a date"),
    ],
)
def test_sample_refuses_invalid_flags(
    more: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sample", "clicks", "--out", str(tmp_path), *more]) == 64
    assert said in capsys.readouterr().err


def test_a_terminal_shows_a_live_table(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr("ratchet.cli.display.Console", lambda **_: console)
    with Display("ranker", date(2026, 3, 20), "stages run as processes") as display:
        display.stage("ingest", None)
        display.stage("ingest", Outcome(stage="ingest", state="done", seconds=1.5))
        display.stage("validate", None)
        display.event("validate", Event(name="progress", level="info", message="checked 3 of 30 days"))
        display.event("validate", Event(name="warning", level="warning", message="one day is missing"))
    shown = screen.getvalue()
    for text in ("ranker 2026-03-20 (stages run as processes)", "1.5", "checked 3 of 30 days", "one day is missing"):
        assert text in shown


def test_a_pipe_shows_why_a_stage_waits_and_not_each_line_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=40)
    monkeypatch.setattr("ratchet.cli.display.Console", lambda **_: console)
    waits = "run local-2026-03-20 computes the same since 08:00:00; waiting for it"
    with Display("ranker", date(2026, 3, 20), "") as display:
        display.stage("train", None)
        display.event("train", Event(name="attempt", level="info", message=waits))
        display.event("train", Event(name="info", level="info", message="epoch 1"))
    assert f"  train: {waits}\n" in screen.getvalue()
    assert "epoch" not in screen.getvalue()


def test_processes_are_chosen_on_request_and_where_no_engine_is_set_up_and_never_because_one_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner, how = choose_runner("process")
    assert how == "stages run as processes"
    assert choose_image(runner, gpu=False) == (None, "")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr("ratchet.runners.engine._SOCKET", "/nonexistent")
    assert "NO DOCKER ENGINE" in choose_runner(None)[1]
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    for wanted in (None, "docker"):
        with pytest.raises(Unavailable, match="no Docker engine answers: ") as silent:
            choose_runner(wanted)
        assert "`ratchet run --runner process`, in Airflow RATCHET_RUNNER=process" in str(silent.value)
    with pytest.raises(ConfigurationError, match="runner 'podman' is unknown; allowed: process, docker"):
        choose_runner("podman")


def test_the_image_is_the_one_named_or_the_one_built_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_STAGE_IMAGE", "registry/stage:1")
    assert stage_image(gpu=False) == "registry/stage:1"
    assert stage_image(gpu=True) == "registry/stage:1"
    monkeypatch.setenv("RATCHET_STAGE_IMAGE_GPU", "registry/stage:1-cuda")
    assert (stage_image(gpu=True), stage_image(gpu=False)) == ("registry/stage:1-cuda", "registry/stage:1")
    monkeypatch.delenv("RATCHET_STAGE_IMAGE_GPU")
    monkeypatch.delenv("RATCHET_STAGE_IMAGE")
    assert stage_image(gpu=True).startswith("ratchet-stage:gpu")
