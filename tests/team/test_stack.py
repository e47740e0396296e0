"""The whole team set-up, in containers: what it does, what it survives, and what it keeps to itself.

One stack is started for all tests, which run in this order: each finds what those before it have left.
"""

import hmac
import io
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256, sha512
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from docker.models.containers import Container
from rich.console import Console

from local.airflow_api import AirflowApi
from ratchet.contracts import outbox_paths, paths
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.labels import Label
from ratchet.production.hold import hold
from ratchet.production.reconcile import reconcile
from ratchet.production.release import release
from ratchet.runs.jobs import store_label
from ratchet_airflow.watch.airflow_server import AirflowServer
from ratchet_airflow.watch.look import Look
from team.backup import restore
from team.backup_folder import backups_of
from team.backup_order import save_store
from team.secret_files import PEOPLE_KEY
from tests.docs.blocks import commands, shows
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import plan
from tests.s3_faults import faulty
from tests.team.engine_filter.bodies import bent, body
from tests.team.installation import BUCKETS, LAST, TeamStack
from tests.waiting import until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.airflow,
    pytest.mark.heavy,
    pytest.mark.stack,
    pytest.mark.xdist_group("stack"),
    pytest.mark.timeout(900),
]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ("search-ranking", "payments-fraud")
TOKEN = secrets.token_hex(16)
"""In the address that alerts are sent to."""
H = "HostConfig"
PROBE = """if 1:
    import concurrent.futures, ipaddress, json, socket, sys
    names = json.loads(sys.argv[1])
    def answers(place):
        with socket.socket() as probe:
            probe.settimeout(1.5)
            return place if probe.connect_ex(tuple(place)) == 0 else None
    with concurrent.futures.ThreadPoolExecutor(400) as pool:
        places = [(host, port) for host in names for port in json.loads(sys.argv[2])]
        found = [place for place in pool.map(answers, places) if place]
    resolved = {}
    for name in ("postgres", "redis", "engine", "worker", "scheduler", "api-server", "example.org"):
        try: resolved[name] = socket.gethostbyname(name)
        except OSError: pass
    print(json.dumps({"answers": found, "resolved": resolved}))
"""

CREATE = """if 1:
    import json, sys, urllib.error, urllib.request
    url = "http://engine:2375/v1.41/containers/create?name=" + sys.argv[1]
    request = urllib.request.Request(url, sys.argv[2].encode(), {"Content-Type": "application/json"})
    try: answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error: answer = error
    print(json.dumps([answer.status, json.load(answer)]))
"""

QUEUES = """if 1:
    import json, os
    from celery import Celery
    app = Celery(broker=os.environ["AIRFLOW__CELERY__BROKER_URL"])
    found = app.control.inspect(limit=3, timeout=30).active_queues()
    print(json.dumps({name: [queue["name"] for queue in queues] for name, queues in found.items()}))
"""

HOOK = """if 1:
    import http.server
    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            print(self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True)
            self.send_response(200)
            self.end_headers()
        def log_message(self, *_): pass
    http.server.ThreadingHTTPServer(("", 8080), Hook).serve_forever()
"""

