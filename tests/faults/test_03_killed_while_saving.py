"""SIGKILL at every system call while a training that received a notice to stop saves its state: no bit is lost."""

from pathlib import Path

import pytest

from tests.faults.strace import killed_at_every_call, needs_strace, started_zygote


@pytest.mark.heavy
@needs_strace
def test_a_kill_at_any_call_of_the_last_save_changes_no_bit_of_the_final_weights(tmp_path: Path) -> None:
    with started_zygote(tmp_path) as zygote:
        assert set(killed_at_every_call("stop", zygote, tmp_path)) == {False, True}
