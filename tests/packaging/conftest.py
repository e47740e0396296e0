"""Distributions built once from copies of what git has, and programs that use them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / "scripts" / "uv.sh"
_SOURCES = ("ratchet", "tasks", "plugins", "docker/stage.txt", "pyproject.toml", "setup.py", "MANIFEST.in", "LICENSE", "README.md")  # fmt: skip
PROJECTS = {"ratchet": ".", "ratchet_stages": "tasks"}
"""The folder that each distribution is built from."""


def run(*words: str | Path, env: Mapping[str, str] = os.environ, code: int = 0) -> str:
    """Run a program outside the checkout; what it has printed."""
    ended = subprocess.run(list(map(str, words)), cwd="/", env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def build(kind: str, folder: Path, into: Path) -> None:
    """Build a wheel or an sdist of the project in a folder."""
    run(UV, "build", f"--{kind}", "--no-build-isolation", "--python", sys.executable, "-o", into, folder)


def environment(**settings: str) -> dict[str, str]:
    """The variables of a program that knows nothing of this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RATCHET_"))}
    return {**kept, **settings}


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what both distributions are made of."""
    folder = tmp_path_factory.mktemp("source")
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z", *_SOURCES],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, files):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    return folder


@pytest.fixture(scope="session")
def wheels(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels by the name of their distribution."""
    dist = tmp_path_factory.mktemp("dist")
    for folder in PROJECTS.values():
        build("wheel", sources / folder, dist)
    return {path.name.split("-")[0]: path for path in dist.glob("*.whl")}
