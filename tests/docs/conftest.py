"""The tutorial, followed once for all tests of the documents."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.blocks import Done, commands, run


@dataclass(frozen=True, kw_only=True)
class Tutorial:
    """What a reader of the tutorial has in the end. done: how each command ended, in order."""

    folder: Path
    done: tuple[Done, ...]

    @property
    def store(self) -> Path:
        """Where Ratchet keeps everything."""
        return self.folder / ".ratchet" / "store"


@pytest.fixture(scope="session")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Tutorial:
    """Every command of the tutorial, in order, from an empty folder."""
    folder = tmp_path_factory.mktemp("tutorial")
    return Tutorial(folder=folder, done=tuple(run(command, folder) for command in commands("tutorial.md")))
