"""logs: peak memory of a follower while its container prints 1 GB, and its speed against the engine's own.

The container prints lines of 200 bytes to 1 KiB, some ended by a carriage return, and one of 10 MB. The peer is the
engine's client alone: `docker logs --follow`, its output thrown away after it is counted.
"""

import json
import subprocess
import sys
import time

from benchmarks.measure import Result
from ratchet.contracts.labels import Label
from ratchet.runners.choice import stage_image
from ratchet.runners.docker import DockerRunner
from ratchet.runners.job import Job

_MEMORY_GOAL_MIB = 300.0
_PRINTS = """if 1:
    import sys
    write, pad, number, size = sys.stdout.buffer.write, b"x" * 1100, 0, 0
    while size < WANTED:
        head = b"%d " % number
        line = head + pad[: 200 + number * 37 % 825 - len(head) - 1] + (b"\\n" if number % 50 else b"\\r")
        write(line)
        number, size = number + 1, size + len(line)
    write(b"y" * (10 << 20) + b"\\n")
    print(number)
"""
_FOLLOWS = """if 1:
    import json, resource, sys, time
    from ratchet.runners.docker import DockerRunner
    from ratchet.runners.job import Job
    from ratchet.runners.following import follow_to_end
    seen = [0, 0]
    def on_line(line):
        seen[0] += 1
        seen[1] += len(line.text) + 1
    begin = time.perf_counter()
    ended = follow_to_end(DockerRunner(), sys.argv[1], Job(name="logs", request=b""), on_line)
    seconds = time.perf_counter() - begin
    printed = int(ended.tail[-1].text)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"printed": printed, "seconds": seconds, "cpu": time.process_time(), "peak": peak}
    print(json.dumps({"lines": seen[0], "bytes": seen[1], **found}))
"""


def run(*, full: bool) -> Result:
    """A gigabyte with --full, else a fifth of it."""
    wanted = 1_000_000_000 if full else 200_000_000
    runner = DockerRunner()
    command = ("python", "-I", "-S", "-c", _PRINTS.replace("WANTED", str(wanted)))
    job = Job(name="logs", request=b"", image=stage_image(gpu=False), command=command, labels={Label.TEST: "1"})
    handle = runner.submit(job)
    try:
        begin = time.perf_counter()
        counted = subprocess.run(  # noqa: S602 - our own words and a container's id
            f"docker logs --follow {handle} 2>/dev/null | wc -c",
            shell=True,
            check=True,
            capture_output=True,
        )
        alone = int(counted.stdout) / (time.perf_counter() - begin) / 1e6
    finally:
        runner.remove(handle)
    handle = runner.submit(job)
    try:
        done = subprocess.run((sys.executable, "-c", _FOLLOWS, handle), check=True, capture_output=True, text=True)
    finally:
        runner.remove(handle)
    ours = json.loads(done.stdout.splitlines()[-1])
    # Every line, one of 10 MB, and the last with the number of them.
    lost = ours["printed"] + 2 - ours["lines"]
    speed = ours["bytes"] / ours["seconds"] / 1e6
    return Result(
        name="logs",
        ratio=ours["peak"] if not lost else float("inf"),
        goal=_MEMORY_GOAL_MIB,
        unit="MiB at its peak",
        ours=speed,
        peer=alone,
        peer_name="MB/s of docker logs --follow",
        rows=(
            ("printed", f"{wanted / 1e9:.1f} GB in {ours['printed']:,} lines"),
            ("lines lost", f"{lost:,}"),
            ("peak memory", f"{ours['peak']:.0f} MiB"),
            ("follower", f"{speed:.0f} MB/s, {ours['lines'] / ours['seconds']:,.0f} lines/s"),
            ("its own processor time", f"{ours['cpu']:.1f} s of {ours['seconds']:.1f} s"),
            ("docker logs --follow", f"{alone:.0f} MB/s"),
        ),
    )
