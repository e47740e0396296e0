"""SIGKILL at every system call between a ledger's record and the alias: the next run ends with the right alias."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.strace import Zygote, killed_at_every_call, needs_strace, started_zygote


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    with started_zygote(tmp_path_factory.mktemp("zygote")) as started:
        yield started


@needs_strace
def test_a_crash_between_record_and_alias_is_mended_by_the_next_look(zygote: Zygote, tmp_path: Path) -> None:
    # Kills hit before and after the call that commits the alias.
    assert set(killed_at_every_call("follow", zygote, tmp_path)) == {False, True}
