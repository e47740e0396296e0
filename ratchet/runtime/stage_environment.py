"""The environment of a stage as its own process finds it, at its end: what it has imported, not what a lock file says.

A change here violates the promise of the project when a record names a library that did not run.
"""

import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from ratchet.contracts.stage_environment import StageEnvironment
from ratchet.runtime.release import DECISIVE

_PACKAGES = {"great-expectations": "great_expectations", "mlflow-skinny": "mlflow"}
"""The module of a library where its name is another one."""
_MODES = ("off", "warn", "error")


def stage_environment() -> StageEnvironment:
    """Of this process, now. Imports nothing."""
    torch = sys.modules.get("torch")
    return StageEnvironment(
        python=platform.python_version(),
        platform=platform.platform(),
        processor=_processor(),
        libraries=_libraries(),
        **({} if torch is None else _torch(torch)),
    )


def _libraries() -> dict[str, str]:
    found = {}
    for name in sorted(DECISIVE):
        if _PACKAGES.get(name, name) in sys.modules:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:  # a build without its own metadata, such as a vendored one
                found[name] = str(getattr(sys.modules[_PACKAGES.get(name, name)], "__version__", "unknown"))
    return found


def _torch(torch: Any) -> dict[str, Any]:
    used = torch.cuda.is_initialized()
    return {
        "instructions": str(torch.backends.cpu.get_cpu_capability()),
        "torch_build": str(torch.version.git_version or ""),
        "threads": int(torch.get_num_threads()),
        "deterministic": _MODES[torch.get_deterministic_debug_mode()],
        "device": str(torch.cuda.get_device_name()) if used else "cpu",
        "capability": "{}.{}".format(*torch.cuda.get_device_capability()) if used else "",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
