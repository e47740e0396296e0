"""A Docker engine and the stage image, built once however many test workers ask."""

import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def stage_image() -> str:
    """The tag of the stage image, of the code as it is now. Starts an engine if none answers.

    The scripts hold locks of their own, so that workers wait for one another.
    """
    _script("engine.sh")
    return _script("images.sh").splitlines()[-1]


@pytest.fixture(scope="session")
def team_images() -> list[str]:
    """The tags of all images of the team set-up. Starts an engine if none answers."""
    _script("engine.sh")
    return [line.split(": ")[0] for line in _script("images.sh", "team").splitlines()]


def _script(name: str, *arguments: str) -> str:
    ended = subprocess.run([_ROOT / "scripts" / name, *arguments], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        pytest.fail(
            f"scripts/{name} {' '.join(arguments)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        )
    return ended.stdout
