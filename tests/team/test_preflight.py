"""What prevents a start: each a line that says what to do, and nothing is changed by asking."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, cast

import docker
import pytest

from ratchet.contracts.diagnosis import problems
from ratchet.contracts.labels import Label
from ratchet.runners.diagnosis import diagnose_engine_host
from ratchet.store import diagnosis
from ratchet.store.diagnosis import local_time
from team import preflight
from team.settings import Settings
from team.stack import Stack
from tests.ports import hold, number


@pytest.fixture
def held() -> Iterator[list[socket.socket]]:
    """Three ports that are free, and that no other process gets meanwhile."""
    ports = [hold() for _ in range(3)]
    yield ports
    for port in ports:
        port.close()


@pytest.fixture
def settings(stack: Stack, held: list[socket.socket]) -> Settings:
    airflow, mlflow, s3 = map(number, held)
    return Settings(project=stack.settings.project, airflow_port=airflow, mlflow_port=mlflow, s3_port=s3)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment names an engine where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{bound.getsockname()[1]}")
        yield


def test_an_engine_on_another_machine_is_refused(
    checkout: Path, stack: Stack, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    only(
        preflight.problems(checkout, stack.home, settings), "DOCKER_HOST is tcp://192.0.2.1:2375", "where the engine is"
    )


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mode, path.stat().st_mtime_ns) for path in [folder, *folder.rglob("*")]}


def only(found: list[str], *parts: str) -> str:
    (line,) = found
    assert "\n" not in line
    assert all(part in line for part in parts), line
    return line


@pytest.mark.docker
def test_nothing_prevents_a_start_and_nothing_is_made(
    engine: docker.APIClient, checkout: Path, stack: Stack, settings: Settings
) -> None:
    before = tree(checkout)
    assert preflight.problems(checkout, stack.home, settings) == []
    assert tree(checkout) == before


@pytest.mark.docker
def test_a_port_that_is_taken_is_reported_with_its_setting(
    engine: docker.APIClient, checkout: Path, stack: Stack, settings: Settings
) -> None:
    with socket.create_server(("127.0.0.1", settings.mlflow_port)):
        found = preflight.problems(checkout, stack.home, settings)
    only(found, f"port {settings.mlflow_port}", "for mlflow", "already in use", "set RATCHET_MLFLOW_PORT in .env")


@pytest.mark.docker
def test_a_port_that_is_taken_on_every_address_is_reported_too(
    engine: docker.APIClient, checkout: Path, stack: Stack, settings: Settings
) -> None:
    with socket.create_server(("0.0.0.0", settings.s3_port)):
        found = preflight.problems(checkout, stack.home, settings)
    only(found, f"port {settings.s3_port}", "RATCHET_S3_PORT")


@pytest.mark.docker
def test_a_port_of_a_service_that_is_elsewhere_is_not_needed(
    engine: docker.APIClient, checkout: Path, stack: Stack, settings: Settings
) -> None:
    elsewhere = settings.model_copy(update={"mlflow_url": "https://mlflow.example"})
    with socket.create_server(("127.0.0.1", settings.mlflow_port)):
        assert preflight.problems(checkout, stack.home, elsewhere) == []


@pytest.mark.docker
def test_a_port_that_the_stack_itself_holds_is_no_problem(
    engine: docker.APIClient,
    checkout: Path,
    stack: Stack,
    settings: Settings,
    held: list[socket.socket],
    stage_image: str,
) -> None:
    made = engine.create_container(
        stage_image,
        ["python", "-c", "import time; time.sleep(300)"],
        entrypoint=[],
        ports=[80],
        labels={Label.TEST: "1", "com.docker.compose.project": settings.project},
        host_config=engine.create_host_config(port_bindings={80: ("127.0.0.1", settings.airflow_port)}),
    )
    held[0].close()  # an engine takes none that is held
    try:
        engine.start(made["Id"])
        assert preflight.problems(checkout, stack.home, settings) == []
        other = settings.model_copy(update={"project": "ratchet-test-other"})
        only(preflight.problems(checkout, stack.home, other), "for airflow", "RATCHET_AIRFLOW_PORT")
    finally:
        engine.remove_container(made["Id"], force=True)


def test_a_clock_that_is_behind_the_checkout_is_reported(checkout: Path, stack: Stack, silent: None) -> None:
    written = time.time() + 3600
    os.utime(checkout / "docker-compose.yaml", (written, written))
    found = preflight.problems(checkout, stack.home, stack.settings)
    (line,) = [line for line in found if "clock" in line]
    assert "set the clock" in line
    assert local_time(written) in line


def test_a_clock_that_is_a_little_behind_is_no_problem(checkout: Path) -> None:
    soon = time.time() + 10
    os.utime(checkout / "docker-compose.yaml", (soon, soon))
    assert list(preflight._clock(checkout)) == []


def test_pipelines_that_the_services_could_not_see_are_reported(tmp_path: Path, checkout: Path) -> None:
    here = Settings(pipelines=str(tmp_path / "models"))
    only(list(preflight._pipelines(checkout, here)), f"no folder {tmp_path}/models", "mount its disk")
    shop = tmp_path / "models" / "shop"
    shop.mkdir(parents=True)
    (shop / "pipeline.yaml").write_text("name: shop\n")
    (tmp_path / "models" / "same").symlink_to("shop")
    for path in (tmp_path / "models", shop):
        path.chmod(0o755)
    (shop / ".#pipeline.yaml").symlink_to("ada@host.4711")  # of an editor
    (shop / "loop").symlink_to("loop")
    assert list(preflight._pipelines(checkout, here)) == []
    if os.getuid() == 0:  # the services are of another user then
        (shop / "pipeline.yaml").chmod(0o600)
        only(list(preflight._pipelines(checkout, here)), "/pipeline.yaml", "chmod -R a+rX")
        (shop / "pipeline.yaml").chmod(0o644)
    (tmp_path / "models" / "other").symlink_to(checkout)
    only(list(preflight._pipelines(checkout, here)), "models/other", "replace the link")
    assert list(preflight._pipelines(checkout, Settings(pipelines="https://git.example/m.git"))) == []


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701])
def test_secrets_that_are_open_to_others_are_reported_and_left(
    checkout: Path, stack: Stack, silent: None, mode: int
) -> None:
    stack.secrets.mkdir(parents=True)
    stack.secrets.chmod(mode)
    before = tree(checkout)
    found = preflight.problems(checkout, stack.home, stack.settings)
    (line,) = [line for line in found if str(stack.secrets) in line]
    assert "readable by others" in line
    assert "chmod 700" in line
    assert tree(checkout) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders to others")
def test_secrets_of_somebody_else_are_reported(stack: Stack) -> None:
    stack.secrets.mkdir(parents=True, mode=0o700)
    assert list(preflight._folder(stack.home)) == []
    os.chown(stack.secrets, 10001, -1)
    only(list(preflight._folder(stack.home)), str(stack.secrets), "another user")


@contextmanager
def as_owner(folder: Path) -> Iterator[None]:
    """As who owns the folder and is not root, who may write everywhere: by the real user id, which access(2) goes by."""
    if os.getuid():
        yield
        return
    os.chown(folder, 10001, -1)
    os.setreuid(10001, 0)
    try:
        yield
    finally:
        os.setreuid(0, 0)


def test_a_folder_that_may_not_be_written_to_is_reported() -> None:
    with TemporaryDirectory(prefix="ratchet-test-") as name, as_owner(Path(name)):  # pytest's own is closed to others
        home = Path(name) / ".ratchet" / "team" / "a"
        assert list(preflight._folder(home)) == []
        Path(name).chmod(0o500)
        only(list(preflight._folder(home)), name, "is not writable", "chown")


def test_an_engine_that_does_not_answer_is_reported_in_one_line(checkout: Path, stack: Stack, silent: None) -> None:
    found = preflight.problems(checkout, stack.home, stack.settings)
    only(found, "the Docker engine does not answer", "refused", "scripts/engine.sh")


@contextmanager
def engine_of(place: Path, **version: str) -> Iterator[str]:
    """An engine of another time, as far as it says what it is: its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(version).encode() if self.path.endswith("/version") else b"OK"
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingUnixStreamServer(str(place), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"unix://{place}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("api", "problems"),
    [
        ("1.40", ["the Docker engine has API 1.40; upgrade it to 1.41 (Docker 20.10) or later"]),
        ("1.30", ["the Docker engine has API 1.30; upgrade it to 1.41 (Docker 20.10) or later"]),
        ("1.41", []),
        ("1.100", []),
    ],
)
def test_an_engine_that_is_too_old_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: str, problems: list[str]
) -> None:
    with engine_of(tmp_path / "s", ApiVersion=api, MinAPIVersion="1.12", Version="0") as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        found = list(preflight._engine())
    assert found == problems


