"""Starts the dry run of a pipeline, `tasks.dry_run`: its Python files loaded, and one step on made-up rows.

The pipeline's code runs in a process of its own, in a private folder with a copy of its files, without the caller's
environment, and with limits of time and memory. What it reports is text.

A change here violates the promise of the project when the code of a pipeline runs in the process that checks it, or
when what could not be checked passes.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ratchet.checkout import ROOT
from ratchet.contracts import bundle
from ratchet.contracts.errors import ConfigurationError, Problem
from ratchet.contracts.pipeline import PipelineSpec

LIMIT_S = 20.0
"""For the pipeline's code. The libraries that it finds loaded take most of the time of a dry run."""
_LOADING_S = 120.0
_LEAST_MEMORY = 2 << 30
"""Libraries reserve more memory than they use."""
_LIBRARIES = ("numpy", "pandas", "pyarrow", "safetensors", "torch")
_INSTALL = "install the wheel ratchet-stages (make wheels)"
_KEPT = frozenset({"PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"})
_LARGEST_REPORT = 1 << 20
_PLACE = re.compile(r"([\w./-]+\.py)(?::(\d+))?: ")
_FRAME = re.compile(r'File "(.+)", line (\d+) in ')


@dataclass(frozen=True, slots=True)
class Findings:
    """What a dry run found. unchecked: what was not checked, why, and what to do, each as one line."""

    problems: tuple[Problem, ...] = ()
    unchecked: tuple[str, ...] = ()


def dry_run(spec: PipelineSpec, folder: Path, *, limit_s: float = LIMIT_S) -> Findings:
    """Try a pipeline's code. Raises ConfigurationError for a folder that cannot be packed."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if not (ROOT / "tasks" / "dry_run").is_dir():
        missing = ["ratchet-stages"]
    if missing:
        what = " and ".join(name for name in ("features.py", "model.py", "metric.py") if (folder / name).is_file())
        named = f"{what}, and one step of training" if what else "one step of training"
        return Findings(unchecked=(f"{named}: {', '.join(missing)} is not installed; to do: {_INSTALL}",))
    with tempfile.TemporaryDirectory(prefix="ratchet-check-") as made:
        scratch = Path(made)
        bundle.unpack(bundle.pack(folder), _folder(scratch / "code"))
        (scratch / "spec.json").write_text(spec.model_dump_json(by_alias=True), encoding="utf-8")
        ended = _run(scratch, max(spec.resources["train"].memory, _LEAST_MEMORY), limit_s)
        return _findings(_Run(scratch, folder, limit_s, ended))


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _run(scratch: Path, memory: int, limit_s: float) -> int | None:
    """Run the dry run to its end, and end what it started. Its exit code; None if it had to be killed."""
    home = str(_folder(scratch / "home"))
    environment = {name: value for name, value in os.environ.items() if name in _KEPT}
    environment |= {"PYTHONPATH": str(ROOT), "HOME": home, "TMPDIR": home, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-P", "-m", "tasks.dry_run"]
    with (scratch / "stderr").open("wb") as stderr:
        child = subprocess.Popen(
            [*command, str(scratch), str(memory), str(limit_s), str(os.getpid())],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            return child.wait(_LOADING_S + limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


@dataclass(frozen=True, slots=True)
class _Run:
    """A dry run that has ended. scratch: its folder. folder: the pipeline's. code: None if it was killed."""

    scratch: Path
    folder: Path
    limit_s: float
    code: int | None


def _findings(run: _Run) -> Findings:
    lines = list(_report(run.scratch / "report"))
    problems = [_problem(run.folder, text, remedy) for kind, text, remedy in lines if kind == "problem"]
    unchecked = [f"{text}; to do: {remedy}" for kind, text, remedy in lines if kind == "unchecked"]
    if lines[-1:] and lines[-1][0] == "done":
        return Findings(tuple(problems), tuple(unchecked))
    steps = [text for kind, text, _ in lines if kind == "step"]
    if len(steps) > 1:
        return Findings((*problems, _end_of(run, steps[-1])), tuple(unchecked))
    last = _read(run.scratch / "stderr").splitlines()[-1:] or [f"exit code {run.code}"]
    return Findings(unchecked=(f"one step of training: its libraries cannot be loaded: {last[0]}; to do: {_INSTALL}",))


def _report(path: Path) -> Iterator[tuple[str, str, str]]:
    """(kind, text, remedy) of each line; the pipeline's code may have written others."""
    for line in _read(path).splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found = json.loads(line)
            yield str(found["kind"]), str(found["text"]), str(found["remedy"])


def _read(path: Path) -> str:
    """The start of a file as text; of none, none."""
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_REPORT).decode(errors="replace")
    except OSError:
        return ""


def _problem(folder: Path, cause: str, remedy: str) -> Problem:
    found = _PLACE.match(cause)
    if found is None:
        return Problem(where=str(folder), key="", message=cause, remedy=remedy)
    where = f"{folder / found[1]}:{found[2] or 1}"
    return Problem(where=where, key="", message=cause[found.end() :], remedy=remedy)


def _end_of(run: _Run, step: str) -> Problem:
    """The problem of code that took too long, or ended its process."""
    trace = _read(run.scratch / "trace")
    code = str(run.scratch / "code")
    frames = [(Path(path), line) for path, line in _FRAME.findall(trace) if path.startswith(f"{code}{os.sep}")]
    file = step.rpartition(" ")[2]
    where = str(run.folder / file) if file.endswith(".py") else str(run.folder)
    if frames:
        where = f"{run.folder / frames[0][0].relative_to(code)}:{frames[0][1]}"
    if trace or run.code is None:
        message = f"{step} takes more than {run.limit_s:g} s"
        return Problem(where=where, key="", message=message, remedy="make it end; look for a loop or a wait")
    last = "".join(_read(run.scratch / "stderr").splitlines()[-1:])
    ended = f"signal {-run.code}" if run.code < 0 else f"exit code {run.code}"
    message = f"{step} ended the process with {ended}" + (f": {last}" if last else "")
    return Problem(where=where, key="", message=message, remedy="remove what ends it; raise an error instead")


def check_own_code(spec: PipelineSpec, folder: Path) -> Findings:
    """The dry run; a folder that cannot be packed is a problem of it."""
    try:
        return dry_run(spec, folder)
    except ConfigurationError as error:
        return Findings((Problem(where=str(folder), key="", message=error.cause, remedy=error.remedy),))
