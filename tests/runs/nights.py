"""`ratchet run` as a person calls it: its output and its exit code."""

import io
import json
import os
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ratchet.cli.main import main
from ratchet.samples import clicks, payments

ROOT = Path(__file__).resolve().parents[2]
DAY = date(2026, 3, 20)
SMALL = (
    *("--set", "source.window_days=20", "--set", "train.epochs=3", "--set", "train.learning_rate=0.003"),
    *("--set", "validate.expectations=[]"),
)
"""Enough days that a first model is worth more than a table, and no expectation, whose library takes seconds to load."""


@dataclass(frozen=True, kw_only=True)
class CallResult:
    """How a call ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed with --json."""
        return json.loads(self.out)


def sample(out: Path, *, days: int = 22, rows_per_day: int = 6000) -> Path:
    """Days of both examples up to DAY."""
    for kind in (clicks, payments):
        for _ in kind.write(out, days=days, rows_per_day=rows_per_day, end=DAY, seed=0):
            pass
    return out


def ratchet(*arguments: str, environment: Mapping[str, str] | None = None) -> CallResult:
    """Call it in this process, which saves a start; its stages are processes or containers of their own.

    The environment is this process's, without settings of its own, and what is given.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RATCHET_", "MLFLOW_"))}
    out, err = io.StringIO(), io.StringIO()
    settings = {**inherited, **(environment or {})}
    with patch.dict(os.environ, settings, clear=True), redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return CallResult(code=code, out=out.getvalue(), err=err.getvalue())


def run(
    pipeline: str,
    data: str,
    store: str,
    *more: str,
    runner: str = "process",
    environment: Mapping[str, str] | None = None,
) -> CallResult:
    """`ratchet run PIPELINE --date DAY --json`, small."""
    settings = {"RATCHET_DATA": data, **(environment or {})}
    arguments = ("run", pipeline, "--store", store, "--runner", runner, "--json", *SMALL, *more)
    dated = () if "--from" in more else ("--date", DAY.isoformat())
    return ratchet(*arguments, *dated, environment=settings)
