"""The kernel's count of processes that it killed for their memory."""

from pathlib import Path

import pytest

from ratchet.runtime.memory_kills import memory_kills

V1 = ("4:memory:/docker/ab", "0::/"), "35 31 0:32 {root} {mount} rw,relatime - cgroup cgroup rw,memory"
V2 = ("0::/docker/ab",), "31 23 0:28 {root} {mount} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"


@pytest.mark.parametrize(
    ("version", "counter"), [(V1, "memory.oom_control"), (V2, "memory.events.local")], ids=["v1", "v2"]
)
@pytest.mark.parametrize(("root", "folder"), [("/", "docker/ab"), ("/docker/ab", "")])
def test_the_count_is_that_of_the_own_cgroup(
    tmp_path: Path, version: tuple[tuple[str, ...], str], counter: str, root: str, folder: str
) -> None:
    groups, mount = version
    of_host(tmp_path, 31)
    described(tmp_path, groups, mount.format(root=root, mount=tmp_path / "cgroups"))
    own = tmp_path / "cgroups" / folder
    own.mkdir(parents=True, exist_ok=True)
    (own / counter).write_text("under_oom 0\noom_kill 2\n", encoding="ascii")
    assert memory_kills(tmp_path) == 2


def test_at_a_root_without_a_count_it_is_that_of_the_host(tmp_path: Path) -> None:
    of_host(tmp_path, 31)
    described(tmp_path, ("0::/",), V2[1].format(root="/", mount=tmp_path / "cgroups"))
    assert memory_kills(tmp_path) == 31


def test_in_a_cgroup_that_is_not_mounted_here_it_is_that_of_the_host(tmp_path: Path) -> None:
    of_host(tmp_path, 31)
    described(tmp_path, ("0::/elsewhere",), V2[1].format(root="/docker/ab", mount=tmp_path))
    assert memory_kills(tmp_path) == 31


def test_a_mount_without_a_source_is_no_obstacle(tmp_path: Path) -> None:
    of_host(tmp_path, 31)
    mounts = f"30 23 0:27 / /run/x rw,relatime - tmpfs  rw\n{V2[1].format(root='/docker/ab', mount=tmp_path)}"
    described(tmp_path, V2[0], mounts)
    (tmp_path / "memory.events.local").write_text("oom_kill 2\n", encoding="ascii")
    assert memory_kills(tmp_path) == 2


def test_where_nothing_says_it_is_none(tmp_path: Path) -> None:
    assert memory_kills(tmp_path) == 0


def of_host(proc: Path, count: int) -> None:
    (proc / "vmstat").write_text(f"nr_free_pages 7\noom_kill {count}\n", encoding="ascii")


def described(proc: Path, groups: tuple[str, ...], mount: str) -> None:
    (proc / "self").mkdir()
    (proc / "self" / "cgroup").write_text("\n".join(groups), encoding="utf-8")
    (proc / "self" / "mountinfo").write_text(mount, encoding="utf-8")
