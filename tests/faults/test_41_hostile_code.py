"""User code that tries to get out of its stage's container, as the runner makes it, and reports what it reached."""

import json
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.utils import kwargs_from_env

from ratchet.contracts.labels import Label
from ratchet.contracts.stages import Resources
from ratchet.runners.docker import DockerRunner
from ratchet.runners.following import JobEnd, follow_to_end
from ratchet.runners.job import Job, Mount
from ratchet.runners.log.lines import Line
from tests.readable import readable_by_all

pytestmark = pytest.mark.docker

Attack = Callable[..., tuple[JobEnd, Any]]


@pytest.fixture
def attack(stage_image: str) -> Iterator[Attack]:
    """Runs code with `reached`, a dict from what it tried to whether it worked; its last line says so."""
    labels = {Label.TEST: "1", Label.TEST_ID: uuid.uuid4().hex}

    def run(code: str, **settings: Any) -> tuple[JobEnd, Any]:
        command = ("python", "-I", "-S", "-c", f"{PRELUDE}{code}\nprint(json.dumps(reached), flush=True)")
        lines: list[Line] = []
        job = Job(name="job", request=b"{}", image=stage_image, labels=labels, command=command, **settings)
        runner = DockerRunner()
        ended = follow_to_end(runner, runner.submit(job), job, lines.append)
        try:
            return ended, json.loads(lines[-1].text)
        except (ValueError, IndexError):
            return ended, None

    yield run
    assert DockerRunner().find(labels) == []


PRELUDE = """
import ctypes, json, os, signal, socket, subprocess, sys, time
reached = {}
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, act):
    try:
        reached[name] = bool(act())
    except Exception:
        reached[name] = False
"""

ESCAPES = """
for path in ("/x", "/etc/passwd", "/opt/ratchet/x", "/usr/bin/x", "/run/ratchet/request.json", "/run/ratchet/secrets/x", "/proc/sys/kernel/core_pattern",
             "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/memory/release_agent", "/dev/mem", "/dev/sda"):
    attempt("write " + path, lambda: open(path, "w"))
attempt("mknod", lambda: os.mknod("/tmp/device", 0o600 | 0o060000, os.makedev(8, 0)) is None)
attempt("chroot", lambda: os.chroot("/tmp") is None)
attempt("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0)
attempt("remount", lambda: libc.mount(b"none", b"/", None, 32, None) == 0)
attempt("root", lambda: os.setuid(0) is None)
attempt("user namespace", lambda: libc.unshare(0x10000000) == 0)
attempt("mount namespace", lambda: libc.unshare(0x00020000) == 0)
attempt("clock", lambda: time.clock_settime(time.CLOCK_REALTIME, 0) is None)
attempt("host name", lambda: socket.sethostname("x") is None)
attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
attempt("other processes", lambda: [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid(), os.getppid())])
attempt("an engine's socket", lambda: [path for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock") if os.path.exists(path)])
attempt("priority", lambda: os.nice(-5) is not None)
attempt("core files", lambda: __import__("resource").setrlimit(4, (-1, -1)) is None)
"""


def test_nothing_of_the_machine_is_within_reach(attack: Attack) -> None:
    ended, reached = attack(ESCAPES)
    assert ended.exit_code == 0
    assert [name for name, worked in reached.items() if worked] == []
    assert len(reached) > 25


SETUID = """
import stat
names = [os.path.join(folder, name) for top in ("/bin", "/sbin", "/usr") for folder, _, files in os.walk(top) for name in files]
programs = [name for name in names if os.path.isfile(name) and os.stat(name).st_mode & (stat.S_ISUID | stat.S_ISGID)]
reached["programs"] = programs
reached["root by one of them"] = [name for name in programs if name.endswith("/su") and subprocess.run([name, "-c", "id -u"], input=b"", capture_output=True, timeout=20).stdout.strip() == b"0"]
open("/tmp/mine", "wb").write(open("/bin/true", "rb").read())
os.chmod("/tmp/mine", 0o4755)
attempt("run from /tmp", lambda: subprocess.run(["/tmp/mine"]).returncode == 0)
attempt("privileges", lambda: "NoNewPrivs:\\t1" not in open("/proc/self/status").read())
"""