def test_a_missing_compose_is_reported_with_how_to_get_it(
    checkout: Path, stack: Stack, silent: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = preflight.problems(checkout, stack.home, stack.settings)
    assert (
        found[1]
        == "Docker Compose is not installed; install it: apt-get install docker-compose, or Docker's own plugin"
    )


@dataclass(frozen=True)
class Engine:
    """One that says this of itself: an engine of another time or place cannot be had here."""

    said: dict[str, Any]

    def info(self) -> dict[str, Any]:
        return self.said


def of(**said: Any) -> docker.APIClient:
    return cast("docker.APIClient", Engine(said))


@pytest.mark.parametrize("zone", ["Z", "+00:00", "+02:00", "-05:30"])
def test_the_engines_clock_is_read_in_the_zone_of_its_host(zone: str) -> None:
    hours = {"Z": 0.0, "+00:00": 0.0, "+02:00": 2.0, "-05:30": -5.5}[zone]

    def clock(off: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + hours * 3600 + off)) + ".123456789" + zone

    assert problems(diagnose_engine_host(of(SystemTime=clock(0), DockerRootDir="/nowhere"))) == []
    assert problems(diagnose_engine_host(of(SystemTime=clock(0)))) == []  # through the engine's filter
    late = of(SystemTime=clock(120), DockerRootDir="/nowhere")
    only(problems(diagnose_engine_host(late)), "the engine's clock", "NTP")


