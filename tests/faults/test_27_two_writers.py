"""Two processes publish the same results at once: one wins each, the other verifies and yields."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.contracts.fingerprint import digest
from ratchet.store.opening import open_store
from ratchet.store.publishing import find_result, verify

ROOT = Path(__file__).parents[2]
ROUNDS = 15


@pytest.fixture(params=["file", "s3"])
def shared_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that processes can share."""
    return str(request.getfixturevalue("s3_uri")) if request.param == "s3" else (tmp_path / "store").as_uri()


def race(uri: str, contents: dict[str, str]) -> list[tuple[str, ...]]:
    """What each writer says of each round, in the order of the writers."""
    with ExitStack() as stack:
        writers = []
        for attempt, content in contents.items():
            command = [sys.executable, "-m", "tests.faults.writer", uri, attempt, content, str(ROUNDS)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True)
            stack.callback(process.kill)
            writers.append(stack.enter_context(process))
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        said = [writer.communicate(timeout=60)[0].split() for writer in writers]
    assert [len(words) for words in said] == [ROUNDS] * len(writers)
    return list(zip(*said, strict=True))


def test_of_two_writers_of_the_same_one_publishes_and_the_other_reuses(shared_uri: str) -> None:
    rounds = race(shared_uri, {"one": "same", "two": "same"})
    assert {tuple(sorted(words)) for words in rounds} == {("published", "reused")}
    store = open_store(shared_uri)
    for number in range(ROUNDS):
        prefix = paths.published("example", "ingest", digest(str(number).encode()))
        found = find_result(store, prefix)
        assert found is not None
        assert verify(store, found) == []
        # The one who came second has cleared up.
        assert [entry.key for entry in store.list(prefix)] == sorted([found.key, found.result.outputs["rows"].key])


def test_of_two_writers_that_differ_one_publishes_and_the_other_is_refused(shared_uri: str) -> None:
    rounds = race(shared_uri, {"one": "this", "two": "that"})
    assert {tuple(sorted(words)) for words in rounds} == {("published", "refused")}
    store = open_store(shared_uri)
    for number, words in enumerate(rounds):
        found = find_result(store, paths.published("example", "ingest", digest(str(number).encode())))
        assert found is not None
        assert found.result.content == digest(b"this" if words[0] == "published" else b"that")
        assert verify(store, found) == []
