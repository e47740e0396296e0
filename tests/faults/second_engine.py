"""A Docker engine of a test's own, that may be killed. It shares nothing with the machine's: not even the network.

The network namespace is no nicety: an engine without a bridge removes any `docker0` when it starts. Its host has a name
of its own, too: by that other engines know that it is none of them.
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
from pathlib import Path

import docker
import psutil
import pytest
from docker.utils import kwargs_from_env

from tests.waiting import until

NEEDS = (
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("dockerd"), reason="needs root and dockerd"),
    # The SDK forgets a socket that failed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
)
"""Marks of a test that has an engine of its own."""
PROGRAMS = ("/bin/sh", "/bin/sleep")
IMAGE = "tiny:1"


class SecondEngine:
    """Starts, kills and ends a dockerd whose whole state is in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._taken: dict[str, Path] = {}  # layers of the machine's own engine, and where they are seen
        self.address = f"unix://{folder}/s"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        folder, host = self._folder, self._folder.name.replace("_", "x")
        self._forget_the_dead()
        self._mount()
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("unshare", "--net", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh"),
                    *("dockerd", "--log-level=warn", "--iptables=false", "--ip6tables=false"),
                    *("--ip-forward=false", "--ip-masq=false", f"--host={self.address}"),
                    *(f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started = self._process
        until(lambda: started.poll() is not None or self._answers(), seconds=60)
        assert started.poll() is None, (folder / "log").read_text()[-2000:]

    def _forget_the_dead(self) -> None:
        """Its containerd dies with it; until it is reaped, its number is in /proc, and it would count as alive."""
        noted = self._folder / "exec/containerd/containerd.pid"
        if noted.is_file():
            pid = int(noted.read_text())
            until(lambda: _has_ended(pid), seconds=10)
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

    def take_image(self, name: str) -> None:
        """One of the machine's own engine; before `start`.

        It sees the layers where they are, read-only: to save and to load two gigabytes takes both cores for a minute.
        """
        with docker.APIClient(**kwargs_from_env()) as api:
            theirs = Path(api.info()["DockerRootDir"])
            graph = api.inspect_image(name)["GraphDriver"]
        assert graph["Name"] == "overlay2", graph["Name"]
        ours = self._folder / "data"
        shutil.copytree(theirs / "image", ours / "image", ignore=shutil.ignore_patterns("mounts", "tmp"))
        (ours / "overlay2/l").mkdir(parents=True)
        for diff in (graph["Data"]["UpperDir"], *graph["Data"].get("LowerDir", "").split(":")):
            layer = Path(diff).parent
            seen = ours / "overlay2" / layer.name
            shutil.copytree(layer, seen, ignore=shutil.ignore_patterns("diff", "merged"))
            (seen / "diff").mkdir()
            self._taken[diff] = seen / "diff"
            (ours / "overlay2/l" / (seen / "link").read_text()).symlink_to(f"../{layer.name}/diff")

    def _mount(self) -> None:
        """What was taken; an engine that ends unmounts it."""
        if not self._taken:
            return
        data = self._folder / "data"
        for folder in (data, data / "overlay2"):  # the engine would mount them so, and not see what is mounted below
            if not folder.is_mount():
                subprocess.run(["mount", "--bind", folder, folder], check=True)
        for theirs, ours in self._taken.items():
            if not any(ours.iterdir()):
                subprocess.run(["mount", "-o", "bind,ro", theirs, ours], check=True)

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
                with contextlib.suppress(OSError):  # a thread of it that has ended meanwhile
                    for child in children.read_text().split():
                        _kill(int(child))
            _kill(shim)
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if (mounted := line.split()[1]).startswith(f"{self._folder}/"):
                subprocess.run(["umount", "--lazy", mounted], check=False)
        shutil.rmtree(self._folder, ignore_errors=True)


def _with_libraries(program: str) -> list[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [program, *re.findall(r"(/\S+) \(0x", listed)]


def _has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
