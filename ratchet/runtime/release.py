"""The facts about the stages that planning needs: the digests of their code, and the versions of their libraries.

A checkout and an image contain the files themselves. A wheel of the library does not: the stages are another
distribution, which Airflow's environment does not have. So the build of the wheel writes these facts to `release.json`.
Where the record exists it decides, whatever else is installed: a folder `tasks` beside the wheel can be anyone's.

A change here violates the promise of the project when a wheel and the checkout that it was built from plan the same run
with different fingerprints.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from ratchet.checkout import ROOT, STAGE_LOCK
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import STAGES, Stage, stage_module
from ratchet.runtime.code import Modules, code_parts

FILE = "release.json"
_RECORD = Path(__file__).resolve().parents[1] / FILE
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
DECISIVE = frozenset(
    {
        *("deltalake", "great-expectations", "lightgbm", "mlflow-skinny", "numpy", "pandas", "polars", "pyarrow"),
        *("safetensors", "torch"),
    }
)


def stage_code(stage: Stage, read: Modules | None = None) -> dict[str, str]:
    """`{"code.tasks.train.loop": sha256, ...}`: the modules of a stage, and those of the library that it needs.

    read: as for `code_parts`. Raises ConfigurationError if neither the record nor the stage's files are here.
    """
    if not _RECORD.is_file():
        if parts := code_parts(stage_module(stage), read):
            return parts
        raise _incomplete(f"the code of the stage {stage}")
    found: dict[str, str] = _record()["code"][stage]
    return found


@cache
def stage_libraries() -> dict[str, str]:
    """Versions of the libraries that results depend on, from the lock file of the stage image.

    Raises ConfigurationError if neither the record nor the lock file is here.
    """
    if _RECORD.is_file():
        recorded: dict[str, str] = _record()["libraries"]
        return recorded
    if not STAGE_LOCK.is_file():
        raise _incomplete(f"the lock file {STAGE_LOCK.relative_to(ROOT)}")
    found = dict(_PINNED.findall(STAGE_LOCK.read_text(encoding="utf-8")))
    return {name: found[name] for name in sorted(DECISIVE)}


def write_record(folder: Path) -> None:
    """Write the record into the package's folder in a wheel. setup.py calls this in the checkout."""
    record = {"code": {stage: stage_code(stage) for stage in STAGES}, "libraries": stage_libraries()}
    (folder / FILE).write_text(json.dumps(record, indent=1, sort_keys=True), encoding="utf-8")


@cache
def _record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_RECORD.read_text(encoding="utf-8"))
    return found


def _incomplete(missing: str) -> ConfigurationError:
    return ConfigurationError(
        f"{ROOT} has neither {missing} nor ratchet/{FILE}",
        remedy="install a wheel that `make wheels` has built, or use a whole checkout",
    )
