"""Workers that are killed, each with one of two Docker engines; and what ran in these engines at each moment."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError

from ratchet.contracts.exits import ExitCode
from ratchet.contracts.labels import Label
from ratchet.contracts.request import RunPlan
from ratchet.runs.jobs import store_label
from tests.faults.trainings import Trainings

ROOT = Path(__file__).parents[2]
_WORKER = """
import sys, uuid
from ratchet.contracts.errors import RatchetError
from ratchet.runners.docker import DockerRunner
from ratchet.runs.history import plan_of
from ratchet.runs.local_run import attempt_stage
from ratchet.store.opening import open_store
plan = plan_of(open_store(sys.argv[1]), sys.argv[2], sys.argv[3])
print("begins", flush=True)
try:
    attempt_stage(plan, "train", DockerRunner(), name=uuid.uuid4().hex[:16],
                  on_event=lambda event: print(event.message, flush=True))
except RatchetError as error:
    print(error)
    sys.exit(int(error.code))
"""
"""A try of a training of a run, as a task of Airflow makes it."""


def here() -> str:
    """The address of the machine's own engine."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def worker(made: Trainings, plan: RunPlan, engine: str) -> "subprocess.Popen[str]":
    """A process that makes a try of the training of a run, beside an engine."""
    return subprocess.Popen(
        [sys.executable, "-c", _WORKER, made.store_uri, plan.spec.name, plan.run_id],
        env={**os.environ, "PYTHONPATH": str(ROOT), "DOCKER_HOST": engine},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


class Seen:
    """What began and ended to run in some engines, by their events."""

    def __init__(self) -> None:
        self._events: list[tuple[int, int, str]] = []

    def hear(self, engine: str, events: Iterator[Mapping[str, Any]]) -> None:
        """Until the stream is closed."""
        for event in events:
            step = {"start": 1, "die": -1}[event["Action"]]
            self._events.append((event["timeNano"], step, f"{engine} {event['Actor']['ID'][:12]}"))

    @property
    def containers(self) -> int:
        """How many have run."""
        return sum(step > 0 for _, step, _ in self._events)

    @property
    def engines(self) -> int:
        """In how many engines some have run."""
        return len({name.split()[0] for _, _, name in self._events})

    @property
    def most_at_once(self) -> int:
        """How many ran at one moment, at most."""
        running, most = 0, 0
        for _, step, _ in sorted(self._events):
            running += step
            most = max(most, running)
        return most


@contextmanager
def seen(made: Trainings, *engines: str) -> Iterator[Seen]:
    """Note when a training of these begins and ends to run. The engines share a clock."""
    found = Seen()
    label = [f"{Label.STORE}={store_label(made.store_uri)}", f"{Label.STAGE}=train"]
    with ExitStack() as ended:
        for engine in engines:
            api = ended.enter_context(docker.APIClient(base_url=engine))
            stream = api.events(decode=True, filters={"label": label, "event": ["start", "die"]})
            thread = threading.Thread(target=found.hear, args=(engine, stream), daemon=True)
            thread.start()
            ended.callback(thread.join, 10)
            ended.callback(stream.close)
        yield found


@dataclass
class Kills:
    """What became of a run whose workers are killed. waited: tries that ended with 69. codes: of the others."""

    killed: int = 0
    waited: int = 0
    containers_killed: int = 0
    codes: list[int] = field(default_factory=list)


def kill_again_and_again(
    made: Trainings, plan: RunPlan, engines: tuple[str, str], *, kills: int, latest_s: float, seed: int
) -> Kills:
    """Kill tries of a training at random moments, each beside a random engine; then let one come to its end.

    A third of the containers is killed, too, as by a host that is restarted. latest_s: the last moment of a kill after
    the begin of a try.
    """
    done, chance = Kills(), random.Random(seed)
    while done.codes[-1:] != [0]:
        process = worker(made, plan, chance.choice(engines))
        with process:
            try:
                at = chance.uniform(0, latest_s) if done.killed < kills else None
                assert process.stdout is not None
                process.stdout.readline()
                process.wait(at)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                done.killed += 1
                if chance.random() < 1 / 3:
                    done.containers_killed += sum(_kill_containers(made, engine) for engine in engines)
                continue
        if process.returncode == int(ExitCode.UNAVAILABLE):
            done.waited += 1
        else:
            done.codes.append(process.returncode)
            assert process.returncode in {0, int(ExitCode.UNAVAILABLE), 137}, process.returncode
    for engine in engines:
        assert _kill_containers(made, engine, remove=True) == 0
    return done


def _kill_containers(made: Trainings, engine: str, *, remove: bool = False) -> int:
    """Kill those that run, and count them. remove: also those that were killed and that no try has met again."""
    with docker.APIClient(base_url=engine) as api:
        found = api.containers(all=True, filters={"label": [f"{Label.STORE}={store_label(made.store_uri)}"]})
        running = [one for one in found if one["State"] == "running"]
        for one in running:
            with suppress(APIError):  # it has ended meanwhile
                api.kill(one["Id"])
        for one in found if remove else ():
            api.remove_container(one["Id"], v=True, force=True)
    return len(running)
