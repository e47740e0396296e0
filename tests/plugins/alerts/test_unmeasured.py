"""A champion that cannot be measured: real nights, and the alert that they end in."""

from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts.judgements import UNMEASURABLE
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.production.promote import promote
from ratchet.store.file import FileStore
from ratchet.store.ledger import champion
from ratchet_airflow.alerts.callbacks import AlertCallbacks
from tests.evaluate.nights import FIRST, Nights, judgement, registration
from tests.mlflow_server import prepare
from tests.plugins.alerts.callback_context import callbacks, context
from tests.plugins.webhook import Webhook

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import


def report(to: AlertCallbacks, ended: dict[Stage, Outcome], run_id: str) -> None:
    """What Airflow does when evaluate has succeeded, and register."""
    to.on_judgement(context(None, stage="evaluate", run_id=run_id, result=ended["evaluate"].result))
    to.on_registration(context(None, stage="register", run_id=run_id, result=ended["register"].result))


def test_after_so_many_nights_as_the_file_says_people_get_the_command_that_ends_it(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = prepare(FileStore(tmp_path / "store"), mlflow_database)
    assert isinstance(store, FileStore)
    monkeypatch.setenv("RATCHET_STORE", store.uri)
    monkeypatch.setenv("RATCHET_ALERT_LOG", str(tmp_path / "alerts.jsonl"))
    nights = Nights(folder=tmp_path, store=store, sections={"gate": {"unmeasurable_after": 2}})
    last = FIRST + timedelta(days=2)
    for day in (FIRST, last, last + timedelta(days=1)):
        nights.deliver(day)
    first = nights.run(FIRST)
    assert registration(first).promoted
    live = champion(store, "grades")
    assert live is not None
    folder = live.manifests["train"].rpartition("/")[0]
    for key in [entry.key for entry in store.list(folder) if entry.key.endswith("/weights")]:
        store.delete(key)
    second, third = nights.run(FIRST + timedelta(days=1)), nights.run(last)
    assert [judgement(night).reason for night in (second, third)] == ["baseline-missing", "champion-unmeasurable"]
    made = registration(third)
    command = f'ratchet promote grades@{made.version} --because "..."'
    assert (made.promoted, made.command, made.version != registration(first).version) == (False, command, True)
    with Webhook().listening() as hook:
        monkeypatch.setenv("RATCHET_ALERTS_ML_OPS", hook.url)
        to = callbacks()
        for number, night in enumerate((first, second, third, third)):
            report(to, night, f"r{min(number, 2)}")
        (received,) = hook.received
    assert received["title"].endswith("register cannot measure the champion")
    assert (
        f"Cause: no night can measure production of grades; version {made.version} is registered" in received["message"]
    )
    (remedy,) = [line for line in received["message"].splitlines() if line.startswith("What to do: ")]
    assert remedy.startswith(f"What to do: {command}; or trigger the DAG ratchet_promote with version {made.version}")
    assert received["type"] == "warning"
    promote(store, None, "grades", made.version, by="ann", because="nothing measures the other one")
    fourth = nights.run(last + timedelta(days=1), until="evaluate")
    assert judgement(fourth).reason not in UNMEASURABLE
