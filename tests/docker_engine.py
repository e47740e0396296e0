"""A Docker engine and the stage image, built once however many test workers ask."""

import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def stage_image() -> str:
    """The tag of the stage image, of the code as it stands. Starts an engine if none answers.

    The scripts hold locks of their own, so that workers wait for one another.
    """
    _script("engine.sh")
    return _script("images.sh").splitlines()[-1]


def _script(name: str) -> str:
    ended = subprocess.run([_ROOT / "scripts" / name], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        pytest.fail(f"scripts/{name} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout
