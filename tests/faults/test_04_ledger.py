"""SIGKILL at every system call of a record of production that changes a file: the old state or the new, never a mix."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.strace import Zygote, killed_at_every_call, needs_strace, started_zygote


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    with started_zygote(tmp_path_factory.mktemp("zygote")) as started:
        yield started


@needs_strace
@pytest.mark.parametrize("act", ["promote", "begin", "adopt", "rollback"])
def test_a_kill_at_any_call_leaves_the_old_state_or_the_new(act: str, zygote: Zygote, tmp_path: Path) -> None:
    # Kills hit before and after the one call that makes the difference.
    assert set(killed_at_every_call(act, zygote, tmp_path)) == {False, True}
