"""The metrics of a training in its trackers, while it runs: read from its progress lines.

Its container has no network. MLflow is a tracker where it is a server, Weights & Biases where its variables are set.

A change here violates the promise of the project when a training waits for a tracker, or fails because of it.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from threading import Event as Signal
from threading import Lock, Thread
from types import TracebackType
from typing import Protocol, Self

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import Preempted, RatchetError
from ratchet.contracts.request import RunPlan
from ratchet.contracts.stages import TRAININGS, Stage
from ratchet.runners.following import LeftRunning
from ratchet.runs.events import Event
from ratchet.runs.jobs import store_label
from ratchet.runs.work import OnEvent
from ratchet.tracking.live_run import LiveRun, Point
from ratchet.tracking.wandb_run import WandbRun

EVERY_S = 5.0
_LAST_S = {True: 5.0, None: 5.0, False: 1.0}
"""For the last write, by whether the training has ended well; else somebody may wait for the process to end."""
_MOST_KEPT = 100_000
"""Values that are kept while a tracker does not answer: about three hours of a line a second."""
_MLFLOW = "MLflow"
_WANDB_MODES = frozenset({"online", "offline", "dryrun", "shared"})
"""Of WANDB_MODE: those in which its library writes."""
_NAMES = {
    "loss": "loss",
    "valid_loss": "valid.loss",
    "valid_metric": "valid.metric",
    "samples_per_sec": "training_throughput_samples_per_sec",
    **{
        name: name
        for name in (
            *("epoch", "learning_rate", "gradient_norm", "waiting_pct", "data_loading_latency_ms"),
            *("checkpoint_duration_ms", "memory_mib", "gpu_utilization_pct"),
        )
    },
}
"""The metric in a tracker for each field of a progress line that is one."""


@contextmanager
def live_metrics(plan: RunPlan, stage: Stage, on_event: OnEvent, *, goes_on: bool = False) -> Iterator[OnEvent]:
    """Listen to the events of a training, and pass them on. Other stages, and repetitions, are left alone.

    goes_on: whether an earlier follower may have heard all, and has left the runs open: then they are ended.
    """
    trackers = _trackers(plan, stage, on_event) if stage in TRAININGS and plan.kind != "reproduction" else {}
    writers = list[_Writer]()
    for name, make in trackers.items():
        writers.append(_Writer(name, make, writers[-1].hear if writers else on_event, is_open=goes_on))
    done: bool | None = False
    try:
        yield writers[-1].hear if writers else on_event
        done = True
    except LeftRunning:  # another process goes on with the same runs
        done = None
        raise
    finally:
        for writer in writers:
            writer.end(done=done)
        for writer in writers:
            writer.close()


def end_run(plan: RunPlan, stage: Stage, on_event: OnEvent) -> None:
    """End the runs of a training that was left, and that a person has ended since."""
    with suppress(Preempted), live_metrics(plan, stage, on_event, goes_on=True):
        raise Preempted("a person has ended it")


def _trackers(plan: RunPlan, stage: Stage, on_event: OnEvent) -> "dict[str, Callable[[], _Tracker]]":
    """Those that are set up, by name."""
    found: dict[str, Callable[[], _Tracker]] = {}
    training = f"{plan.run_id} {stage}"
    uri = plan.tracking_uri or ""
    if uri.startswith(("http://", "https://")):
        found[_MLFLOW] = partial(
            LiveRun, uri, pipeline=plan.spec.name, training=training, store=store_label(plan.store)
        )
    settings = environment()
    if settings.wandb_mode in _WANDB_MODES or (settings.wandb_api_key and not settings.wandb_mode):
        if find_spec("wandb") is None:
            message = "the metrics of the training are not in Weights & Biases: install its library, ratchet[wandb]"
            on_event(Event(name="warning", level="warning", message=message))
        else:
            found["Weights & Biases"] = partial(
                WandbRun, project=settings.wandb_project or plan.spec.name, training=training
            )
    return found


class _Tracker(Protocol):
    """The run of a training in a tracker. Every call may raise any error."""

    def write(self, points: Sequence[Point]) -> None:
        """Write values, perhaps again."""
        ...

    def finish(self, *, done: bool) -> None:
        """End the run."""
        ...

    def leave(self) -> None:
        """Let go of the run: another process may go on with it."""
        ...


class _Caught:
    """Ends an exception at the end of its block, and keeps it."""

    error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error if isinstance(error, Exception) else None
        return self.error is not None


class _Writer:
    """Writes to a tracker in a thread of its own, and keeps what it did not take for the next time.

    is_open: whether the run may be open although this has heard nothing.
    """

    def __init__(self, tracker: str, make: Callable[[], _Tracker], on_event: OnEvent, *, is_open: bool) -> None:
        self._tracker, self._make, self._on_event, self._is_open = tracker, make, on_event, is_open
        self._run: _Tracker | None = None
        self._points: list[Point] = []
        self._dropped = 0
        self._lock, self._closing = Lock(), Signal()
        self._done: bool | None = False
        self._thread: Thread | None = None
        self._error: Exception | None = None

    def hear(self, event: Event) -> None:
        """Pass an event on, and keep its values."""
        self._on_event(event)
        points = list(_points(event))
        if not points:
            return
        with self._lock:
            self._points += points
            self._dropped += max(len(self._points) - _MOST_KEPT, 0)
            del self._points[:-_MOST_KEPT]
        self._begin()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._write_to_the_end, name="live-metrics", daemon=True)
            self._thread.start()

    def end(self, *, done: bool | None) -> None:
        """Begin to write what is left, and to end the run. done: None leaves the run open."""
        self._done = done
        self._closing.set()
        if self._is_open and done is not None:
            self._begin()

    def close(self) -> None:
        """Wait for that, for seconds. Says what could not be written."""
        if self._thread is None:
            return
        self._thread.join(_LAST_S[self._done])
        with self._lock:
            lost = len(self._points) + self._dropped
        if lost:
            message = f"{lost:,} values of the training's progress are not in {self._tracker}: {self._why()}"
            self._on_event(Event(name="warning", level="warning", message=message))

    def _why(self) -> str:
        if self._error is None:
            return "there were too many, or it is slow"
        return self._error.cause if isinstance(self._error, RatchetError) else type(self._error).__name__

    def _write_to_the_end(self) -> None:
        while not self._closing.wait(EVERY_S):
            self._write()
        written = self._write()
        with _Caught():
            if self._done is None and self._run is not None:
                self._run.leave()
            elif written and self._done is not None:
                self._opened().finish(done=self._done)

    def _write(self) -> bool:
        """Whether the tracker has taken all values so far."""
        with self._lock:
            points = list(self._points)
        with _Caught() as caught:
            if points:
                self._opened().write(points)
        self._error = caught.error
        if caught.error is not None:
            return False
        with self._lock:
            written = set(points)
            self._points = [point for point in self._points if point not in written]
        return True

    def _opened(self) -> _Tracker:
        if self._run is None:
            self._run = self._make()
        return self._run


def _points(event: Event) -> Iterator[Point]:
    """The metrics of a progress line of the training itself; other lines have no step."""
    step = event.fields.get("step")
    if event.name != "progress" or not isinstance(step, int):
        return
    milliseconds = _milliseconds(event.time)
    for name, metric in _NAMES.items():
        value = event.fields.get(name)
        if isinstance(value, float) and math.isfinite(value):
            yield Point(name=metric, value=value, milliseconds=milliseconds, step=step)


def _milliseconds(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return int(time.time() * 1000)
