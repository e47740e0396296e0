"""An fsync of a checkpoint fails: the save has failed, training goes on, and no descriptor is synchronised again.

After a failed fsync the kernel may have dropped the pages: a second fsync of the same descriptor would succeed, and
the bytes would be gone.
"""

import re
from pathlib import Path

import pytest

from tests.faults.acts import BEGIN, CHECK
from tests.faults.strace import changing_calls, needs_strace, started_zygote

_FAILED = re.compile(r"fsync\((\d+)\) += -1 EIO")


@pytest.mark.heavy
@needs_strace
def test_a_failed_fsync_is_a_failed_save_and_the_checkpoint_before_it_stays(tmp_path: Path) -> None:
    with started_zygote(tmp_path) as zygote:
        whole = tmp_path / "whole"
        whole.mkdir()
        BEGIN["checkpoint"](whole)
        _, log = zygote.run("checkpoint", whole)
        numbers = [number for name, number in changing_calls(log) if name == "fsync"]
        assert numbers
        for number in numbers:
            folder = tmp_path / f"{number}"
            folder.mkdir()
            BEGIN["checkpoint-fails"](folder)
            inject = ("-e", "trace=fsync,close", "-e", f"inject=fsync:error=EIO:when={number}")
            status, log = zygote.run("checkpoint-fails", folder, *inject)
            assert status == 0, log
            (failed,) = _FAILED.finditer(log)
            after = log[failed.end() :]
            same = re.search(rf"(fsync|close)\({failed[1]}\)", after)
            assert same is not None
            assert same[1] == "close", log
            CHECK["checkpoint"](folder)