SCORING = """if 1:
    import sys
    import mlflow, pandas
    rows = pandas.read_parquet(sys.argv[1]).head(5)
    print(*mlflow.pyfunc.load_model("models:/search-ranking@champion").predict(rows).tolist())
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeamStack]:
    """A stack that runs, with data for both examples."""
    if not (shutil.which("docker-compose") or shutil.which("docker")):
        pytest.skip("Docker Compose is not installed")
    found = TeamStack(f"ratchet-test-{secrets.token_hex(3)}")
    shutil.copytree(ROOT / "dags" / "pipelines", found.use_pipelines(tmp_path_factory.mktemp("stack")))
    try:
        found.team("up", seconds=900)
        found.upload_samples(tmp_path_factory.mktemp("samples"))
        yield found
    finally:
        found.team("down", "--volumes")
        shutil.rmtree(backups_of(found.seen), ignore_errors=True)
        assert found.services() == found.stages() == []
        assert not [each for each in found.engine.networks.list() if each.name.startswith(f"{found.project}_")]
        assert not [each for each in found.engine.volumes.list() if each.name.startswith(f"{found.project}_")]
        assert not found.home.exists()


def test_every_service_is_well_and_listens_on_loopback_alone(stack: TeamStack) -> None:
    said = stack.team("ps")
    assert f"http://127.0.0.1:{stack.ports['airflow']}" in said
    ports = [port for each in stack.services() for listed in each.ports.values() for port in listed or ()]
    assert {port["HostIp"] for port in ports} == {"127.0.0.1"}
    assert {int(port["HostPort"]) for port in ports} == set(stack.ports.values())
    modes = {path.stat().st_mode & 0o777 for path in (stack.home / "secrets").iterdir()}
    assert (modes, (stack.home / "secrets").stat().st_mode & 0o777) == ({0o400}, 0o700)


def test_each_worker_listens_to_the_queue_of_its_service_alone(stack: TeamStack) -> None:
    of = {"worker": "cpu", "worker-gpu": "gpu"}
    workers = stack.services(*of)
    said = workers[0].exec_run(["with-secrets", "python", "-c", QUEUES], stderr=False).output
    assert json.loads(said) == {
        f"celery@{each.attrs['Config']['Hostname']}": [of[each.labels["com.docker.compose.service"]]]
        for each in workers
    }
    assert len(workers) == len(of)


def test_only_one_container_has_the_engines_socket(stack: TeamStack) -> None:
    holders = [each for each in stack.services() if "docker.sock" in str(each.attrs["Mounts"])]
    assert [each.labels["com.docker.compose.service"] for each in holders] == ["engine"]


def test_people_have_to_log_in(stack: TeamStack) -> None:
    url = f"http://127.0.0.1:{stack.ports['airflow']}"
    with pytest.raises(Unavailable, match="401"):
        AirflowApi(url, "admin", "admin")
    for place in (
        f"{url}/api/v2/dags",
        f"http://127.0.0.1:{stack.ports['mlflow']}/api/2.0/mlflow/experiments/get?experiment_id=0",
    ):
        with pytest.raises(HTTPError, match="401"):
            urlopen(place, timeout=60)
    assert stack.api.call("GET", "/dags")["total_entries"] >= len(EXAMPLES)


def test_nobody_logs_in_with_a_key_that_a_worker_has(stack: TeamStack) -> None:
    """Airflow gives a token for a cookie that remembers a log-in; that of the right key shows that it does."""

    def has_token(key: str) -> bool:
        for person in (b"1", b"2"):
            signed = hmac.new(key.encode(), person, sha512).hexdigest()
            server = HTTPConnection("127.0.0.1", stack.ports["airflow"], timeout=60)
            server.request("GET", "/auth/", headers={"Cookie": f"remember_token={person.decode()}|{signed}"})
            given = server.getresponse().headers.get_all("Set-Cookie") or []
            server.close()
            if any(cookie.startswith("_token=") for cookie in given):
                return True
        return False

    assert has_token(stack.secret(PEOPLE_KEY))
    assert not has_token(stack.secret("AIRFLOW__API__SECRET_KEY"))


def test_a_pipeline_can_be_added_while_the_stack_runs(stack: TeamStack) -> None:
    made = stack.pipelines / "late-ranking"
    shutil.copytree(stack.pipelines / EXAMPLES[0], made)
    file = made / "pipeline.yaml"
    file.write_text(file.read_text().replace(f"name: {EXAMPLES[0]}", "name: late-ranking"))


def test_a_viewer_looks_and_an_operator_starts_runs(stack: TeamStack) -> None:
    run = {"logical_date": None, "conf": {"date": LAST.isoformat()}}
    path = f"/dags/{EXAMPLES[0]}/dagRuns"
    viewer, operator = stack.person("Viewer"), stack.person("Op")
    for person in (viewer, operator):
        assert person.call("GET", "/dags")["total_entries"] >= len(EXAMPLES)
    for method, place, content in (("POST", path, run), ("GET", "/connections", None)):
        with pytest.raises(Unavailable, match="403"):
            viewer.call(method, place, content)
    started = operator.call("POST", path, run)["dag_run_id"]  # the DAG is paused still, so nothing runs
    stack.api.call("DELETE", f"{path}/{started.replace('+', '%2B')}")


def test_the_watch_reads_runs_over_the_api_and_nothing_else(stack: TeamStack) -> None:
    server = watch_server(stack)
    look = Look(server)
    assert set(EXAMPLES) <= set(look.dags({}))
    assert look.runs(ended_within=timedelta(hours=1)) is not None
    assert server.get("/eventLogs", dag_id=EXAMPLES[0], limit=1)["event_logs"] is not None
    assert look.parts_away() == {}
    for path in ("/connections", "/variables", "/pools"):
        with pytest.raises(ConfigurationError, match="403"):
            server.get(path)


def test_the_reaper_asks_airflow_and_ends_through_the_filter_what_no_run_follows(stack: TeamStack) -> None:
    left = plan(run_id=f"left.{stack.secret('RATCHET_INSTALLATION')}", origin="manual__left")  # Airflow has no such run
    name = left.spec.name
    with stack.store() as store:
        keep_plan(store, left)
        labels = {"store": store_label(store.uri), "pipeline": name, "stage": "train", "run": left.run_id}
        labels |= {"attempt": "a", "fingerprint": "f" * 64, "grace": "1"}
        status, answer = created(stack, body(**labels), f"ratchet-x-{secrets.token_hex(4)}")
        assert status == 201, answer
        reaper = stack.service("reaper")
        assert stack.typed(f"docker restart {reaper.name}").strip() == reaper.name  # it looks at once
        until(lambda: stack.stages(run=left.run_id) == [], seconds=120)
        for key in (paths.plan(name, left.run_id), paths.night(name, left.data_date, left.run_id)):
            assert store.delete(key)
    said = reaper.logs().decode()
    assert f"ending train of {name}, run {left.run_id}: no task follows it" in said
    assert "cannot" not in said.rpartition("the reaper looks at the containers")[2]


def test_a_night_of_each_example_runs_green_in_containers_beside_the_stack(stack: TeamStack) -> None:
    runs = {name: stack.trigger(name) for name in EXAMPLES}
    training = stack.until_training(EXAMPLES[0])
    settings = training.attrs["HostConfig"]
    assert list(training.attrs["NetworkSettings"]["Networks"]) == [f"{stack.project}_stages"]
    assert (settings["Binds"], settings["Privileged"], settings["ReadonlyRootfs"]) == (None, False, True)
    assert {mount["Type"] for mount in training.attrs["Mounts"]} == {"volume"}
    assert stack.api.call("GET", "/dags/late-ranking")["is_stale"] is False  # it was added while the stack ran
    for name, run_id in runs.items():
        states = stack.ended(name, run_id)
        assert set(states.values()) == {"success"}, (name, states)
    assert stack.stages() == []
    kept = [each["Key"] for each in stack.s3.list_objects_v2(Bucket="logs")["Contents"]]
    logged = {name for name in EXAMPLES for key in kept if f"dag_id={name}/" in key and "task_id=train/" in key}
    assert logged == set(EXAMPLES)


def test_the_page_for_people_on_call_has_what_they_type_here_and_what_it_prints(stack: TeamStack) -> None:
    typed = commands("on-call.md", "team")
    assert {line.split()[0] for one in typed for line in one.text.splitlines()} >= {"make", "ratchet()", "airflow()"}
    before = {each.id for each in stack.services()}
    for one in typed:
        text, shown = (
            said.replace("ratchet_", f"{stack.project}_").replace("late-orders", EXAMPLES[0])
            for said in (one.text, one.shown)
        )
        printed = stack.typed(text)
        assert shows(shown, printed), f"{text}shown:\n{shown}\nprinted:\n{printed}"
    for service in ("reaper", "rows", "logs"):  # which the page names in running text
        stack.typed(f"make logs SERVICE={service}")
    assert {each.id for each in stack.services()} == before
    kept = stack.service("watch").exec_run(["ls", "/opt/airflow/logs"]).output.decode().split()
    assert {"alerts.jsonl", "logs-deleted"} <= {*kept}  # by the second the reaper sees that old logs are deleted


def test_the_model_in_production_scores_a_row(stack: TeamStack, tmp_path: Path) -> None:
    scores = scored(stack, tmp_path)
    assert len(scores) == len(set(scores)) == 5


def scored(stack: TeamStack, folder: Path) -> list[float]:
    """What the champion says of five rows, in a process of its own, as a program that serves would be."""
    stack.s3.download_file("sources", f"clicks/date={LAST}/part-0.parquet", str(folder / "day.parquet"))
    scoring = [sys.executable, "-W", "ignore", "-c", SCORING, str(folder / "day.parquet")]  # MLflow warns of itself
    said = subprocess.run(scoring, env=stack.mlflow(), capture_output=True, text=True, timeout=120, check=True).stdout
    return [float(word) for word in said.split()]


def test_from_a_stage_nothing_but_s3_and_mlflow_answers(stack: TeamStack, stage_image: str) -> None:
    addresses: dict[str, str] = {"s3": "s3", "mlflow": "mlflow", "8.8.8.8": "outside"}
    for each in stack.services():
        for network in each.attrs["NetworkSettings"]["Networks"].values():
            addresses[network["IPAddress"]] = each.labels["com.docker.compose.service"]
            addresses[network["Gateway"]] = "host"
    own = stack.engine.networks.get(f"{stack.project}_stages").attrs["IPAM"]["Config"][0]
    addresses[own.get("Gateway") or own["Subnet"].split("/")[0][:-1] + "1"] = "host"
    addresses.pop("", None)
    open_here = [*stack.ports.values(), 22, 53, 80, 111, 443, 2375, 2376, 3306, 5000, 5432, 5555, 6379, 8080, 8333]
    ports = [*open_here, 8181, 8793, 8888, 8974, 9101, 9333, 18080, 18333, 18888, 19333]
    said = stack.engine.containers.run(
        stage_image,
        entrypoint=["python3", "-c", PROBE, json.dumps(list(addresses)), json.dumps(sorted(set(ports)))],
        network=f"{stack.project}_stages",
        labels={Label.TEST: "1"},
        remove=True,
    )
    found = json.loads(said)
    reached = {(addresses[host], port) for host, port in found["answers"]}
    # 18333 is the S3 server's other port; it takes a connection, and hangs up on who has not its certificate's key.
    assert reached == {("s3", 8333), ("s3", 18333), ("mlflow", 5000)}
    assert found["resolved"] == {}


def created(stack: TeamStack, wanted: dict[str, Any], name: str) -> tuple[int, dict[str, Any]]:
    """What a worker is answered that asks for this container."""
    ended = stack.services("worker")[0].exec_run(["python", "-c", CREATE, name, json.dumps(wanted)])
    assert ended.exit_code == 0, ended.output.decode()
    status, answer = json.loads(ended.output)
    return status, answer


def test_a_worker_can_make_what_a_stage_may_be(stack: TeamStack) -> None:
    status, answer = created(stack, body(), f"ratchet-x-{secrets.token_hex(4)}")
    assert status == 201, answer
    made = stack.engine.containers.get(answer["Id"])
    made.remove(v=True)
    assert made.labels[Label.INSTALLATION] == stack.project


@pytest.mark.parametrize(
    ("path", "value", "refused"),
    [
        ((H, "Privileged"), True, "create: HostConfig.Privileged"),
        ((H, "Binds"), ["/:/host"], "create: HostConfig.Binds"),
        ((H, "Mounts", 0), {"Type": "bind", "Source": "/", "Target": "/host"}, "create: HostConfig.Mounts.0"),
        ((H, "NetworkMode"), "host", "create: HostConfig.NetworkMode"),
        ((H, "NetworkMode"), "bridge", "create: HostConfig.NetworkMode"),
        ((H, "CapAdd"), ["SYS_ADMIN"], "create: HostConfig.CapAdd"),
        ((H, "PidMode"), "host", "create: HostConfig.PidMode"),
        ((H, "ReadonlyRootfs"), False, "create: HostConfig.ReadonlyRootfs"),
        (("User",), "0:0", "create: User"),
        (("Image",), "postgres:15.20-bookworm", "image postgres:15.20-bookworm"),
    ],
)
def test_a_worker_cannot_make_anything_else(
    stack: TeamStack, path: tuple[str | int, ...], value: object, refused: str
) -> None:
    """Each is the legal body, spoilt in one way. The filter's own tests have all ways; here it is in its place."""
    name = f"ratchet-x-{secrets.token_hex(4)}"
    status, answer = created(stack, bent(body(), path, value), name)
    assert status == 403
    assert answer["message"].startswith(f"engine filter: {refused}"), answer
    assert name not in {each.name for each in stack.engine.containers.list(all=True, ignore_removed=True)}


