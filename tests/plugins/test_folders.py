"""The folders of pipelines: what may not be read is a problem with a name, and no pipeline less."""

import errno
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ratchet_airflow import folders
from tests.dags.pipelines import write


def _refuse(*_: Any, **__: Any) -> NoReturn:
    """As SELinux does, or the rights of another user."""
    raise PermissionError(errno.EACCES, "Permission denied")


@pytest.fixture
def pipelines(tmp_path: Path) -> Path:
    write(tmp_path, "shop")
    (tmp_path / "notes").mkdir()
    (tmp_path / "README").write_text("")
    return tmp_path


def test_a_folder_that_may_not_be_listed_is_a_problem(pipelines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [len(each) for each in folders.read(pipelines)] == [1, 0]
    monkeypatch.setattr(Path, "iterdir", _refuse)
    found, (broken,) = folders.read(pipelines)
    assert found == []
    assert f"{pipelines}: the folder of the pipelines cannot be read: Permission denied" in str(broken)


def test_a_pipeline_that_may_not_be_looked_at_is_a_problem_of_its_own(
    pipelines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pipelines, "shut")
    real = {name: getattr(Path, name) for name in ("exists", "is_dir", "read_text")}

    def refused(name: str) -> Any:
        def call(path: Path, *words: Any, **more: Any) -> Any:
            return _refuse() if path.parent.name == "shut" else real[name](path, *words, **more)

        return call

    for name in real:
        monkeypatch.setattr(Path, name, refused(name))
    found, (broken,) = folders.read(pipelines)
    assert [each.spec.name for each in found] == ["shop"]
    assert "shut/pipeline.yaml" in str(broken)
    assert "Permission denied" in str(broken)
