import pytest

from ratchet.contracts.exits import ExitCode
from team.engine_filter.__main__ import main
from tests.team.engine_filter.running import Running


@pytest.mark.docker
def test_healthy_says_nothing_and_ends_with_0(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_FILTER_INSTALLATION", "here")
    monkeypatch.setenv("ENGINE_FILTER_LISTEN", f"{running.host}:{running.port}")
    assert main(["healthy"]) == 0


def test_unhealthy_says_why_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ENGINE_FILTER_INSTALLATION", "here")
    monkeypatch.setenv("ENGINE_FILTER_LISTEN", "127.0.0.1:1")
    assert main(["healthy"]) == ExitCode.UNAVAILABLE
    said = capsys.readouterr().err
    assert "nothing answers at 127.0.0.1:1" in said
    assert said.count("\n") == 1


def test_a_wrong_setting_ends_it_before_it_listens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGINE_FILTER_INSTALATION", "here")
    assert main([]) == ExitCode.BAD_CONFIGURATION
    assert "did you mean ENGINE_FILTER_INSTALLATION?" in capsys.readouterr().err
