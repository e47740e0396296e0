"""What a dry run of a pipeline reports to the process that started it: a line of JSON for each step and each finding.

The other side is `ratchet.cli.dry_run`.
"""

import json
from pathlib import Path
from typing import Literal, TextIO

from ratchet.contracts.errors import ConfigurationError


class Report:
    """Lines that are on disk at once, so that they outlive the process."""

    def __init__(self, file: Path) -> None:
        self._file: TextIO = file.open("w", encoding="utf-8", buffering=1)

    def step(self, name: str) -> None:
        """What starts now, as in `import features.py`."""
        self._write("step", name)

    def problem(self, error: ConfigurationError) -> None:
        """A mistake of the pipeline."""
        self._write("problem", error.cause, error.remedy)

    def unchecked(self, what: str, remedy: str) -> None:
        """What could not be checked, and why."""
        self._write("unchecked", what, remedy)

    def done(self) -> None:
        """All steps have ended."""
        self._write("done", "")

    def _write(self, kind: Literal["step", "problem", "unchecked", "done"], text: str, remedy: str = "") -> None:
        self._file.write(json.dumps({"kind": kind, "text": " ".join(text.split()), "remedy": remedy}) + "\n")