def test_the_address_for_alerts_receives_the_alert_about_a_run_that_failed(stack: TeamStack, stage_image: str) -> None:
    name = f"{stack.project}-hook"
    address = {"connection_id": "ratchet_alerts_fraud-ops", "conn_type": "generic"}
    stack.api.call("POST", "/connections", {**address, "password": f"json://{name}:8080/{TOKEN}"})
    assert watch_server(stack).receiver("fraud-ops") == f"json://{name}:8080/{TOKEN}"  # so the watch could send it, too
    hook = stack.engine.containers.run(
        stage_image,
        entrypoint=["python3", "-c", HOOK],
        name=name,
        network=f"{stack.project}_front",
        labels={Label.TEST: "1"},
        detach=True,
    )
    try:
        run_id = stack.trigger("payments-fraud", date="2020-01-01")  # of which there are no data
        states = stack.ended("payments-fraud", run_id)
        assert (states["run"], states["ingest"]) == ("failed", "failed")
        received = [json.loads(line) for line in hook.logs().splitlines()]
        # As docs/on-call.md says in running text; after this the hook has one message more.
        watch = stack.service("watch").name
        said = stack.typed(f"docker exec {watch} with-secrets python -m ratchet_airflow.alerts fraud-ops")
        assert "fraud-ops: address 1 of 1 (json) has taken the test message" in said
    finally:
        hook.remove(force=True)
    # In the afternoon the DAG's own night has waited long enough for data that the stack has not, and fails, too.
    of_run = [one for one in received if one["title"].startswith("payments-fraud 2020-01-01: ")]
    assert len(of_run) == 1, received
    (alert,) = of_run
    assert alert["title"].startswith("payments-fraud 2020-01-01: ingest ")
    assert f"http://127.0.0.1:{stack.ports['airflow']}/dags/payments-fraud/runs/" in alert["message"]


