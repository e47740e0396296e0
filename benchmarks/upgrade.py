"""upgrade: what becomes of runs when the next release is installed in the middle of one of their stages.

Each run has its own copy of the code, in which the next release replaces a module of every stage. Its worker is a real
process, and its stages are processes or containers. Once the stage has begun, the next release is put in place; the
worker then ends with this stage, or is killed at once. A worker of the next release brings the run to its end.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from benchmarks.measure import Result
from ratchet.checkout import PIPELINES, ROOT, STAGE_LOCK
from ratchet.contracts.environment import variable
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.loading import load
from ratchet.contracts.request import RunPlan
from ratchet.contracts.stages import Stage
from ratchet.runners.choice import stage_image
from ratchet.runners.docker import DockerRunner
from ratchet.runs.history import plan_of
from ratchet.runs.outcomes import outcomes
from ratchet.runs.planning import make_plan
from ratchet.samples import clicks
from ratchet.store.opening import open_store

_MODULE = "ratchet/contracts/result.py"
"""Each stage needs it."""
_NEXT = "# the next release"
_IN_IMAGE = f"/opt/ratchet/lib/python3.11/site-packages/{_MODULE}"
_DAY, _DAYS = date(2026, 3, 20), 10
"""Enough rows that the model is promoted: register would have nothing to do otherwise."""
_AT_ONCE = 2
_PATIENCE_S = 600.0
_BEFORE_WORK = ("attempt", "replanned", "lease")
"""Events of a stage before its process or container has begun."""
Image = Literal["none", "kept", "gone"]


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """How the next release comes. image: what becomes of the run's; `none`: it has none. killed: so is the worker."""

    image: Image
    killed: bool

    def __str__(self) -> str:
        where = {"none": "processes", "kept": "containers, image kept", "gone": "containers, image gone"}[self.image]
        return f"{where}, worker {'killed' if self.killed else 'ends with the stage'}"


WAYS = (
    Upgrade(image="none", killed=False),
    Upgrade(image="kept", killed=True),
    Upgrade(image="none", killed=True),
    Upgrade(image="gone", killed=False),
    Upgrade(image="kept", killed=False),
)


@dataclass(kw_only=True)
class Ended:
    """How a run ended. states: of its stages; codes: of the tries that failed; upgrades: what its plan records.

    begun: whether the stage began in whose middle the release came.
    """

    way: Upgrade
    stage: Stage
    begun: bool
    states: dict[str, str]
    codes: list[int] = field(default_factory=list)
    upgrades: tuple[str, ...] = ()
    worker: int = 0

    @property
    def well(self) -> bool:
        """Whether each stage has ended well, none failed as wrongly configured on its way, and the plan says so."""
        green = self.begun and self.worker == 0 and set(self.states.values()) <= {"done", "skipped"}
        is_over = self.stage == list(self.states)[-1] and not self.way.killed
        due = self.way.image != "kept" and not is_over
        return green and ExitCode.BAD_CONFIGURATION not in self.codes and due == bool(self.upgrades)

    def __str__(self) -> str:
        if not self.begun:
            return f"{self.stage}: {self.way}: the stage did not begin, {self.states}"
        how = "green" if self.well else f"failed: worker {self.worker}, tries {self.codes}, {self.states}"
        return f"{self.stage}: {self.way}: {how}{', planned again' if self.upgrades else ''}"


def run(*, full: bool) -> Result:
    """Twenty runs for --full, else five."""
    ended = upgraded(20 if full else len(WAYS))
    failed = [one for one in ended if not one.well]
    by_way = Counter(str(one.way) for one in ended if one.well)
    codes = [code for one in ended for code in one.codes]
    again = Counter(str(one.way) for one in ended if one.upgrades)
    return Result(
        name="upgrade",
        ratio=len(failed),
        goal=0,
        unit="runs that an upgrade ended",
        ours=len(failed),
        peer=len(ended),
        peer_name="runs, with a new release in the middle of a stage of each",
        rows=(
            ("runs", str(len(ended))),
            ("stages", ", ".join(sorted({one.stage for one in ended}))),
            *((way, f"{count} green, {again[way]} of them planned again") for way, count in by_way.items()),
            (
                "tries that failed, by code",
                ", ".join(f"{code}" for code in sorted(codes)) or "none",
            ),
            *(("not green", str(one)) for one in failed),
        ),
    )


def upgraded(count: int) -> list[Ended]:
    """So many runs, each with an upgrade in the middle of its own stage, two at a time."""
    with tempfile.TemporaryDirectory(prefix="ratchet-upgrade-") as folder, _images() as image_of:
        home = Path(folder)
        home.chmod(0o755)
        with patch.dict(os.environ, {variable("data"): str(home / "data"), variable("store"): str(home)}):
            for _ in clicks.write(home / "data", days=_DAYS, rows_per_day=2000, end=_DAY, seed=0):
                pass
            made = [_Run(home / f"{number}", number, image_of) for number in range(count)]
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                return list(threads.map(_Run.to_its_end, made))


