"""How many processes the kernel has killed for their memory, as it counts them itself (see cgroups(7)).

The count is of this process's own memory cgroup, to which its children belong: not of the containers beside it, whose
limits are theirs. Where there is no such cgroup, as at the root of the second version, it is the count of the host.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_PROC = Path("/proc")


def memory_kills(proc: Path = _PROC) -> int:
    """Since the cgroup was made, or the host started; 0 where neither says. proc: where Linux says it."""
    for counter in (*_counters(proc), proc / "vmstat"):
        try:
            lines = counter.read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0


def _counters(proc: Path) -> Iterator[Path]:
    """The files that may have the count of this process's own cgroup, in either version of cgroups."""
    try:
        groups = [line.split(":", 2) for line in (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()]
        mounts = [line.split() for line in (proc / "self" / "mountinfo").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return
    for mount in mounts:
        root, point = mount[3:5]
        kind, *_, options = mount[mount.index("-") + 1 :]  # what was mounted may have no name
        for _, controllers, group in groups:
            path = PurePosixPath(group)
            if not path.is_relative_to(root):
                continue
            folder = Path(point) / path.relative_to(root)
            if kind == "cgroup" and "memory" in options.split(",") and "memory" in controllers.split(","):
                yield folder / "memory.oom_control"
            if kind == "cgroup2" and not controllers:
                yield folder / "memory.events.local"
