"""A source distribution is whole: the wheel that is built from it is the one that the checkout gives."""

import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import PROJECTS, build

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("wheels")]


def contents(wheel: Path) -> dict[str, bytes]:
    """What is installed, by name; the record of it is made of the rest."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


@pytest.mark.parametrize("name", PROJECTS)
def test_a_wheel_from_the_source_distribution_is_that_of_the_checkout(
    sources: Path, wheels: dict[str, Path], tmp_path: Path, name: str
) -> None:
    build("sdist", sources / PROJECTS[name], tmp_path)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    build("wheel", tmp_path / sdist.name.removesuffix(".tar.gz"), tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    ours, theirs = contents(wheel), contents(wheels[name])
    assert sorted(ours) == sorted(theirs)
    assert [file for file in ours if ours[file] != theirs[file]] == []
