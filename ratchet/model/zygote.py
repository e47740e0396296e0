"""Where the processes of models come from: one process that has loaded the libraries, and forks for each model.

Libraries take seconds to load. The zygote loads them once for candidate and champion, and nothing of ours.

A change here violates the promise of the project when a fork starts with anything that belongs to another model.
"""

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from ratchet.checkout import ROOT
from ratchet.contracts.errors import Unavailable
from ratchet.model import child

_KEPT = frozenset({"PATH", "LANG", "TZ", "HOME", "TMPDIR", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE"})
_KEPT_STARTS = ("LC_", "LD_", "KMP_", "MKL_", "MALLOC_", "CUDA_", "NVIDIA_", "TORCH_", "ATEN_", "MLFLOW_DISABLE_")
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Blocks of a few hundred rows gain nothing by more, and the processes of two models share the processors."""
_LIBRARIES = ("numpy", "pandas", "pyarrow", "pydantic", "safetensors.torch", "torch")
"""What the package of every model needs."""
REGISTERED = ("mlflow.pyfunc",)
"""What a registered model needs beside them."""
_ANSWER = 64
_LOCK = Lock()
_running: dict[tuple[int, tuple[str, ...]], "Zygote"] = {}


class Zygote:
    """A process that forks for each model."""

    def __init__(self, *more: str) -> None:
        """more: libraries to load beside those of every model."""
        self._orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-s",
                    child.__file__,
                    str(theirs.fileno()),
                    str(os.getpid()),
                    *_LIBRARIES,
                    *more,
                ],
                stdin=subprocess.DEVNULL,
                env=environment(os.environ),
                pass_fds=(theirs.fileno(),),
            )

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def fork(self, link: socket.socket, package: Path, model: Path, folder: Path) -> int:
        """The number of a new process that loads the model and answers on the link."""
        return self._order({"package": str(package), "model": str(model), "folder": str(folder)}, link)

    def end(self, number: int) -> int:
        """End a fork that may have ended already. Its exit code; minus the signal that ended it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
        return self.wait(number)

    def wait(self, number: int) -> int:
        """Wait for a fork that is about to end. Its exit code; minus the signal that ended it."""
        return self._order({"wait": number})

    def close(self) -> None:
        """End this process, and its forks with it."""
        self._orders.close()
        self._process.kill()
        self._process.wait()

    def _order(self, order: Mapping[str, object], link: socket.socket | None = None) -> int:
        with _LOCK:
            try:
                socket.send_fds(self._orders, [json.dumps(order).encode()], [link.fileno()] if link else [])
                answer = self._orders.recv(_ANSWER)
            except OSError:
                answer = b""
        if not answer:
            code = self._process.wait()
            raise Unavailable(f"the process that starts those of models ended with {code}", remedy="run again")
        return int(json.loads(answer))


def zygote(*more: str) -> Zygote:
    """The zygote of this process that has these libraries beside those of every model; a new one if it has ended.

    It lives as long as this process.
    """
    key = (os.getpid(), more)
    found = _running.get(key)
    if found is None or not found.alive:
        found = _running[key] = Zygote(*more)
        atexit.register(found.close)
    return found


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """What a model's process inherits: no credentials, no settings of ours, and import paths without our own code."""
    kept = {name: value for name, value in given.items() if name in _KEPT or name.startswith(_KEPT_STARTS)}
    paths = [path for path in given.get("PYTHONPATH", "").split(os.pathsep) if path]
    others = [path for path in paths if Path(path).resolve() != ROOT]
    return {**kept, **_ONE_THREAD, **({"PYTHONPATH": os.pathsep.join(others)} if others else {})}
