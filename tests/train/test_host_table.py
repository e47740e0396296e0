"""The ranks of a host have one table of rows; nothing can change it, and nothing is left of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tasks.train.table import MemoryBuilder
from tests.ports import hold, number
from tests.train.one_host import digest, joined

_LONGEST_S = 120


def start(size: int, *, of_host: int, **options: Any) -> list[Any]:
    """What each of `size` ranks says; as many of them as `of_host` say that they share a host."""
    command = [sys.executable, "-m", "tests.train.one_host", json.dumps(options)]
    with hold() as meeting:
        ranks = []
        for rank in range(size):
            several = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(of_host)}
            address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{number(meeting)}", "GLOO_SOCKET_IFNAME": "lo"}
            env = {**os.environ, **several, **address}
            ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        said = [each.communicate(timeout=_LONGEST_S)[0] for each in ranks]
    assert [each.returncode for each in ranks] == [0] * size
    return [json.loads(one) if one else None for one in said]


def test_the_first_rank_of_each_host_reads_and_the_others_map_what_it_made() -> None:
    found = start(4, of_host=2)
    assert [each["read"] for each in found] == [True, False, True, False]
    assert {each["digest"] for each in found} == {digest(joined(MemoryBuilder))}
    assert {each["rights"] for each in found} == {"r--s"}
    inodes = [each["inode"] for each in found]
    assert inodes[0] == inodes[1] != inodes[2] == inodes[3]
    assert not any(each["file"] for each in found)


def test_a_table_on_a_disk_is_one_too_and_has_no_name_while_it_is_in_use(tmp_path: Path) -> None:
    found = start(2, of_host=2, folder=str(tmp_path))
    assert [each["read"] for each in found] == [True, False]
    assert {each["digest"] for each in found} == {digest(joined(MemoryBuilder))}
    assert [(each["file"], each["left"], each["rights"]) for each in found] == [(True, 0, "r--s")] * 2
    assert found[0]["inode"] == found[1]["inode"]


def test_a_rank_that_dies_while_it_reads_leaves_nobody_waiting() -> None:
    assert start(2, of_host=2, dies=True) == [None, "lost"]
