"""The state file: written in one step, read by anyone."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from local.supervision.state import FILE, Identity, Servers, ServerState, read, write
from ratchet.contracts.errors import CorruptArtifact


def test_a_written_state_is_read(tmp_path: Path) -> None:
    server = ServerState(
        name="a", state="running", since=datetime.now(UTC), log="a.log", process=Identity(pid=1, born=2)
    )
    known = Servers(supervisor=Identity(pid=3, born=4.5), servers=(server,))
    write(tmp_path, known)
    write(tmp_path, known)
    assert read(tmp_path) == known
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_home_where_nothing_was_started_has_no_state(tmp_path: Path) -> None:
    assert read(tmp_path) is None


def test_a_file_of_something_else_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(CorruptArtifact, match=rf"{tmp_path}/{FILE} is not the state file of a supervisor"):
        read(tmp_path)
