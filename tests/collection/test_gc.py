"""`ratchet gc` as a person and as Airflow call it, on a store of files, and killed for real."""

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.checkout import ROOT
from ratchet.cli.main import main
from ratchet.contracts import outbox_paths, paths
from ratchet.contracts.collection import LEAST_RESULTS
from ratchet.contracts.errors import Unavailable
from ratchet.store.file import FileStore
from ratchet.store.opening import open_store
from tests.collection.village import FIRST, NAME, Village
from tests.plugins.webhook import Webhook
from tests.runs.nights import ratchet

SETTINGS = {"RATCHET_GC": "results=10,runs=40,last=2,grace=3"}
DIES = """
import os, signal, sys
from ratchet.store.file import FileStore

left = int(sys.argv.pop(1))

def counted(real):
    def call(self, key, *given, **named):
        global left
        if "leases/" not in key:
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return real(self, key, *given, **named)
    return call

FileStore.delete = counted(FileStore.delete)
from ratchet.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


class FileVillage(Village):
    """The same in a folder, whose files are made older in the place of a clock that goes on."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.store = FileStore(folder)  # type: ignore[assignment] # it is watched by nobody here
        self.folder = folder

    def age(self, days: int) -> None:
        make_older(self.folder, days)


def make_older(folder: Path, days: int) -> None:
    """All files below a folder."""
    for path in filter(Path.is_file, folder.rglob("*")):
        found = path.stat()
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns - days * 86_400 * 10**9))


@pytest.fixture
def village(tmp_path: Path) -> FileVillage:
    with FileVillage(tmp_path / "store") as made:
        for back in range(6, 0, -1):
            made.night(FIRST - timedelta(days=back))
            made.age(1)
        made.promote("run-1")
        made.crash(FIRST)
        made.age(14)
        made.clock.stop()
        return made


def test_a_person_sees_what_would_go_and_then_deletes_it(village: FileVillage) -> None:
    store = str(village.folder)
    before = sorted(village.folder.rglob("*"))
    said = ratchet("gc", "--store", store, environment=SETTINGS)
    assert said.code == 0
    assert sorted(village.folder.rglob("*")) == before
    assert "goes  results of train: 10 objects, " in said.out
    assert "no run that is kept and no version names it" in said.out
    assert "stays  results of train: 6 objects" in said.out
    assert said.out.endswith("would go; nothing was deleted, --apply deletes\n")
    told = ratchet("gc", "--store", store, "--json", "--pipeline", NAME, environment=SETTINGS)
    (found, shared) = told.json
    assert (found["pipeline"], found["unchecked"], shared["pipeline"]) == (NAME, None, None)
    done = ratchet("gc", "--store", store, "--apply", environment=SETTINGS)
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        said.out.splitlines()[-1].replace("would go; nothing was deleted, --apply deletes", "deleted"),
    )
    village.check()
    again = ratchet("gc", "--store", store, "--apply", environment=SETTINGS)
    assert again.out.endswith("0 objects, 0 bytes deleted\n")


def test_what_cannot_be_checked_is_said_in_a_line_and_in_the_exit_code_and_fails_the_dag(
    village: FileVillage, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = paths.plan(NAME, "run-3")
    village.store.delete(key)
    village.store.create(key, b"{}")
    said = ratchet("gc", "--store", str(village.folder), "--apply", environment=SETTINGS)
    assert said.code == 1
    assert f"could not be checked, so nothing goes: {village.store.uri}/{key} cannot be read" in said.out
    from ratchet_airflow.collection import CollectOperator

    monkeypatch.setenv("RATCHET_STORE", str(village.folder))
    monkeypatch.setenv("RATCHET_GC", SETTINGS["RATCHET_GC"])
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    with pytest.raises(Unavailable, match=f"could not be checked: {NAME}: .*run-3/plan.json cannot be read"):
        CollectOperator(task_id="collect").execute({})
    assert village.store.head(outbox_paths.presence("here", "collection")) is not None  # it ran, and says so itself
    village.store.delete(key)
    assert CollectOperator(task_id="collect").execute({}) > 0


def test_a_store_without_a_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gc", "--store", str(tmp_path / "another")]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"file://{tmp_path}/another has no run of any pipeline; check --store and RATCHET_STORE")


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import
def test_people_are_told_that_the_weekly_collection_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ratchet_airflow import collection

    monkeypatch.setenv("RATCHET_STORE", str(tmp_path))
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    monkeypatch.setenv("RATCHET_INSTALLATION", "here")
    monkeypatch.setenv("RATCHET_PIPELINES", str(ROOT / "dags" / "pipelines"))
    monkeypatch.setenv("RATCHET_GC", "weekly")
    dag = collection.build()
    assert dag is not None
    callbacks = dag.get_task("collect").on_failure_callback
    assert isinstance(callbacks, list)
    with Webhook().listening() as hook:
        monkeypatch.setenv("RATCHET_ALERTS_MLOPS", hook.url)
        for error in (Unavailable("shop: its plan cannot be read: password=hunter2", remedy="restore it"), None):
            callbacks[0]({"exception": error})  # once a day is enough
        (body,) = hook.received
    assert body["title"] == "Ratchet: the store was not collected"
    assert "shop: its plan cannot be read: password=***" in body["message"]


def test_a_kill_at_a_deletion_leaves_only_what_is_whole_or_what_nobody_finds(village: FileVillage) -> None:
    """Each process dies a few deletions later than the one before; what one leaves, the next ones find."""
    call = 0
    for call in range(1, 40, 6):
        arguments = [sys.executable, "-c", DIES, str(call), "gc", "--apply", "--store", str(village.folder)]
        ended = subprocess.run(arguments, check=False, capture_output=True, env={**os.environ, **SETTINGS})
        village.check()
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert call > 10
    left = json.loads(ratchet("gc", "--store", str(village.folder), "--json", environment=SETTINGS).out)
    assert not any(one["goes"] for one in left)
    assert open_store(str(village.folder)).head(village.manifests("run-1")["train"]) is not None


def test_results_stay_longer_than_a_question_may_wait_for_its_answer() -> None:
    from ratchet_airflow.approval import WAIT

    assert timedelta(days=LEAST_RESULTS) > WAIT
