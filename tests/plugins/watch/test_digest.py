"""The morning digest: sent once to each receiver, with what ran and what waits, from a few requests to the store."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from ratchet.contracts import outbox_paths, paths
from ratchet.contracts.day_record import DayRecord
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.judgements import Interval
from ratchet.contracts.loading import load
from ratchet.contracts.request import Outcome
from ratchet.contracts.run_index import FORM, IndexedRun, RunIndex
from ratchet.outbox.letter import TAKEN, Letter
from ratchet.outbox.outbox import utc
from ratchet.runs.day_records import admit, refuse
from ratchet.runs.run_index import note_end, note_plan
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet.store.sealed import seal
from ratchet_airflow.alerts.delivery import outbox_of
from ratchet_airflow.watch import digest
from ratchet_airflow.watch.airflow_runs import AirflowDag, Run
from ratchet_airflow.watch.airflow_server import AirflowServer
from ratchet_airflow.watch.digest import scan_digest
from ratchet_airflow.watch.scan import Scanner
from tests.plugins.watch.airflow_api import AirflowApi, dag
from tests.plugins.watch.airflow_rows import run as airflow_run
from tests.plugins.watch.airflow_rows import task
from tests.plugins.webhook import Webhook
from tests.runs.recorded import keep, keep_plan
from tests.runs.test_digest_runs import judged
from tests.runs.test_requests import DAY, SPEC, plan
from tests.store_calls import counted_calls

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
NIGHTS = "https://airflow.example.org/base/ratchet/nights"
ROWS = "a" * 64


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with Webhook().listening() as listening:
        yield listening


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: Webhook) -> Store:
    """An installation whose digest is due at 07:30, and whose receivers all have one address."""
    for name, value in {
        "RATCHET_PIPELINES": tmp_path / "pipelines",
        "RATCHET_ALERT_LOG": tmp_path / "alerts.jsonl",
        "RATCHET_STORE": tmp_path / "store",
        "RATCHET_INSTALLATION": "here",
        "RATCHET_DIGEST": "07:30",
        "RATCHET_PUBLIC_AIRFLOW_URL": "https://airflow.example.org/base/",
        **{f"RATCHET_ALERTS_{name}": hook.url for name in ("ML_OPS", "SHOP", "FRAUD")},
    }.items():
        monkeypatch.setenv(name, str(value))
    made = open_store(str(tmp_path / "store"))
    made.prepare()
    return made


def pipeline(tmp_path: Path, name: str, *to: str, more: str = "") -> None:
    folder = tmp_path / "pipelines" / name
    folder.mkdir(parents=True)
    text = SPEC.replace("name: small", f"name: {name}")
    (folder / "pipeline.yaml").write_text(f"{text}{more}alerts: {{to: [{', '.join(to) or 'ml-ops'}]}}\n")
    os.utime(folder / "pipeline.yaml", ((NOW - timedelta(days=9)).timestamp(),) * 2)


def ran(store: Store, tmp_path: Path, name: str, *ended: Outcome, day: date = DAY) -> None:
    """The night of a pipeline, six hours ago."""
    spec = load(tmp_path / "pipelines" / name / "pipeline.yaml")
    made = keep_plan(
        store,
        plan(run_id=f"night-{name}", kind="scheduled", data_date=day, spec=spec, created=NOW - timedelta(hours=6)),
    )
    note_plan(store, made)
    keep(store, made, *ended)
    note_end(store, made)


def scan(store: Store, *runs: Run, now: datetime = NOW, **dags: AirflowDag) -> int:
    return scan_digest(store, lambda _: {dag.dag_id: dag for dag in dags.values()}, runs, now)


def next_scan_delivers(store: Store, after: timedelta = TAKEN) -> int:
    return outbox_of(store, lambda: utc() + after).deliver_due()


class _Forgetful(dict[str, date]):
    """What a watch knows that has just started, at each scan."""

    def __setitem__(self, *_: object) -> None:
        pass


@pytest.fixture
def many_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scan is that of another process."""
    monkeypatch.setattr(digest, "_sent", _Forgetful())