def test_a_full_disk_of_the_engine_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC).isoformat()
    assert problems(diagnose_engine_host(of(SystemTime=now, DockerRootDir=str(tmp_path / "elsewhere")))) == []
    monkeypatch.setattr(diagnosis, "FREE_BYTES", 1 << 60)
    found = problems(diagnose_engine_host(of(SystemTime=now, DockerRootDir=str(tmp_path))))
    only(found, str(tmp_path), "GB left", "docker system prune")


@pytest.mark.docker
def test_an_address_of_another_host_is_reported(
    engine: docker.APIClient, checkout: Path, stack: Stack, settings: Settings
) -> None:
    listening = settings.model_copy(update={"listen": "192.0.2.1"})
    only(preflight.problems(checkout, stack.home, listening), "192.0.2.1", "set RATCHET_LISTEN to an address of this")


def test_a_main_host_that_does_not_answer_is_reported_for_each_port_that_is_needed(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as answering:
        port = answering.getsockname()[1]
        # No other host can be had here, so this one takes its place.
        there = settings.model_copy(update={"main_host": "127.0.0.1", "redis_port": port})
        found = list(preflight._main_host(there))
        assert [line.split(" ")[0] for line in found] == ["airflow", "mlflow", "s3"]
        assert all("set RATCHET_LISTEN there" in line for line in found)
        elsewhere = there.model_copy(update={"mlflow_url": "https://m.example", "s3_endpoint": "https://s3.example"})
        only(list(preflight._main_host(elsewhere)), f"airflow does not answer at 127.0.0.1:{settings.airflow_port}")
    assert list(preflight._main_host(settings)) == []
