"""A job that a task has left to the follower of its host, whose engine Airflow's triggerer does not reach.

The task leaves its request in the store (`leave`). The follower of that host (`ratchet.runs.host_follower`) follows the
job as the triggerer does beside its own engine, passes its lines on, and writes why the task has to go on. The trigger
looks for that (`FarFollower`). Where any of this is lost, the lease and the result say the same, a little later.

A change here violates the promise of the project when a task waits for a follower that is gone, or when a job is ended
because a follower or the store is away.
"""

import json
import time
from contextlib import suppress
from secrets import token_hex
from threading import Event as Signal

from ratchet.contracts import left_paths
from ratchet.contracts.errors import CorruptArtifact, OtherRelease, Unavailable
from ratchet.contracts.request import RunPlan, StageRequest
from ratchet.contracts.stored import read_stored
from ratchet.runners.runner import Engine
from ratchet.runs.left_job import Why
from ratchet.runs.passed_lines import read_lines
from ratchet.runs.reaping import IsAlive
from ratchet.runs.work import OnEvent, Work
from ratchet.store.base import Entry, Store
from ratchet.store.lease import Silence, holder_of

LOOK_S = 5.0
"""Seconds between two looks."""


def new_place(plan: RunPlan, request: StageRequest, engine: Engine) -> str:
    """A place in the store for a job that is left to the follower of the host where it lives."""
    return left_paths.left(plan.installation, engine.id, f"{request.attempt}-{token_hex(4)}")


def leave(store: Store, place: str, request: StageRequest) -> None:
    """Leave a job to the follower of its host."""
    store.create(left_paths.job(place), request.model_dump_json(by_alias=True).encode())


def take_back(store: Store, place: str, on_event: OnEvent) -> None:
    """Delete what was left: its task goes on. A follower that still follows the job stops.

    on_event: gets the lines that nobody has read. The position in the job's log is after them: a follower may have come
    back while the task was waiting for a worker.
    """

    def read() -> None:
        for event in read_lines(store, list(store.list(place))):
            on_event(event)

    read()
    store.delete(left_paths.job(place))  # no follower adds a line from its next look on
    read()
    for entry in list(store.list(place)):
        store.delete(entry.key)


def end_without_task(
    store: Store, installation: str, engine: Engine, is_alive: IsAlive, over_before: set[str]
) -> list[str]:
    """Have the follower of a host end the jobs whose tasks are over, as where no triggerer was there to say so.

    The follower keeps their leases, so the reaper takes them for followed. over_before: the places of those whose tasks
    were over at the last look, kept here: one answer is no reason to end a job that is followed. Returns the places of
    those to end.
    """
    listed, marked = {entry.key for entry in store.list(left_paths.host(installation, engine.id))}, list[str]()
    for place in sorted({*map(left_paths.place_of, listed)}):
        where = left_paths.job(place)
        if where not in listed or not listed.isdisjoint({left_paths.why(place), left_paths.end(place)}):
            continue
        try:
            request = read_stored(StageRequest, store.read(where), where=where)
        except (FileNotFoundError, CorruptArtifact, OtherRelease):
            continue  # nobody follows it
        if is_alive(request.spec.name, request.run_id, request.stage):
            over_before.discard(place)
        elif place in over_before:
            store.create(left_paths.end(place), b"")
            marked.append(place)
        else:
            over_before.add(place)
    over_before &= {*map(left_paths.place_of, listed)} - {*marked}
    return marked


class FarFollower:
    """A job that the follower of another host follows, as the triggerer sees it. It has the methods of `Follower`.

    over: set when it is to look no longer.
    """

    def __init__(
        self, store: Store, plan: RunPlan, request: StageRequest, place: str, *, over: Signal, on_event: OnEvent
    ) -> None:
        self._work = Work(store=store, plan=plan, request=request, because="")
        self._place, self._over, self._on_event = place, over, on_event
        self._taken = set[Entry]()

    def follow(self) -> Why:
        """Block until the task has to go on, or it is over. A store that is away is waited for."""
        silence = Silence()
        while not self._over.is_set():
            try:
                why = self._look(silence)
            except Unavailable:
                why = None
            if why is not None:
                return why
            self._over.wait(LOOK_S)
        return Why("it was left", again=True)

    def end(self) -> None:
        """Have the follower of its host send the job a notice to stop. Where none comes, the reaper does."""
        self._work.store.create(left_paths.end(self._place), b"")

    def _look(self, silence: Silence) -> Why | None:
        store, asked = self._work.store, time.monotonic()
        listed = list(store.list(self._place))
        with suppress(Unavailable):  # as where nothing can be deleted: why the task has to go on is there all the same
            for event in read_lines(store, listed, self._taken):
                if self._over.is_set():
                    return None  # nobody writes a log here any more: the part stays for who looks next
                self._on_event(event)
        if any(entry.key == left_paths.why(self._place) for entry in listed):
            return _read(store, left_paths.why(self._place))
        held = holder_of(store, self._work.lease)
        if held is None:
            return Why("its lease is gone", again=True)
        if held.attempt != self._work.attempt:
            return Why("its lease is another attempt's", again=True)
        if silence.is_stale(held, asked):
            return Why("the follower of its host is silent", again=True)
        return None


def answer(store: Store, place: str, why: Why) -> None:
    """Write why the task of a job has to go on."""
    said = {"text": why.text, "again": why.again, "log": why.log}
    store.create(left_paths.why(place), json.dumps(said).encode())


def _read(store: Store, key: str) -> Why:
    """Of another release, or damaged: the task goes on in any case, and sees the job."""
    try:
        said = json.loads(store.read(key))
        return Why(str(said["text"]), again=bool(said["again"]), log=said["log"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return Why("what the follower of its host says is not understood", again=True)
