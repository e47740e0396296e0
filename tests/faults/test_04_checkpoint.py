"""SIGKILL at every system call of a save leaves the checkpoint before it or the new one, whole."""

from pathlib import Path

import pytest

from tests.faults.strace import killed_at_every_call, needs_strace, started_zygote


@pytest.mark.heavy
@needs_strace
def test_a_kill_at_any_call_leaves_the_old_checkpoint_or_the_new(tmp_path: Path) -> None:
    with started_zygote(tmp_path) as zygote:
        assert set(killed_at_every_call("checkpoint", zygote, tmp_path)) == {False, True}
