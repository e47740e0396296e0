"""How many processes the kernel has killed for their memory, as it counts them itself."""

from pathlib import Path


def memory_kills() -> int:
    """Since the host started; 0 where it does not say."""
    try:
        for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    except OSError:
        pass
    return 0
