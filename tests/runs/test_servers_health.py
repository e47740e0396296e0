"""What `ratchet doctor` says of the watch, of the reapers, and of silence."""

import json
import os
from pathlib import Path

import pytest

from ratchet.contracts import outbox_paths
from ratchet.contracts.errors import OtherRelease, Unavailable
from ratchet.runners.runner import Engine
from ratchet.runs.known_hosts import mark_host
from ratchet.runs.lost_hosts import say_gone
from ratchet.runs.servers_health import diagnose_servers
from ratchet.store.file import FileStore
from ratchet.store.opening import open_store

AT = "2026-11-28T02:00:00Z"
UNHEARD = "if the watch's host dies, nobody hears of it; RATCHET_HEARTBEAT_URL alarms then"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    monkeypatch.delenv("RATCHET_HEARTBEAT_URL", raising=False)
    made = open_store(str(tmp_path))
    assert isinstance(made, FileStore)
    return made


def marked(store: FileStore, server: str, **said: object) -> None:
    store.create(outbox_paths.presence("here", server), json.dumps({"at": AT, **said}).encode())


def lines(store: FileStore) -> list[tuple[str, bool | None, str]]:
    return [(one.name, one.well, one.text.partition("; start")[0]) for one in diagnose_servers(store)]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, (True, UNHEARD)),
        ({"heartbeat": "2026-11-28T01:59:00Z", "of a later release": 1}, (True, "silence alarms outside")),
        (
            {"heartbeat": "2026-11-28T01:00:00Z"},
            (False, "silence alarms outside: no heartbeat has gone out for 1h; the watch logs why"),
        ),
    ],
)
def test_whether_silence_alarms_is_what_the_watch_says_that_alone_has_the_address(
    store: FileStore, said: dict[str, object], expected: tuple[bool, str]
) -> None:
    marked(store, "watch", **said)
    assert lines(store)[-1] == ("silence", *expected)


def test_without_the_name_of_an_installation_the_address_that_is_set_here_counts(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RATCHET_INSTALLATION")
    assert lines(store) == [("silence", True, UNHEARD)]
    monkeypatch.setenv("RATCHET_HEARTBEAT_URL", "https://hc.example/1")
    assert lines(store) == [("silence", True, "silence alarms outside")]


def test_an_address_that_is_set_here_and_not_for_the_watch_alarms_nobody(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_HEARTBEAT_URL", "https://hc.example/1")
    assert lines(store)[-1] == (
        "silence",
        True,
        "silence alarms outside",
    )  # the watch was never there, as its line says
    marked(store, "watch")
    assert lines(store)[-1] == ("silence", False, "RATCHET_HEARTBEAT_URL is set here, and the watch sends none")
    assert [*diagnose_servers(store)][-1].text.endswith("; start it with it")


def test_servers_that_nobody_started_are_named(store: FileStore) -> None:
    assert lines(store) == [
        ("watch", False, "the watch has never been there"),
        ("hosts", False, "the reaper has never been there"),
        ("silence", True, UNHEARD),
    ]
    assert "python -m ratchet_airflow.watch" in next(diagnose_servers(store)).text


def test_each_host_has_a_line_and_one_that_is_away_says_what_to_do(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked(store, "watch")
    marked(store, "reaper")
    assert lines(store)[1][:2] == ("hosts", True)  # a reaper without an engine
    mark_host(store, "here", Engine("e-1", "main"), 0)
    mark_host(store, "here", Engine("e-2", "gpu-1"), 2)
    clock = store.now_ns()
    for entry in list(store.list(outbox_paths.EVERY)):
        os.utime(Path(store.uri.removeprefix("file://")) / entry.key, ns=(clock, clock))
    monkeypatch.setattr(FileStore, "now_ns", lambda _: clock + 7200 * 10**9)
    watch, gpu, main, _ = diagnose_servers(store)
    assert (watch.well, watch.text.partition(";")[0]) == (False, "the watch has not been there for 2h")
    assert (gpu.well, gpu.text.partition(";")[0]) == (False, "the reaper of gpu-1 (2 GPUs) has not been there for 2h")
    assert "`ratchet host-gone gpu-1 --because WHY`" in gpu.text
    assert main.text.startswith("the reaper of main has not been there")
    monkeypatch.setattr(FileStore, "now_ns", lambda _: clock + 9 * 10**9)
    assert [one.well for one in diagnose_servers(store)] == [True] * 4


def test_of_two_engines_on_a_host_of_one_name_the_one_that_is_away_is_named_so_that_it_can_be_called_gone(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the engine was installed again."""
    marked(store, "watch")
    mark_host(store, "here", Engine("e-old", "gpu-1"), 2)
    clock = store.now_ns()
    monkeypatch.setattr(FileStore, "now_ns", lambda _: clock + 7200 * 10**9)
    mark_host(store, "here", Engine("e-new", "gpu-1"), 2)
    new = store.root / outbox_paths.host("here", "e-new")
    os.utime(new, ns=(clock + 7200 * 10**9,) * 2)
    _, is_there, away, _ = diagnose_servers(store)
    assert (is_there.well, away.well) == (True, False)
    assert away.text.startswith("the reaper of gpu-1 with the engine e-old (2 GPUs) has not been there for 2h")
    assert "`ratchet host-gone e-old --because WHY`" in away.text
    with pytest.raises(Unavailable, match="gpu-1 is not gone"):
        say_gone(store, "gpu-1", by="ada", because="it was installed again")
    say_gone(store, "e-old", by="ada", because="it was installed again")
    assert [one.well for one in diagnose_servers(store)][1:] == [True, True]


def test_a_mark_that_cannot_be_read_is_no_pass(store: FileStore) -> None:
    store.create(outbox_paths.presence("here", "watch"), b"{}")
    with pytest.raises(OtherRelease):
        list(diagnose_servers(store))
