"""`python -m local serve` with a wrong setting."""

import sys
from pathlib import Path

import pytest

from local.__main__ import main
from ratchet.contracts.exits import ExitCode


def test_a_wrong_time_of_the_digest_is_one_clear_line_before_a_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["local", "serve", "--home", str(tmp_path)])
    monkeypatch.setenv("RATCHET_DIGEST", "half past seven")
    assert main() == ExitCode.BAD_CONFIGURATION
    assert capsys.readouterr().out == (
        "serve: RATCHET_DIGEST: 'half' is not a time of day; write it like 04:00; "
        "to do: set it like RATCHET_DIGEST=07:30 Europe/Berlin, or unset it\n"
    )
    assert not [*tmp_path.iterdir()]
