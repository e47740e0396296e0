"""Compose's commands, and what the engine says of containers, without the services themselves."""

import os
import time
from pathlib import Path
from threading import Thread
from unittest.mock import MagicMock

import docker
import pytest
from docker.errors import APIError
from requests import Response

from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.labels import STAGE_USER, Label
from team.settings import Settings
from team.stack import Member, Stack, StageContainer, program
from tests.team.containers import LASTS, Starts, member
from tests.waiting import until

LISTENS = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0))"
WAITS = "import time; print('ready', flush=True); [time.sleep(1) for _ in range(300)]"


def state(stack: Stack, service: str) -> str:
    return member(stack, service).state


def test_each_installation_has_a_home_of_its_own() -> None:
    first, second = (Stack(Path("/checkout"), Settings(project=name), {}) for name in ("a", "b"))
    assert first.home == Path("/checkout/.ratchet/team/a")
    assert (first.secrets.parent, second.secrets.parent) == (first.home, second.home)


def test_services_never_run_as_root() -> None:
    assert Stack(Path("/"), Settings(), {}).owner == (os.getuid() or STAGE_USER)


def test_compose_gets_the_settings_and_nothing_else_of_ours(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "RATCHET_STORE",
        "COMPOSE_FILE",
        "COMPOSE_PROJECT_NAME",
        "AWS_SECRET_ACCESS_KEY",
        "MLFLOW_TRACKING_URI",
    ):
        monkeypatch.setenv(name, "from outside")
    monkeypatch.setenv("DOCKER_HOST", "tcp://engine:1")
    made = Stack(checkout, Settings(project="a"), {"RATCHET_STAGE_IMAGE": "stage:1"})
    environment = made.environment()
    assert "from outside" not in environment.values()
    assert environment["DOCKER_HOST"] == "tcp://engine:1"
    assert environment["RATCHET_STAGE_IMAGE"] == "stage:1"
    assert environment["RATCHET_SECRETS"] == str(made.secrets)
    assert environment["RATCHET_UID"] == str(made.owner)
    assert made.settings.variables().items() <= environment.items()


def test_a_service_that_is_elsewhere_has_no_container() -> None:
    settings = Settings(workers=3, gpu_workers=0, database_url="postgresql://db", mlflow_url="https://m")
    assert Stack(Path("/"), settings, {}).scale() == [
        "--scale", "worker=3", "--scale", "worker-gpu=0", "--scale", "postgres=0", "--scale", "mlflow=0",
        "--scale", "follower=0", "--scale", "pipelines=0", "--scale", "rows=0",
    ]  # fmt: skip


@pytest.mark.docker
def test_compose_that_fails_is_reported_with_its_last_words(engine: docker.APIClient, stack: Stack) -> None:
    stack.compose("config", "--quiet")
    with pytest.raises(Unavailable, match=r"docker compose logs failed: .*nobody") as caught:
        stack.compose("logs", "nobody")
    assert "\n" not in str(caught.value)


@pytest.mark.docker
def test_what_compose_writes_goes_where_it_is_asked_to(engine: docker.APIClient, stack: Stack, tmp_path: Path) -> None:
    with (tmp_path / "out").open("xb") as out:
        stack.compose("config", "--services", stdout=out)
    assert {"postgres", "redis", "worker"} <= set((tmp_path / "out").read_text().split())


@pytest.mark.docker
def test_a_compose_at_work_tells_when_it_is_done_and_whether_it_failed(engine: docker.APIClient, stack: Stack) -> None:
    for words, failed in ((["config", "--quiet"], ""), (["logs", "nobody"], "nobody")):
        starting = stack.begin(*words)
        try:
            until(lambda started=starting: started.done, seconds=60)  # type: ignore[misc] # bound now
            assert failed in starting.failed()
            assert bool(starting.failed()) == bool(failed)
        finally:
            starting.errors.close()


@pytest.mark.docker
def test_a_compose_at_work_can_be_ended(engine: docker.APIClient, stack: Stack) -> None:
    starting = stack.begin("events")
    assert not starting.done
    assert starting.failed() == ""
    starting.end()
    assert starting.done
    starting.errors.close()


def test_without_compose_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="Docker Compose is not installed"):
        program()


