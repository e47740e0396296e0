"""A job as a request of the Docker Engine API: a container with few rights, and the files that are put into it."""

import io
import math
import tarfile
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from ratchet.contracts.labels import MARK, Label
from ratchet.runners.devices import Devices
from ratchet.runners.job import CACHE, REQUEST, SECRETS, Job

FOLDER = "/run/ratchet"
"""Where a container finds its request and secrets."""
OUT_OF_MEMORY_SEEN = 240
"""Exit code of a container in which the kernel killed for memory and whose job failed. See docs/adr/013."""

_CPU_PERIOD_US = 100_000
_FIRST = "first.sh"
_FIRST_SH = f"""\
# Runs the job, passes SIGTERM on to it and exits with its code, or with {OUT_OF_MEMORY_SEEN} if the job failed and the
# kernel killed for memory in here. No program is started for that: files in /tmp may still fill the memory.
"$@" &
# Only now: a child that is forked under a trap keeps the trap's handler until it has taken it off, and a SIGTERM in
# between is lost. Until this line a SIGTERM ends the shell, and with it the container, whose job has just begun.
trap 'again=1; kill -TERM "$!" 2>/dev/null' TERM
again=1
while [ -n "$again" ]; do  # a wait that a signal interrupts returns the signal's code, the next one the job's
    again=
    wait "$!"
    code=$?
done
[ "$code" != 0 ] || exit 0
for counters in /sys/fs/cgroup/memory/memory.oom_control /sys/fs/cgroup/memory.events; do
    [ -r "$counters" ] || continue
    while read -r name count; do
        [ "$name" != oom_kill ] || [ "$count" = 0 ] || exit {OUT_OF_MEMORY_SEEN}
    done <"$counters"
done
exit "$code"
"""


def container_config(job: Job, *, cpus: int | None, devices: Devices | None = None) -> Mapping[str, Any]:
    """The body of `POST /containers/create`. cpus: cores of the engine's machine, if known. devices: the GPUs it gets.

    No root, no capabilities, no new privileges, a read-only root file system. Writable: /tmp, a tmpfs that counts as
    memory, the cache, and the mounts that say so. Bounded: memory (no swap), processor time, processes, shared memory,
    log.
    """
    command = job.command or ("ratchet", "stage", f"{FOLDER}/{REQUEST}")
    resources = job.resources
    devices = devices or Devices()
    labels = {**job.labels, **MARK, **({Label.GPUS: devices.listed} if devices.names else {})}
    environment = {**job.environment(FOLDER, cpus=cpus), **devices.environment}
    return {
        "Image": job.image,
        "Entrypoint": ["sh"],
        "Cmd": [f"{FOLDER}/{_FIRST}", *command],
        "User": job.user,
        "WorkingDir": "/tmp",  # noqa: S108 - the container's own
        "Env": [f"{name}={value}" for name, value in sorted(environment.items())],
        "Labels": labels,
        "StopSignal": "SIGTERM",
        # An engine that shuts down, or finds the container after its own crash, waits as long.
        "StopTimeout": math.ceil(job.grace_s),
        "HostConfig": {
            "Init": True,
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "IpcMode": "private",
            "NetworkMode": job.network,
            "Memory": resources.memory,
            "MemorySwap": resources.memory,
            # A quota, not NanoCpus: the engine refuses more NanoCpus than the machine has cores, and a pipeline that
            # asks for eight must still run on a laptop.
            "CpuPeriod": _CPU_PERIOD_US,
            "CpuQuota": max(1000, round(resources.cpus * _CPU_PERIOD_US)),
            "PidsLimit": resources.pids,
            "ShmSize": resources.shm,
            "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
            "Tmpfs": {"/tmp": f"rw,nosuid,nodev,noexec,mode=1777,size={resources.memory}"},  # noqa: S108 - the same
            "Mounts": [
                # Files reach a volume before the container starts, through the engine: no path of this machine is
                # needed, so the engine may be elsewhere. The volume goes with the container.
                {
                    "Type": "volume",
                    "Target": str(PurePosixPath(FOLDER).parent),
                    "VolumeOptions": {"NoCopy": True, "Labels": labels},
                },
                # The engine makes it at its first use, with the owner that the image gives the folder.
                *([{"Type": "volume", "Source": job.cache, "Target": CACHE}] if job.cache else []),
                *(
                    {"Type": "bind", "Source": mount.path, "Target": mount.path, "ReadOnly": mount.read_only}
                    for mount in job.mounts
                ),
            ],
            "DeviceRequests": devices.requests,
            # How far a follower may fall behind before lines are lost: engines write faster than they read back.
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "512m", "max-file": "2"}},
        },
    }


def archive(job: Job) -> bytes:
    """The job's folder as a tar file, for the parent of FOLDER.

    Root owns it and the job's group may read it: the job cannot change its request, nor fill the disk beside it.
    """
    name = PurePosixPath(FOLDER).name
    files: dict[str, bytes | None] = {name: None, f"{name}/{_FIRST}": _FIRST_SH.encode()}
    files |= {f"{name}/{REQUEST}": job.request, f"{name}/{SECRETS}": None}
    return _packed(job.user, {**files, **{f"{name}/{SECRETS}/{secret}": job.secrets[secret] for secret in job.secrets}})


def renewal(user: str, secret: str, content: bytes) -> bytes:
    """A tar file, for the same place, that replaces one secret of a job of a user `uid:gid`."""
    return _packed(user, {f"{PurePosixPath(FOLDER).name}/{SECRETS}/{secret}": content})


def _packed(user: str, files: Mapping[str, bytes | None]) -> bytes:
    """Files by their paths, and folders, which have no content."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.gid = int(user.split(":")[1])
            if content is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o750
            else:
                entry.size, entry.mode = len(content), 0o440
            tar.addfile(entry, io.BytesIO(content or b""))
    return packed.getvalue()