def test_no_program_makes_it_root_and_nothing_it_writes_can_be_run(attack: Attack) -> None:
    ended, reached = attack(SETUID)
    assert ended.exit_code == 0
    assert {**reached, "programs": None} == {
        "programs": None,
        "root by one of them": [],
        "run from /tmp": False,
        "privileges": False,
    }


NETWORK = """
socket.setdefaulttimeout(3)
def connect(host, port):
    with socket.create_connection((host, port)):
        return True
for host, port in HOSTS:
    attempt(f"{host}:{port}", lambda: connect(host, port))
attempt("names", lambda: socket.getaddrinfo("localhost.localdomain.example", 80))
attempt("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)))
reached["interfaces"] = os.listdir("/sys/class/net")
"""


def test_a_stage_without_a_network_reaches_no_address_of_this_machine(attack: Attack) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        ended, reached = attack(f"HOSTS = {[('127.0.0.1', port), ('172.17.0.1', port), ('192.0.2.1', 80)]}\n{NETWORK}")
    assert ended.exit_code == 0
    assert reached.pop("interfaces") == ["lo"]
    assert [name for name, worked in reached.items() if worked] == []


STORE = """
for path in PATHS:
    attempt("write " + path, lambda: open(path + "/x", "w"))
    attempt("list " + path, lambda: os.listdir(path))
reached["secrets"] = [open(os.path.join(folder, name)).read() for folder, _, files in os.walk("/run/ratchet/secrets") for name in files]
reached["environment"] = "hunter" in str(os.environ)
"""


def test_of_the_machines_folders_and_secrets_it_sees_its_own(attack: Attack, stage_image: str, tmp_path: Path) -> None:
    for name in ("source", "store", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    readable_by_all(tmp_path)
    source, store, other = (str(tmp_path / name) for name in ("source", "store", "other"))
    mounts = (Mount(path=source), Mount(path=store, read_only=False))
    runner = DockerRunner()
    code = f"PATHS = {[source, store, other, '/root', '/home', '/var/lib/docker']}\n{STORE}"
    neighbour = runner.submit(
        Job(
            name="neighbour",
            request=b"{}",
            image=stage_image,
            command=("sleep", "60"),
            secrets={"key": b"hunter1"},
            labels={Label.TEST: "1"},
        )
    )
    try:
        ended, reached = attack(code, mounts=mounts, secrets={"key": b"hunter2"})
    finally:
        runner.remove(neighbour)
    assert ended.exit_code == 0
    assert reached.pop("secrets") == ["hunter2"]
    assert not reached.pop("environment")
    assert {name for name, worked in reached.items() if worked} <= {
        f"list {source}",
        f"list {store}",
        f"write {store}",
        "list /home",
    }
    assert [path.name for path in tmp_path.rglob("x")] == ["x"]
    assert not list((tmp_path / "other").iterdir())


BOMB = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deadline = time.monotonic() + 5
most = 0
while time.monotonic() < deadline:
    try:
        if not os.fork():
            while time.monotonic() < deadline:  # each child forks on
                try:
                    os.fork()
                except OSError:
                    time.sleep(0.05)
            os._exit(0)
    except OSError:
        most = max(most, len([pid for pid in os.listdir("/proc") if pid.isdigit()]))
        time.sleep(0.05)
reached["most"] = most
"""


def test_a_fork_bomb_stays_within_its_limit_and_the_engine_stays_well(attack: Attack) -> None:
    ended, reached = attack(BOMB, resources=Resources(pids=48, cpus=0.5), timeout_s=60, grace_s=1)
    assert ended.exit_code == 0
    assert 16 <= reached["most"] <= 48
    with docker.APIClient(**kwargs_from_env()) as api:
        assert api.ping()


FILLS = """
block = b"x" * (1 << 20)
with open("/tmp/fill", "wb") as file:
    for _ in range(1024):
        file.write(block)
"""


@pytest.mark.parametrize("code", [FILLS, "held = []\nwhile True: held.append(b'x' * (1 << 20))"])
def test_what_fills_memory_or_tmp_ends_and_the_machine_keeps_its_own(attack: Attack, code: str) -> None:
    ended, reached = attack(code, resources=Resources.model_validate({"memory": "64m", "cpus": 0.5}), timeout_s=60)
    assert reached is None
    assert not ended.timed_out
    assert ended.out_of_memory or ended.exit_code == 1
