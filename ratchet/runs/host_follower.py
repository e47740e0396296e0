"""The follower of a host: it follows the jobs beside its engine that tasks have left to it, each in a thread.

A change here violates the promise of the project when a follower that stops, or begins again, ends a job or loses one,
or when one job that cannot be followed holds up the others.
"""

import time
from collections import defaultdict
from secrets import token_hex
from threading import Event as Signal
from threading import Thread

from ratchet.contracts import left_paths
from ratchet.contracts.errors import NoAnswer, OtherRelease, RatchetError, Unavailable
from ratchet.contracts.masking import mask, masked_logger
from ratchet.contracts.request import StageRequest
from ratchet.contracts.stored import read_stored
from ratchet.runners.docker import DockerRunner
from ratchet.runners.engine import EngineSilent
from ratchet.runs.history import plan_to_follow
from ratchet.runs.left_elsewhere import answer
from ratchet.runs.left_job import Follower, Why
from ratchet.runs.passed_lines import PassedLines
from ratchet.store.base import Store

_OLD_NS = 8 * 86_400 * 10**9
"""More than clocks differ, and a task waits for a worker. What a trigger does not find any more is in the lease."""
_log = masked_logger(__name__)


class HostFollower:
    """The follower of the engine that `runner` reaches, for an installation."""

    def __init__(self, store: Store, runner: DockerRunner, installation: str) -> None:
        self._store, self._runner, self._installation = store, runner, installation
        self._jobs: dict[str, _LeftJob] = {}
        """By their place."""

    @property
    def engine(self) -> str:
        """The id of the engine. Raises Unavailable where it is silent."""
        return self._runner.engine.id

    def look(self) -> None:
        """Begin with what was left, pass lines on, and let go what its task has taken back. Returns at once.

        Raises the error of a job that cannot be followed now, or whose answer the store refuses: the next look tries it
        again.
        """
        # Before the listing, which has their answers then: else one that ends meanwhile is begun once more.
        ended = [place for place, job in self._jobs.items() if not job.is_alive()]
        listed, failed = self._list(), list[RatchetError]()
        for place, job in list(self._jobs.items()):
            if left_paths.job(place) not in listed[place]:
                job.over.set()  # its task goes on, and has the lease or will take it
            else:
                job.lines.look(sum(map(left_paths.is_lines, listed[place])))
            if place in ended:
                del self._jobs[place]
                failed += [job.error] if job.error is not None else []
        for place, keys in listed.items():
            if left_paths.job(place) not in keys or left_paths.why(place) in keys:
                continue
            if place not in self._jobs:
                self._jobs[place] = _LeftJob(self._store, self._runner, place, left_paths.next_lines(keys))
                self._jobs[place].start()
            if left_paths.end(place) in keys:
                self._jobs[place].end()
        if failed:
            raise failed[0]

    def _list(self) -> dict[str, set[str]]:
        """The files of each place. Deletes what nobody comes for: all of a place, or what is left of one."""
        listed: dict[str, set[str]] = defaultdict(set)
        newest_ns: dict[str, int] = defaultdict(int)
        for entry in list(self._store.list(left_paths.host(self._installation, self.engine))):
            place = left_paths.place_of(entry.key)
            listed[place].add(entry.key)
            newest_ns[place] = max(newest_ns[place], entry.modified_ns)
        old_ns = time.time_ns() - _OLD_NS
        for place in [place for place, newest in newest_ns.items() if newest < old_ns and place not in self._jobs]:
            keys = listed[place]
            if left_paths.why(place) in keys or left_paths.job(place) not in keys:
                del listed[place]
                for key in sorted(keys, key=lambda key: key != left_paths.job(place)):
                    self._store.delete(key)
        return listed

    def stop(self, for_s: float) -> None:
        """Follow nothing any more; the jobs go on, and the next follower has them. for_s: waits so long at most."""
        until = time.monotonic() + for_s
        for job in self._jobs.values():
            job.over.set()
        for job in self._jobs.values():
            job.join(max(until - time.monotonic(), 0))


class _LeftJob(Thread):
    """Follows one job. number: of the first part of its lines. over: set when it is to follow it no longer."""

    def __init__(self, store: Store, runner: DockerRunner, place: str, number: int) -> None:
        super().__init__(name="follow", daemon=True)
        self.over, self.lines = Signal(), PassedLines(store, place, number)
        self._store, self._runner, self._place = store, runner, place
        self._ending = False
        self.error: RatchetError | None = None
        """Why it is not followed now, or why the store has no answer; set at its end."""

    def end(self) -> None:
        """End the job, which has its whole grace: a person has ended its task."""
        self._ending = True
        self.over.set()

    def run(self) -> None:
        """Follow it, and write why its task has to go on. What could not be asked is asked again by the next look."""
        try:
            why = self._follow()
        except (NoAnswer, EngineSilent) as error:
            self.error = error
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the task of the job is not to wait for it
            _log.warning("%s: it is not followed: %s", self._place, error)
            # What passes by itself, as an engine that answers 500, is no reason to hold a worker for hours.
            passes = isinstance(error, Unavailable) and not isinstance(error, OtherRelease)
            why = Why(mask(str(error)), again=passes)
        if self.over.is_set() and not self._ending:
            return
        try:
            self.lines.look(0)
            answer(self._store, self._place, why)
        except RatchetError as error:
            self.error = error

    def _follow(self) -> Why:
        where = left_paths.job(self._place)
        request = read_stored(StageRequest, self._store.read(where), where=where)
        plan = plan_to_follow(self._store, request.spec.name, request.run_id)
        if plan is None:
            raise Unavailable(f"the plan of run {request.run_id} is not in the store")
        name = f"{request.attempt}-{token_hex(2)}"
        follower = Follower(
            self._store, plan, request, self._runner, name=name, over=self.over, on_event=self.lines.hear,
            positions=self.lines.positions,
        )  # fmt: skip
        _log.info("follows %s of %s, run %s", request.stage, request.spec.name, request.run_id)
        why = follower.follow()
        if self._ending:
            follower.end()
            why = Why("a person has ended it", again=False)
        _log.info("%s of %s, run %s: %s", request.stage, request.spec.name, request.run_id, why.text)
        return why
