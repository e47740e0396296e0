"""SIGKILL at every system call of a checkpoint, and while a training that was stopped saves its state."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.strace import STRACE, Zygote, killed_at_every_call, started_zygote

pytestmark = [pytest.mark.heavy, pytest.mark.skipif(STRACE is None, reason="strace is not installed")]


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    with started_zygote(tmp_path_factory.mktemp("zygote")) as started:
        yield started


@pytest.mark.parametrize("act", ["checkpoint", "stop"])
def test_a_kill_at_any_call_leaves_the_old_checkpoint_or_the_new(act: str, zygote: Zygote, tmp_path: Path) -> None:
    assert set(killed_at_every_call(act, zygote, tmp_path)) == {False, True}