def test_a_digest_says_what_ran_and_how_the_worst_first(store: Store, tmp_path: Path, hook: Webhook) -> None:
    for name in ("clicks", "fraud", "prices", "ranking", "returns", "unused"):
        pipeline(tmp_path, name)
    ran(store, tmp_path, "clicks", *judged("reject", "register"))
    secret = "source: postgresql://me:sesame-canary@db/shop does not answer"
    ran(store, tmp_path, "fraud", Outcome(stage="ingest", state="failed", because=secret))
    ran(store, tmp_path, "prices", *judged("promote", withheld="promotions are held by ada: sale"))
    ran(store, tmp_path, "ranking", *judged("promote", promoted=True))
    ran(store, tmp_path, "returns")
    assert scan(store) == 1
    (received,) = hook.received
    assert received["title"] == "Ratchet: 5 ran, 1 promoted, 1 failed"
    assert received["type"] == "warning"
    gain = "gain +2 % (+1 % to +3 %)"
    assert received["message"].splitlines() == [
        "6 pipelines, since 2026-11-20 07:30 UTC",
        "",
        "Failed: 1",
        f"  fraud {DAY}: failed: ingest: source: postgresql://me:***@db/shop does not answer  {NIGHTS}/fraud",
        "",
        "Promoted and withheld: 2",
        f"  prices {DAY}: withheld: version 7: promotions are held by ada: sale; {gain}  {NIGHTS}/prices",
        f"  ranking {DAY}: promoted: version 7; {gain}  {NIGHTS}/ranking",
        "",
        "The rest: 2",
        f"  clicks {DAY}: rejected; {gain}  {NIGHTS}/clicks",
        f"  returns {DAY}: still running  {NIGHTS}/returns",
        "",
        "1 pipeline did not run",
    ]
    assert "sesame-canary" not in (tmp_path / "alerts.jsonl").read_text()


def test_what_waits_for_a_person_comes_first_with_what_to_do(store: Store, tmp_path: Path, hook: Webhook) -> None:
    for name in ("zz-asks", "bad-days", "paused"):
        pipeline(tmp_path, name, more="schedule: {cron: 0 2 * * *}\n" if name == "paused" else "")
    pipeline(tmp_path, "broken", more="schedule: {cron: 0 2 * * *}\n")
    ran(store, tmp_path, "broken", day=DAY - timedelta(days=1))
    ran(store, tmp_path, "paused", *judged("reject", "register"), day=DAY - timedelta(days=1))
    file = tmp_path / "pipelines" / "broken" / "pipeline.yaml"
    file.write_text(file.read_text().replace("train:", "trian:"))
    record = DayRecord(
        day=DAY,
        action="refuse",
        source=ROWS,
        run_id="r",
        reason="max of distance_km",
        recorded=NOW - timedelta(hours=5),
    )
    store.create(paths.day_record("bad-days", DAY, 1, "refuse", ROWS), seal(record))
    refuse(store, "bad-days", DAY - timedelta(days=1), ROWS, by="ada", because="a test")  # a person has decided
    waits = Letter(
        event="alerts/zz-asks/r/e", receiver="ml-ops", pipeline="zz-asks", occasion="failure", title="a", body="a",
        kind="failure", made=NOW, due=NOW,
    )  # fmt: skip
    store.create(outbox_paths.given_up("here", "zz-asks", "ml-ops", waits.event), waits.model_dump_json().encode())
    question = replace(airflow_run(task("approve", "deferred")), dag_id="zz-asks", run_id="night", partition=f"{DAY}")
    other = replace(question, dag_id="bad-days", tasks=(task("train", "deferred"),))
    pause = AirflowDag(dag_id="paused", paused=True, paused_at=NOW - timedelta(days=1), paused_by="Ada")
    assert scan(store, question, other, paused=pause) == 1
    (received,) = hook.received
    assert received["title"] == "Ratchet: 2 ran, 5 wait for you"
    asked, refused, paused, broken, lost = received["message"].splitlines()[3:8]
    assert asked == (
        f"  zz-asks {DAY}: a better candidate waits for approval; approve or reject at "
        "https://airflow.example.org/base/dags/zz-asks/runs/night/tasks/approve/required_actions"
    )
    assert refused == (
        f"  bad-days {DAY}: refused: max of distance_km; deliver it again, or "
        f'ratchet data accept (or refuse) bad-days {DAY} --by NAME --because "..."'
    )
    assert paused.startswith(f"  paused {DAY}: not started: its DAG is paused by Ada since 2026-11-20 08:00 UTC")
    assert broken.startswith(f"  broken {DAY}: not started: its file is not valid: ")
    assert lost == "  zz-asks: 1 alert never reached ml-ops (NOT DELIVERED in the log of alerts); check the address"


