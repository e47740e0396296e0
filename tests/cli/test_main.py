"""How the command line's process ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.cli import main

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import atexit, sys
from ratchet.cli.main import end
atexit.register(print, "tidied up")
print("published", end=" ")
end(75)
"""


@pytest.mark.parametrize(("verb", "said"), [("stage", "published "), ("run", "published tidied up\n")])
def test_a_stage_ends_at_once_with_its_last_words_and_its_exit_code(verb: str, said: str) -> None:
    command = [sys.executable, "-c", PROGRAM, verb]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (75, said, "")


def test_status_is_a_verb_only_where_the_embedded_set_up_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(main._CHECKOUT_VERBS) == {"status"}
    assert "status" in main._verbs()
    monkeypatch.setattr(main, "ROOT", tmp_path)
    assert "status" not in main._verbs()