def test_15_a_worker_that_is_killed_in_the_middle_of_training_costs_nothing(stack: TeamStack) -> None:
    run_id = stack.trigger(EXAMPLES[0], epochs=12, seed=15)
    training = stack.until_training(EXAMPLES[0])
    assert stack.leaks(outside(training)) == []
    stack.kill("worker")
    states = stack.ended(EXAMPLES[0], run_id)
    assert states["run"] == "success", states
    log = stack.log(EXAMPLES[0], run_id, "train", 2)
    # On a busy machine the training may have ended, and published its result, before its worker was missed, or since.
    assert re.search("going on with it|found in the cache: (its result is stored|another run built it)", log), log
    assert stack.submitted(training) == 1
    stack.until_well("worker")


def test_16_17_18_the_run_outlives_scheduler_api_server_database_and_broker(stack: TeamStack) -> None:
    run_id = stack.trigger(EXAMPLES[0], epochs=12, seed=16)
    stack.until_training(EXAMPLES[0])
    stack.kill("scheduler")
    stack.service("postgres").restart(timeout=20)
    stack.service("redis").restart(timeout=20)
    with stack.paused("api-server"):
        time.sleep(120)  # the fault itself
    states = stack.ended(EXAMPLES[0], run_id)
    assert states["run"] == "success", states
    stack.until_well("scheduler", "postgres", "redis", "api-server", "worker")
    with stack.store() as store:
        manifests = [
            entry.key for entry in store.list("published/search-ranking/train") if entry.key.endswith("manifest.json")
        ]
    assert len(manifests) == 3  # of the night, of the killed worker's run, and of this one: each once


