"""What two runs with the same result have in common: the pipeline's commit, the image, the library versions."""

import platform
import subprocess
from pathlib import Path

from ratchet.contracts.environment import environment
from ratchet.contracts.git_folder import commit_of
from ratchet.contracts.request import PROCESS, Pins
from ratchet.runtime.release import stage_libraries


def pins(folder: Path, image: str | None) -> Pins:
    """The pins of a run of the pipeline in `folder`; image None means stages run as processes."""
    return pins_here(environment().commit or commit_of(folder) or _commit(folder), image)


def pins_here(commit: str, image: str | None) -> Pins:
    """The same of a pipeline whose commit is known."""
    return Pins(
        commit=commit,
        image=image or PROCESS,
        python=platform.python_version(),
        libraries=stage_libraries(),
    )


def _commit(folder: Path) -> str:
    """The commit that holds the folder, with `+changes` if the folder differs from it, or `unknown`."""
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        changes = _git(folder, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{commit}+changes" if changes else commit


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],  # noqa: S607 - git is wherever the system keeps it
        check=True,
        capture_output=True,
        text=True,
        timeout=10,
    )
    return done.stdout.strip()