def test_a_day_that_a_person_let_in_waits_for_nobody(store: Store, tmp_path: Path, hook: Webhook) -> None:
    pipeline(tmp_path, "small")
    by_run = DayRecord(day=DAY, action="refuse", source=ROWS, run_id="r", reason="max of x", recorded=NOW)
    store.create(paths.day_record("small", DAY, 1, "refuse", ROWS), seal(by_run))
    admit(store, "small", DAY, by="ada", because="the shop is right")
    assert scan(store) == 1
    assert [body["title"] for body in hook.received] == ["Ratchet: nothing ran"]
    assert hook.received[0]["type"] == "info"


@pytest.mark.usefixtures("many_watches")
def test_each_receiver_has_its_own_pipelines_once_a_day_and_not_before_the_time(
    store: Store, tmp_path: Path, hook: Webhook
) -> None:
    pipeline(tmp_path, "carts", "shop")
    pipeline(tmp_path, "cards", "shop", "fraud")
    ran(store, tmp_path, "carts", *judged("reject", "register"))
    assert scan(store, now=NOW.replace(hour=7, minute=29)) == 0
    assert [scan(store, now=NOW.replace(hour=7, minute=30)), scan(store)] == [2, 0]
    assert scan(store, now=NOW + timedelta(hours=5)) == 0
    assert [body["title"] for body in hook.received] == ["Ratchet: nothing ran", "Ratchet: 1 ran"]
    lines = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert [(line["occasion"], line["receiver"]) for line in lines] == [("digest", "fraud"), ("digest", "shop")]


def test_without_the_setting_there_is_none(
    store: Store, tmp_path: Path, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline(tmp_path, "small")
    monkeypatch.setenv("RATCHET_DIGEST", "")
    assert scan(store) == 0
    assert hook.received == []


def test_a_watch_that_was_away_sends_it_late_and_what_it_left_out_is_in_the_next_one(
    store: Store, tmp_path: Path, hook: Webhook
) -> None:
    pipeline(tmp_path, "small")
    assert scan(store, now=NOW - timedelta(days=1)) == 1
    ran(store, tmp_path, "small", *judged("reject", "register"))
    assert scan(store, now=NOW.replace(hour=19, minute=30)) == 0  # twelve hours late
    assert scan(store, now=NOW + timedelta(days=1, hours=11)) == 1
    assert scan(store, now=NOW + timedelta(days=2)) == 1
    assert [body["title"] for body in hook.received] == [
        "Ratchet: nothing ran",
        "Ratchet: 1 ran",
        "Ratchet: nothing ran",
    ]
    assert "since 2026-11-20 07:30 UTC" in hook.received[1]["message"]
    assert "since 2026-11-22 07:30 UTC" in hook.received[2]["message"]


@pytest.mark.usefixtures("many_watches")
def test_of_two_watches_at_once_one_sends_it(store: Store, tmp_path: Path, hook: Webhook) -> None:
    for name in ("shop", "fraud", "ml-ops"):
        pipeline(tmp_path, name, name)
    both = Barrier(2)

    def watch(_: int) -> int:
        both.wait()
        return scan(store)

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(watch, range(2))) == 3
    next_scan_delivers(store)  # what one has posted and the other claimed
    assert scan(store) == 0
    assert len(hook.received) == 3
    assert not [*outbox_of(store).waiting()]


def test_a_watch_that_is_killed_before_the_claim_loses_nothing_and_doubles_nothing(
    store: Store, tmp_path: Path, hook: Webhook
) -> None:
    pipeline(tmp_path, "small")
    event = outbox_paths.digest("here", "ml-ops", NOW.date())
    killed = Letter(
        event=event, receiver="ml-ops", pipeline="digest", occasion="digest", title="of the killed watch", body="a",
        kind="info", made=NOW, due=NOW,
    )  # fmt: skip
    store.create(outbox_of(store).key(killed), killed.model_dump_json().encode())
    assert scan(store) == 1
    next_scan_delivers(store)
    next_scan_delivers(store, timedelta(hours=1))
    assert [body["title"] for body in hook.received] == ["of the killed watch"]