def test_23_24_the_stacks_s3_is_read_and_written_through_errors_and_cuts(stack: TeamStack, tmp_path: Path) -> None:
    content = secrets.token_bytes(100_000)
    with faulty(stack.s3_url) as (endpoint, faults), stack.store(endpoint) as store:
        faults += ["503", "lose"]
        assert store.create("runs/faults/a", content)
        assert not store.create("runs/faults/a", b"another")
        faults += ["cut", "503", "cut"]
        assert store.read("runs/faults/a") == content
        faults += ["", "cut"]
        store.download("runs/faults/a", tmp_path / "a")
        assert (tmp_path / "a").read_bytes() == content
        assert store.delete("runs/faults/a")


def test_25_an_s3_that_stalls_is_given_up_in_time_and_asked_again(
    stack: TeamStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.store.s3_client.READ_TIMEOUT_S", 1)
    with faulty(stack.s3_url) as (endpoint, faults), stack.store(endpoint) as store:
        assert store.create("runs/faults/b", b"b")
        faults += ["stall"]
        began = time.monotonic()
        assert store.read("runs/faults/b") == b"b"
        assert 1 <= time.monotonic() - began < 20
        assert store.delete("runs/faults/b")


def test_38_no_secret_is_in_any_container_log_database_or_object(stack: TeamStack) -> None:
    assert len(stack.secrets()) > 15
    assert min(map(len, stack.secrets())) > 20
    places: dict[str, bytes] = {}
    for each in stack.services():
        places |= outside(each)
    chunks, _ = stack.service("scheduler").get_archive("/opt/airflow/logs")
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        for entry in tar:
            if entry.isfile():
                places[f"airflow's {entry.name}"] = tar.extractfile(entry).read()  # type: ignore[union-attr]  # a file
    for name in ("airflow", "mlflow"):
        dump = stack.service("postgres").exec_run(["pg_dump", "-U", "postgres", name], stderr=False)
        assert (dump.exit_code, len(dump.output) > 10_000) == (0, True)
        places[f"database {name}"] = dump.output
    places |= dict(stack.objects())
    assert stack.leaks(places, TOKEN) == []


def outside(container: Container) -> dict[str, bytes]:
    """What the engine answers about a container."""
    found = {"inspect": str(container.attrs).encode(), "log": container.logs()}
    if container.status == "running":
        found["arguments"] = str(container.top()).encode()
    return {f"{what} of {container.name}": content for what, content in found.items()}


def test_a_change_of_production_in_the_middle_of_a_backup_is_in_both_ledger_and_registry(
    stack: TeamStack, tmp_path: Path
) -> None:
    """MLflow's database is dumped, and then promotions are held, before the ledger is looked at for the second time."""
    dumps: list[str] = []

    def dump() -> None:
        dumps.append(dumped_tags(stack))
        if len(dumps) == 1:
            with stack.store() as store, patch.dict(os.environ, stack.mlflow()):
                number = hold(store, EXAMPLES[0], by="ada", because="a backup is made").number
                assert reconcile(store, stack.mlflow()["MLFLOW_TRACKING_URI"], EXAMPLES[0]).agrees
            held.append(number)

    held: list[int] = []
    save_store(stack.s3, "ratchet", tmp_path / "store.tar", dump, beside=lambda _: False)
    assert len(dumps) == 2
    assert [tagged(dump, EXAMPLES[0]) for dump in dumps] == [held[0] - 1, held[0]]
    with tarfile.open(tmp_path / "store.tar") as tar:
        records = [name for name in tar.getnames() if re.fullmatch(rf"ledger/{EXAMPLES[0]}/\d+\.json", name)]
    assert len(records) == held[0]


def dumped_tags(stack: TeamStack) -> str:
    """MLflow's tags of versions, as its database is dumped."""
    words = ["pg_dump", "-U", "postgres", "-t", "model_version_tags", "mlflow"]
    said: bytes = stack.service("postgres").exec_run(words, stderr=False).output
    return said.decode()


def tagged(dump: str, model: str) -> int:
    """The newest record of a model's ledger that a dump of the tags of versions names."""
    return max(
        int(found)
        for line in dump.splitlines()
        if model in line
        for found in re.findall(r"ratchet\.ledger\t(\d+)", line)
    )


@pytest.fixture
def disk() -> Iterator[Path]:
    """A disk that is not that of the backups."""
    with tempfile.TemporaryDirectory(prefix="ratchet-test-", dir="/dev/shm") as name:
        yield Path(name)


@pytest.mark.timeout(1800)
def test_a_backup_comes_back_over_a_stack_that_works_and_its_copy_after_all_was_lost_under_compose_v2_too(
    stack: TeamStack, compose_v2: Path | None, disk: Path, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("ab" * 32)
    stack.use_settings(RATCHET_BACKUPS_TO=str(disk), RATCHET_BACKUPS_KEY=str(tmp_path / "key"))
    before = {name: len(stack.api.runs(name)) for name in EXAMPLES}
    kept, scores = digests(stack), scored(stack, tmp_path)
    assert {name.partition("/")[0] for name in kept} == set(BUCKETS)
    folder = Path(stack.team("backup").strip().splitlines()[-1].removeprefix("backup: "))
    assert (folder.stat().st_mode & 0o777, folder.parent.name) == (0o700, stack.project)
    assert f"last backup: {folder.name}, 0 h ago, copied to {disk}" in stack.team("ps")
    mark = outbox_paths.presence(stack.secret("RATCHET_INSTALLATION"), outbox_paths.BACKUP)
    assert f"ratchet/{mark}" in dict(stack.objects())
    lying = {str(path): path.read_bytes() for path in disk.rglob("*") if path.is_file()}
    assert len(lying) > 10
    assert stack.leaks(lying) == []

    over_a_stack_that_works(stack, folder, kept)

    stack.team("down", "--volumes")
    assert not stack.home.exists()
    damaged = folder / "mlflow.dump"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert "mlflow.dump is missing or damaged" in stack.team("restore", str(folder), fails=True)
    shutil.rmtree(folder)
    if compose_v2 is not None:
        stack.use(compose_v2)
    stack.team("restore", f"{disk}/{stack.project}/{folder.name}", seconds=900)
    assert {name: len(stack.api.runs(name)) for name in EXAMPLES} == before
    assert digests(stack) == kept
    assert scored(stack, tmp_path) == scores
    login = b64encode(f"admin:{stack.secret('mlflow-admin-password')}".encode()).decode()
    where = f"http://127.0.0.1:{stack.ports['mlflow']}/api/2.0/mlflow/registered-models/alias"
    request = Request(f"{where}?name=payments-fraud&alias=champion", headers={"Authorization": f"Basic {login}"})
    assert json.load(urlopen(request, timeout=60))["model_version"]["version"] == "1"
    with stack.store() as store, patch.dict(os.environ, stack.mlflow()):
        assert reconcile(store, stack.mlflow()["MLFLOW_TRACKING_URI"], EXAMPLES[0], look=True).agrees
    shutil.rmtree(folder.parent)


def over_a_stack_that_works(stack: TeamStack, folder: Path, kept: dict[str, str]) -> None:
    """The stack's own code restores while a training runs and the ledger is newer. It starts databases and S3 alone."""
    with stack.store() as store, patch.dict(os.environ, stack.mlflow()):
        newest = release(store, EXAMPLES[0], by="ada", because="the backup is made").number
        assert reconcile(store, stack.mlflow()["MLFLOW_TRACKING_URI"], EXAMPLES[0]).agrees
    stack.s3.put_object(Bucket="sources", Key="since/then.txt", Body=b"a person's")
    stack.trigger(EXAMPLES[0], epochs=200, seed=20)
    stack.until_training(EXAMPLES[0])
    said = io.StringIO()
    restore(stack.seen, folder, Console(file=said, soft_wrap=True))
    assert stack.stages() == []
    assert digests(stack).keys() - kept.keys() == {"sources/since/then.txt"}
    assert digests(stack).items() >= kept.items()
    (place,) = folder.parent.glob("aside-*/ratchet.tar")
    assert str(place) in said.getvalue()
    for name in ("airflow", "mlflow"):
        assert (place.parent / f"{name}.dump").read_bytes().startswith(b"PGDMP")
    with tarfile.open(place) as tar:
        aside = set(tar.getnames())
    assert f"ledger/{EXAMPLES[0]}/{newest:08d}.json" in aside
    assert not any(name.startswith("since/") for name in aside)
    assert tagged(dumped_tags(stack), EXAMPLES[0]) == newest - 1


def digests(stack: TeamStack) -> dict[str, str]:
    """Of what is in the buckets, but for alerts and the documents of pages, which the watch changes at any time."""
    changes = ("ratchet/outbox/", "ratchet/alerts/", "ratchet/index/")
    return {name: sha256(content).hexdigest() for name, content in stack.objects() if not name.startswith(changes)}


def watch_server(stack: TeamStack) -> AirflowServer:
    """Airflow's server as the watch asks it."""
    place = f"127.0.0.1:{stack.ports['airflow']}"
    return AirflowServer(stack.secret("RATCHET_AIRFLOW_API").replace("api-server:8080", place))