def test_the_plugin_of_docker_goes_before_the_older_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("docker", "docker-compose"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert list(program()) == ["docker", "compose"]
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    assert list(program()) == ["docker-compose"]


@pytest.mark.docker
def test_a_stack_that_does_not_run_has_no_members(engine: docker.APIClient, stack: Stack) -> None:
    assert stack.members() == []
    assert stack.stages() == []
    stack.end_stages([])


@pytest.mark.parametrize(
    ("state", "well", "failed"),
    [
        ("healthy", True, False), ("done", True, False), ("starting", False, False), ("unhealthy", False, False),
        ("exited (1)", False, False), ("failed (1)", False, True),
    ],
)  # fmt: skip
def test_a_member_is_well_or_hopeless_by_its_state(state: str, *, well: bool, failed: bool) -> None:
    member = Member(service="a", name="a_1", state=state, container="0")
    assert (member.well, member.failed) == (well, failed)


@pytest.mark.docker
def test_a_member_is_as_the_engine_says(stack: Stack, starts: Starts) -> None:
    healthy = {"test": ["CMD", "true"], "interval": 10**9, "timeout": 10**10, "retries": 30}
    starts("s3", LASTS, healthcheck=healthy)
    starts("redis", LASTS)
    starts("postgres", "raise SystemExit(2)")
    until(lambda: state(stack, "s3") == "healthy" and state(stack, "postgres") == "exited (2)", seconds=60)
    members = stack.members()
    assert [member.service for member in members] == ["postgres", "redis", "s3"]
    assert [member.state for member in members] == ["exited (2)", "running", "healthy"]
    assert members[0].name == f"{stack.settings.project}_postgres_1"
    stack.wait_for("s3")
    with pytest.raises(Unavailable, match=r"_postgres_1 is exited \(2\); to do: run `make logs`"):
        stack.wait_for("s3", "postgres", seconds=0)


@pytest.mark.docker
@pytest.mark.parametrize(("code", "becomes"), [(0, "done"), (69, "failed (69)")])
def test_the_first_step_is_done_or_has_failed(stack: Stack, starts: Starts, code: int, becomes: str) -> None:
    starts("init", f"print('migrated'); raise SystemExit({code})")
    until(lambda: state(stack, "init") == becomes, seconds=60)
    assert stack.log_tail(member(stack, "init")) == ["migrated"]


@pytest.mark.docker
def test_a_service_that_is_started_again_and_again_has_failed(stack: Stack, starts: Starts) -> None:
    starts("worker", "raise SystemExit(3)", restart_policy={"Name": "always"})
    until(lambda: member(stack, "worker").failed, seconds=60)


@pytest.mark.docker
def test_stages_of_this_installation_get_a_notice_to_stop_and_end(
    engine: docker.APIClient, stack: Stack, starts: Starts
) -> None:
    ours, another = {Label.INSTALLATION: stack.settings.project}, {Label.INSTALLATION: "another"}
    running = starts("stage", f"print('ready', flush=True); {LASTS}", labels=ours)
    ended = starts("ended", "", labels=ours)
    foreign = starts("foreign", LASTS, labels=another)
    until(lambda: engine.inspect_container(ended)["State"]["Status"] == "exited", seconds=60)
    assert sorted(stage.running for stage in stack.stages()) == [False, True]
    stack.end_stages(stack.stages())
    left = {container["Id"] for container in engine.containers(all=True, filters={"label": [f"{Label.TEST}=1"]})}
    assert not {running, ended} & left
    assert foreign in left


@pytest.mark.docker
def test_each_stage_has_its_own_grace_and_none_waits_for_another(
    engine: docker.APIClient, stack: Stack, starts: Starts
) -> None:
    deaf = "import signal; signal.signal(15, lambda *_: print('notice', flush=True))"
    codes = {"8": f"{deaf}; {WAITS}", "12": f"{deaf}; {WAITS}", "600": f"{LISTENS}; {WAITS}"}
    made = {
        grace: starts(f"stage{grace}", code, labels={Label.INSTALLATION: stack.settings.project, Label.GRACE: grace})
        for grace, code in codes.items()
    }
    until(lambda: all(b"ready" in engine.logs(container) for container in made.values()), seconds=60)
    engine.pause(made["600"])
    began = time.monotonic()
    ending = Thread(target=stack.end_stages, args=(stack.stages(),))
    ending.start()
    until(lambda: all(b"notice" in engine.logs(made[grace]) for grace in ("8", "12")), seconds=60)
    ending.join()
    assert 12 <= time.monotonic() - began < 60
    assert stack.stages() == []


@pytest.mark.parametrize("status", [404, 409])
def test_a_stage_that_goes_or_that_the_reaper_removes_meanwhile_is_no_error(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    answer = Response()
    answer.status_code = status
    engine = MagicMock()
    engine.__enter__.return_value = engine
    engine.remove_container.side_effect = APIError("said", response=answer)
    monkeypatch.setattr("team.stack.connect", lambda: engine)
    stage = StageContainer(handle="a", running=True, grace_s=1)
    stack.end_stages([stage])
    engine.remove_container.assert_called_once()
    answer.status_code = 500
    with pytest.raises(Unavailable):
        stack.end_stages([stage])


@pytest.mark.docker
@pytest.mark.parametrize("label", [{}, {Label.GRACE: "inf"}, {Label.GRACE: "-1"}, {Label.GRACE: "long"}])
def test_a_stage_whose_label_says_no_grace_is_given_the_usual_one(
    stack: Stack, starts: Starts, label: dict[str, str]
) -> None:
    starts("stage", LASTS, labels={Label.INSTALLATION: stack.settings.project, **label})
    (stage,) = stack.stages()
    assert (stage.running, stage.grace_s) == (True, 30)


def test_a_stack_that_is_forgotten_leaves_no_secret(stack: Stack) -> None:
    stack.secrets.mkdir(parents=True)
    (stack.secrets / "made.json").write_text("{}")
    (stack.home.parent / "backups").mkdir()
    stack.forget()
    stack.forget()
    assert [path.name for path in stack.home.parent.iterdir()] == ["backups"]


def test_an_engine_that_is_away_is_reported_in_one_line(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(Unavailable, match="the Docker engine does not answer") as caught:
        stack.members()
    assert "\n" not in str(caught.value)
