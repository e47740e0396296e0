"""A Docker engine of a test's own, that may be killed. It shares nothing with the machine's: not even the network.

The network namespace is no nicety: an engine without a bridge removes `docker0` when it starts, whoever made it.
"""

import contextlib
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from pathlib import Path

import docker

PROGRAMS = ("/bin/sh", "/bin/sleep")
IMAGE = "tiny:1"


class SecondEngine:
    """Starts, kills and ends a dockerd whose whole state is in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"unix://{folder}/s"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        folder = self._folder
        self._forget_the_dead()
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("unshare", "--net", "dockerd", "--log-level=warn", "--iptables=false", "--ip6tables=false"),
                    *("--ip-forward=false", "--ip-masq=false", f"--host={self.address}"),
                    *(f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while not self._answers():
            assert self._process.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the second engine does not answer"
            time.sleep(0.05)

    def _forget_the_dead(self) -> None:
        """Its containerd dies with it; whose number still stands in /proc until it is reaped would count as alive."""
        noted = self._folder / "exec/containerd/containerd.pid"
        if noted.is_file():
            stat = Path(f"/proc/{noted.read_text()}/stat")
            deadline = time.monotonic() + 10
            while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
                assert time.monotonic() < deadline, "containerd outlived its engine"
                time.sleep(0.01)
            noted.unlink()

    def _processes(self) -> list[int]:
        """What names the folder in its command line: containerd, and the shim of each container."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{self._folder}/".encode() in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
        return found

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as asked:  # the SDK forgets sockets that failed
            asked.settimeout(5)
            try:
                asked.connect(f"{self._folder}/s")
                asked.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b"200 OK" in asked.recv(1024)
            except OSError:
                return False

    def kill(self) -> None:
        """SIGKILL to the engine alone; its containers go on."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM: it ends its containers, and then itself."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(60)

    def load_image(self) -> None:
        """An image of this machine's own shell, and no more."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name in ("tmp", "run"):
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(folder)
            for path in sorted({path for program in PROGRAMS for path in _with_libraries(program)}):
                tar.add(os.path.realpath(path), arcname=path)
        with docker.APIClient(base_url=self.address) as api:
            api.import_image_from_data(packed.getvalue(), repository="tiny", tag="1")

    def clear(self) -> None:
        """End what is left of it, and remove its state."""
        if self._process is not None and self._process.poll() is None:
            self.stop()
        for shim in self._processes():
            for children in Path(f"/proc/{shim}/task").glob("*/children"):
                for child in children.read_text().split():
                    _kill(int(child))
            _kill(shim)
        for line in Path("/proc/self/mounts").read_text().splitlines():
            if (mounted := line.split()[1]).startswith(f"{self._folder}/"):
                subprocess.run(["umount", "--lazy", mounted], check=False)
        shutil.rmtree(self._folder, ignore_errors=True)


def _with_libraries(program: str) -> list[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [program, *re.findall(r"(/\S+) \(0x", listed)]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