def test_an_address_that_is_away_gets_it_later(store: Store, tmp_path: Path, hook: Webhook) -> None:
    pipeline(tmp_path, "small")
    hook.status = 503
    assert scan(store) == 1
    hook.received.clear()
    hook.status = 200
    assert next_scan_delivers(store, timedelta(minutes=3)) == 1
    assert [body["title"] for body in hook.received] == ["Ratchet: nothing ran"]


class _OfANewerRelease(DayRecord):
    needs: dict[str, str]


NEWER = _OfANewerRelease(day=DAY, action="refuse", source=ROWS, run_id="r", recorded=NOW, needs={"tides": "9.9"})


@pytest.mark.parametrize(("text", "why"), [(b"{", "is damaged"), (seal(NEWER), "tides")])
def test_a_pipeline_that_cannot_be_read_hides_no_other(
    store: Store, tmp_path: Path, hook: Webhook, text: bytes, why: str
) -> None:
    pipeline(tmp_path, "fine")
    pipeline(tmp_path, "torn")
    ran(store, tmp_path, "fine", *judged("reject", "register"))
    store.create(paths.day_record("torn", DAY, 1, "refuse", ROWS), text)
    assert scan(store) == 1
    assert hook.received[0]["title"] == "Ratchet: 1 ran, 1 waits for you"
    (line,) = (line for line in hook.received[0]["message"].splitlines() if "torn: cannot be read: " in line)
    assert why in line
    ran(store, tmp_path, "torn", *judged("reject", "register"))
    store.delete(paths.day_record("torn", DAY, 1, "refuse", ROWS))
    assert scan(store, now=NOW + timedelta(days=1)) == 1  # what the last one could not read is in the next one
    assert hook.received[1]["title"] == "Ratchet: 1 ran"


def test_while_the_store_does_not_answer_none_is_made(
    store: Store, tmp_path: Path, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> bytes:
        raise Unavailable("the bucket does not answer")

    pipeline(tmp_path, "small")
    ran(store, tmp_path, "small", *judged("reject", "register"))
    with monkeypatch.context() as fault:
        fault.setattr(store, "read", away)
        with pytest.raises(Unavailable):
            scan(store)
    assert hook.received == []
    assert scan(store) == 1
    assert [body["title"] for body in hook.received] == ["Ratchet: 1 ran"]


def test_the_watch_makes_it_in_its_scan_once_it_has_read_the_runs(store: Store, tmp_path: Path, hook: Webhook) -> None:
    pipeline(tmp_path, "small")
    scanner = Scanner(AirflowServer("http://watch:x@127.0.0.1:9"))
    scanner.scan(NOW)
    assert hook.received == []
    with AirflowApi(dags=[dag("small")]).listening() as api:
        scanner._server = AirflowServer(api.address)
        scanner.scan(NOW)
    assert "Ratchet: nothing ran" in [body["title"] for body in hook.received]


def test_200_pipelines_cost_a_few_requests_each_however_many_nights_they_have(
    store: Store, tmp_path: Path, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    gain = Interval(value=0.01, low=-0.01, high=0.02)
    for number in range(200):
        name = f"p{number:03}"
        pipeline(tmp_path, name)
        found: dict[str, Any] = {"kind": "scheduled", "ended": True, "standing": "reject", "gain": gain}
        runs = [
            IndexedRun(
                day=DAY - timedelta(days=back), run_id=f"r{back}", created=NOW - timedelta(days=back, hours=6), **found
            )
            for back in range(100)
        ]
        index = RunIndex(form=FORM).with_runs(*runs)
        store.create(paths.run_index(name), index.model_dump_json(exclude_defaults=True).encode())
    with counted_calls(monkeypatch) as calls:
        assert scan(store) == 1
    assert calls.count("read") < 200 + 20
    assert calls.count("list") < 200 + 20
    assert len(calls) < 2 * 200 + 40
    body = hook.received[0]["message"].splitlines()
    assert hook.received[0]["title"] == "Ratchet: 200 ran"
    assert body[2] == "The rest: 200"
    assert body[-1] == "  and 180 more"