class _Run:
    """A run, its copy of the code, and its images."""

    def __init__(self, home: Path, number: int, image_of: Callable[[str], str]) -> None:
        self.way = WAYS[number % len(WAYS)]
        self.old = image_of("") if self.way.image != "none" else ""
        self.new = image_of(f"USER root\nRUN echo '{_NEXT}' >> {_IN_IMAGE}\nUSER 10001:10001") if self.old else ""
        self.home, self.tree = home, home / "code"
        for package in ("ratchet", "tasks"):
            shutil.copytree(ROOT / package, self.tree / package, ignore=shutil.ignore_patterns("__pycache__"))
        lock = self.tree / STAGE_LOCK.relative_to(ROOT)
        lock.parent.mkdir()
        shutil.copy(STAGE_LOCK, lock)
        image = DockerRunner().image_id(self.old) if self.old else None
        self.plan = _plan(home / "store", image)
        self.stage = self.plan.spec.sequence[number % len(self.plan.spec.sequence)]
        self.codes: list[int] = []

    def to_its_end(self) -> Ended:
        """With one release until its stage has begun, and with the next one from there on."""
        last, begun = self.home / "last", False
        worker = self._worker(self.old)
        for said in self._said(worker):
            if begun or said["stage"] != self.stage or said.get("event", "attempt") in _BEFORE_WORK:
                continue
            begun = True
            with (self.tree / _MODULE).open("a", encoding="utf-8") as file:
                file.write(f"{_NEXT}\n")
            last.touch()
            if self.way.killed:
                worker.kill()
        worker.wait(_PATIENCE_S)
        last.unlink(missing_ok=True)
        if self.way.image == "gone":
            _remove(self.old)
        worker = self._worker(self.new)
        for _ in self._said(worker):
            pass
        return self._ended(worker.wait(_PATIENCE_S), begun=begun)

    def _worker(self, image: str) -> subprocess.Popen[str]:
        here = {
            "PYTHONPATH": str(self.tree),
            variable("runner"): "docker" if image else "process",
            variable("stage_image"): image or stage_image(gpu=False),
        }
        words = [str(Path(__file__).with_name("upgrade_worker.py")), self.plan.store, self.plan.spec.name]
        return subprocess.Popen(
            [sys.executable, *words, self.plan.run_id, str(self.home / "last")],
            env={**os.environ, **here}, cwd=self.tree, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def _said(self, worker: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
        assert worker.stdout is not None
        for line in worker.stdout:
            said = json.loads(line)
            if "code" in said:
                self.codes.append(said["code"])
            yield said

    def _ended(self, code: int, *, begun: bool) -> Ended:
        store, name = open_store(self.plan.store), self.plan.spec.name
        plan, found = plan_of(store, name, self.plan.run_id), outcomes(store, name, self.plan.run_id)
        assert plan is not None
        states: dict[str, str] = {
            stage: found[stage].state if stage in found else "none" for stage in plan.spec.sequence
        }
        lines = tuple(one.line for one in plan.upgrades)
        return Ended(
            way=self.way, stage=self.stage, begun=begun, states=states, codes=self.codes, upgrades=lines, worker=code
        )


def _plan(store: Path, image: str | None) -> RunPlan:
    folder = PIPELINES / "search-ranking"
    small: dict[str, Any] = {
        "source.window_days": _DAYS,
        "train.epochs": 2,
        "validate.volume": None,
        "validate.expectations": [],
    }
    spec = load(folder, small)
    return make_plan(
        folder=folder, spec=spec, data_date=_DAY, run_id="r", kind="local", store_uri=store.as_uri(), image=image
    )


@contextmanager
def _images() -> Iterator[Callable[[str], str]]:
    """Builds a release of the stage image from the present one, with further lines. They are removed at the end."""
    built: list[str] = []

    def build(lines: str) -> str:
        tag = f"ratchet-stage:upgrade-{uuid.uuid4().hex[:12]}"
        text = f"FROM {stage_image(gpu=False)}\n{lines}\nLABEL ratchet.upgrade={tag}\n"
        words = ["docker", "build", "--quiet", "--tag", tag, "-"]
        subprocess.run(words, input=text, text=True, check=True, capture_output=True)
        built.append(tag)
        return tag

    try:
        yield build
    finally:
        for tag in built:
            _remove(tag)


def _remove(image: str) -> None:
    """Take an image away; it may be gone."""
    words = ["docker", "rmi", "--force", image]
    subprocess.run(words, check=False, capture_output=True)
