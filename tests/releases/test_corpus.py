"""Stores of all releases are read by this one, and what a newer release may write is read by the releases before.

A release adds its own store with `make_store`, and with it a line to RELEASES.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.approval import RecordedAnswer
from ratchet.contracts.day_record import DayRecord
from ratchet.contracts.document import Document
from ratchet.contracts.errors import OtherRelease
from ratchet.contracts.removal import Removal
from ratchet.contracts.repetition import HoldoutAttempt
from ratchet.contracts.reproduction import Reproduction
from ratchet.contracts.request import Outcome, RunPlan, StageRequest
from ratchet.contracts.result import StageResult
from ratchet.contracts.run_index import RunIndex
from ratchet.contracts.snapshot_index import SnapshotIndex
from ratchet.contracts.stored import read_stored
from ratchet.contracts.version_record import VersionRecord
from ratchet.outbox.incident import Incident
from ratchet.outbox.letter import Letter
from ratchet.outbox.lost_letters import LostLetters
from ratchet.runs.run_index import nights
from ratchet.store.file import FileStore
from ratchet.store.lease import Lease
from ratchet.store.ledger_record import Head, Record
from ratchet.store.opening import open_store
from ratchet.store.sealed import seal, unseal
from tests.runs.nights import ratchet

HERE = Path(__file__).parent
FIRST_KINDS: dict[str, type[Document]] = {
    r"runs/.*/plan\.json": RunPlan,
    r"runs/[^/]+/[^/]+/[a-z]+\.json": Outcome,
    r"published/.*/manifest\.json": StageResult,
    r"ledger/.*/\d+\.json": Record,
    r"ledger/.*/head\.json": Head,
    r"versions/.*\.json": VersionRecord,
    r"days/.*\.json": DayRecord,
    r"removals/.*\.json": Removal,
    r"tables/[^/]+/[0-9a-f]+\.json": SnapshotIndex,
    r"leases/.*\.json": Lease,
}
MORE_KINDS: dict[str, type[Document]] = {
    r"runs/.*/approval-\d+\.json": RecordedAnswer,
    r"index/.*\.json": RunIndex,
    r"attempts/.*\.json": HoldoutAttempt,
    r"outbox/.*/letters/.*\.json": Letter,
    r"outbox/.*/incidents/.*\.json": Incident,
    r"outbox/.*/newest-undelivered/.*\.json": LostLetters,
    r"left/.*/job\.json": StageRequest,
    r"runs/.*/reproduction-plan\.json": RunPlan,
    r"runs/.*/reproduction-report\.json": Reproduction,
}
KINDS = {**FIRST_KINDS, **MORE_KINDS}
"""The documents of a store by their keys; what is sealed is unsealed first."""
RELEASES = {"0.1.0": FIRST_KINDS, "0.2.0": KINDS}
"""The kinds that the store of a release has at least."""
BAD, LAST = date(2026, 3, 16), date(2026, 3, 15)


@pytest.fixture(scope="module", params=RELEASES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FileStore:
    return unpacked(request.param, tmp_path_factory.mktemp("release"))


def unpacked(release: str, folder: Path) -> FileStore:
    """The store of a release, below a folder."""
    with tarfile.open(HERE / f"{release}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    opened = open_store(str(folder / "store"))
    assert isinstance(opened, FileStore)
    return opened


def documents(store: FileStore) -> dict[str, tuple[type[Document], bytes]]:
    """The documents of a store, by key."""
    found = {}
    for entry in store.list(""):
        kind = next((kind for pattern, kind in KINDS.items() if re.fullmatch(pattern, entry.key)), None)
        if kind is not None:
            found[entry.key] = (kind, store.read(entry.key))
    return found


def read(kind: type[Document], data: bytes) -> Document:
    """As the code reads it: sealed or not."""
    if set(json.loads(data)) == {"sha256", "document"}:
        return unseal(data, kind, where="it", remedy="none")
    return read_stored(kind, data, where="it")


def test_each_kind_of_document_of_a_release_is_read(store: FileStore, request: pytest.FixtureRequest) -> None:
    found = documents(store)
    assert {kind for kind, _ in found.values()} >= {*RELEASES[request.node.callspec.params["store"]].values()}
    for kind, data in found.values():
        document = read(kind, data)
        if isinstance(document, StageResult) and "." not in document.stage and document.summary:
            of = {"ingest": summaries.snapshot, "train": summaries.trained, "evaluate": summaries.judgement}
            assert document.stage not in of or of[document.stage](document)


def test_the_verbs_answer_about_a_store_of_a_release(store: FileStore) -> None:
    at = ("--store", str(store.root))
    nights = ratchet("nights", "shop", *at)
    assert nights.code == 0, nights.err
    assert all(day in nights.out for day in ("2026-03-14", "2026-03-15", "2026-03-16"))
    run = next(entry.key.split("/")[2] for entry in store.list("runs/shop") if entry.key.endswith("train.json"))
    for words, said in (
        (("why", f"shop/{run}"), "train"),
        (("data", "shop"), "let in"),
        (("history", "shop"), "hold"),
        (("verify", "shop"), "files compared"),
    ):
        ended = ratchet(*words, *at)
        assert "Traceback" not in ended.err
        assert said in ended.out, (words, ended.out)
    verified = ratchet("verify", "shop", *at)  # of a store with a purge
    assert (verified.code, "purged or expired: gone, as they should be" in verified.out) == (0, True), verified.out


def test_what_a_newer_release_adds_is_left_out_unless_it_is_needed(store: FileStore) -> None:
    for key, (kind, data) in documents(store).items():
        plain = json.loads(data)
        is_sealed = set(plain) == {"sha256", "document"}
        document = read(kind, data)
        written = _with_more(kind, plain["document"] if is_sealed else plain)
        assert read_stored(kind, json.dumps(written).encode(), where=key) == document, key
        needing = json.dumps({**written, "needs": {"tides": "9.9"}}).encode()
        with pytest.raises(OtherRelease, match=r"written by Ratchet 9\.9 or newer and needs tides"):
            read_stored(kind, needing, where=key)


def _with_more(kind: type[Document], plain: dict[str, Any]) -> dict[str, Any]:
    """A document with one more key in itself, and in each document inside it that is one of a list."""
    more = {**plain, "of_a_newer_release": {"a": [1]}}
    for name, field in kind.model_fields.items():
        key = field.alias or name
        if isinstance(plain.get(key), list) and plain[key] and "Document" not in str(field.annotation):
            more[key] = [{**one, "newer": 1} if isinstance(one, dict) else one for one in plain[key]]
    return more


def test_a_record_that_an_older_release_cannot_read_moves_nothing_and_is_said_in_one_line(store: FileStore) -> None:
    key = next(entry.key for entry in store.list("runs/shop") if entry.key.endswith("/plan.json"))
    before = store.read(key)
    plan = RunPlan.model_validate_json(before)
    entry = store.head(key)
    assert entry is not None
    store.replace(key, json.dumps({**json.loads(before), "needs": {"tides": "9.9"}}).encode(), expected=entry.etag)
    index = paths.run_index("shop")  # it says what a run was that had ended; without it the records are read
    kept = store.read(index) if store.head(index) is not None else None
    store.delete(index)
    try:
        lines = nights(store, "shop")
        bad = [line for line in lines if "needs tides" in line.cause]
        assert [line.day for line in bad] == [plan.data_date]
        assert all(line.standing == "failed" for line in bad)
        assert len(lines) == 3
        shown = ratchet("nights", "shop", "--store", str(store.root))
        assert (shown.code, "needs tides" in shown.out) == (0, True)
    finally:
        entry = store.head(key)
        assert entry is not None
        store.replace(key, before, expected=entry.etag)
        if kept is not None:
            store.create(index, kept)


def test_a_ledger_with_keys_of_a_newer_release_is_whole(store: FileStore) -> None:
    from ratchet.store.ledger import records

    before = records(store, "shop")
    assert [record.action for record in before] == ["promote", "hold", "release"]
    assert seal(before[0])  # the chain is of bytes: see ledger_chain


@pytest.mark.parametrize(("older", "newer"), [*pairwise(RELEASES)])
def test_the_release_before_reads_the_store_of_a_release_and_writes_to_it(
    older: str, newer: str, tmp_path: Path
) -> None:
    """As where one host is not upgraded yet, or where an upgrade is taken back."""
    with tarfile.open(HERE / f"{older}.code.tar.xz") as packed:
        packed.extractall(tmp_path / "code", filter="data")
    store = unpacked(newer, tmp_path)

    def before(*words: str) -> str:
        """What a program of the older release prints."""
        command = [sys.executable, "-P", *words]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "code"), "RATCHET_STORE": store.uri}
        ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr or ended.stdout
        return ended.stdout

    def verb(*words: str) -> str:
        return before("-m", "ratchet.cli.main", *words)

    assert before("-c", "import ratchet.contracts as its; print(its.__path__[0])").startswith(str(tmp_path / "code"))
    shown = verb("nights", "shop")
    assert all(day in shown for day in ("2026-03-14", "2026-03-15", "2026-03-16"))
    run = next(entry.key.split("/")[2] for entry in store.list("runs/shop") if entry.key.endswith("train.json"))
    assert "train" in verb("why", f"shop/{run}")
    assert "let in" in verb("data", "shop")
    assert "files compared" in verb("verify", "shop")
    verb("data", "refuse", "shop", "2026-03-15", "--because", "rows are missing", "--by", "Ada")
    assert "rows are missing" in ratchet("data", "shop", "--store", store.uri).out
    for key, (kind, data) in documents(store).items():
        assert read(kind, data), key
    assert ratchet("verify", "shop", "--store", store.uri).code == 0
