"""The metrics of a training in MLflow, while it runs: read from its progress lines, as its container has no network.

A change here violates the promise of the project when a training waits for MLflow, or fails because of it.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Event as Signal
from threading import Lock, Thread

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.request import RunPlan
from ratchet.contracts.stages import TRAININGS, Stage
from ratchet.runs.events import Event
from ratchet.runs.work import OnEvent
from ratchet.tracking.live_run import LiveRun, Point

EVERY_S = 5.0
_MOST_KEPT = 100_000
"""Values that are kept while MLflow does not answer: about three hours of a line a second."""
_NAMES = {
    "samples_per_sec": "training_throughput_samples_per_sec",
    "valid_loss": "valid.loss",
    "valid_metric": "valid.metric",
}
_NO_METRICS = frozenset({"done", "total", "step", "steps", "eta", "seconds"})


@contextmanager
def live_metrics(plan: RunPlan, stage: Stage, on_event: OnEvent) -> Iterator[OnEvent]:
    """Listen to the events of a training, and pass them on. Other stages, and others than servers, are left alone."""
    uri = plan.tracking_uri or ""
    if stage not in TRAININGS or not uri.startswith(("http://", "https://")) or plan.kind == "reproduction":
        yield on_event
        return
    run = LiveRun(uri, pipeline=plan.spec.name, training=f"{plan.run_id} {stage}")
    writer = _Writer(run, on_event)
    done = False
    try:
        yield writer.hear
        done = True
    finally:
        writer.close(done=done)


class _Writer:
    """Writes to MLflow in a thread of its own, and keeps what MLflow did not take for the next time."""

    def __init__(self, run: LiveRun, on_event: OnEvent) -> None:
        self._run, self._on_event = run, on_event
        self._points: list[Point] = []
        self._dropped = 0
        self._lock, self._closing = Lock(), Signal()
        self._thread: Thread | None = None
        self._error: RatchetError | None = None

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
        if self._thread is None:
            self._thread = Thread(target=self._write_again_and_again, name="live-metrics", daemon=True)
            self._thread.start()

    def close(self, *, done: bool) -> None:
        """Write what is left, once, and end the run. Says what could not be written."""
        self._closing.set()
        if self._thread is None:
            return
        self._thread.join()
        if self._write():
            self._try(lambda: self._run.finish(done=done))
        lost = len(self._points) + self._dropped
        if lost and self._error is not None:
            message = f"{lost:,} values of the training's progress are not in MLflow: {self._error.cause}"
            self._on_event(Event(name="warning", level="warning", message=message))

    def _write_again_and_again(self) -> None:
        while not self._closing.wait(EVERY_S):
            self._write()

    def _write(self) -> bool:
        """Whether MLflow has taken all values so far."""
        with self._lock:
            points = list(self._points)
        if points and not self._try(lambda: self._run.write(points)):
            return False
        with self._lock:
            written = set(points)
            self._points = [point for point in self._points if point not in written]
        return True

    def _try(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except RatchetError as error:
            self._error = error
            return False
        return True


def _points(event: Event) -> Iterator[Point]:
    """The metrics of a progress line of the training itself; other lines have no step."""
    step = event.fields.get("step")
    if event.name != "progress" or not isinstance(step, int):
        return
    milliseconds = _milliseconds(event.time)
    for name, value in event.fields.items():
        if name not in _NO_METRICS and isinstance(value, int | float) and math.isfinite(value):
            yield Point(name=_NAMES.get(name, name), value=float(value), milliseconds=milliseconds, step=step)


def _milliseconds(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return int(time.time() * 1000)
