"""What must not be done to an engine, asked of the filter; and a look into the engine, where nothing of it has happened."""

import io
import json
import secrets
import tarfile
from collections.abc import Iterator
from urllib.parse import quote

import docker
import pytest

from ratchet.contracts.labels import MARK, Label
from ratchet.runners.container import archive
from ratchet.runners.job import Job
from tests.team.engine_filter.bodies import bent, body
from tests.team.engine_filter.running import Running, ask, filter_process
from tests.waiting import until

pytestmark = pytest.mark.docker

V = "/v1.41"
H = "HostConfig"


_OURS = f"ratchet-{secrets.token_hex(4)}-"
"""What names of this process begin with; others may make containers in the same engine at the same time."""


def _name() -> str:
    return f"{_OURS}{secrets.token_hex(4)}"


def _everything(api: docker.APIClient) -> list[str]:
    """Ids of all that has come to be by one of our names, or by one that no request here may bring into being."""
    return [found["Id"] for found in api.containers(all=True, filters={"name": [_OURS, "ratchet-a-0000000"]})]


@pytest.fixture
def created(running: Running, stage_image: str, api: docker.APIClient) -> Iterator[str]:
    """The id of a container that was made through the filter and has not started."""
    status, answer = ask(running, "POST", f"{V}/containers/create?name={_name()}", body(stage_image))
    assert status == 201, answer
    yield answer["Id"]
    api.remove_container(answer["Id"], v=True, force=True)


@pytest.fixture
def strange(api: docker.APIClient, stage_image: str, place: str) -> Iterator[str]:
    """The id of another program's container; it runs."""
    command = ["python", "-I", "-S", "-c", "import time; time.sleep(600)"]
    labels = {**MARK, Label.TEST: "1", Label.INSTALLATION: f"{place}-other"}
    identity: str = api.create_container(stage_image, entrypoint=command, labels=labels, name=f"strange-{place}")["Id"]
    api.start(identity)
    yield identity
    api.remove_container(identity, v=True, force=True)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((H, "Privileged"), True),
        ((H, "Binds"), ["/var/run/docker.sock:/var/run/docker.sock"]),
        ((H, "NetworkMode"), "host"),
        ((H, "NetworkMode"), "container:x"),
        ((H, "CapAdd"), ["SYS_ADMIN"]),
        ((H, "CapDrop"), []),
        ((H, "SecurityOpt"), ["seccomp=unconfined"]),
        ((H, "PidMode"), "host"),
        ((H, "IpcMode"), "host"),
        ((H, "UTSMode"), "host"),
        ((H, "UsernsMode"), "host"),
        ((H, "CgroupParent"), "/"),
        ((H, "Devices"), [{"PathOnHost": "/dev/kmsg", "PathInContainer": "/dev/kmsg", "CgroupPermissions": "rwm"}]),
        ((H, "Sysctls"), {"net.ipv4.ip_forward": "1"}),
        ((H, "RestartPolicy"), {"Name": "always"}),
        ((H, "Mounts"), [{"Type": "bind", "Source": "/", "Target": "/host"}]),
        ((H, "Mounts", 0, "VolumeOptions", "DriverConfig"), {"Name": "local", "Options": {"type": "none", "o": "bind", "device": "/"}}),
        (("User",), "0:0"),
        (("Image",), "ratchet-base:latest"),
        (("Image",), "debian"),
        (("Image",), "evil/ratchet-stage:cpu"),
        (("Image",), "ratchet-stage-base:cpu"),
        (("Image",), "ratchet-stage:cpu/../../x"),
        (("Labels", Label.INSTALLATION), "there"),
        (("NetworkingConfig",), {"EndpointsConfig": {"bridge": {}}}),
    ],
)  # fmt: skip
def test_a_forbidden_container_is_refused_and_not_made(
    running: Running, stage_image: str, api: docker.APIClient, path: tuple[str | int, ...], value: object
) -> None:
    before = _everything(api)
    before_it = len(running.logged("refused"))
    name = _name()
    status, answer = ask(running, "POST", f"{V}/containers/create?name={name}", bent(body(stage_image), path, value))
    assert status == 403
    assert answer["message"].startswith("engine filter: ")
    assert "; allowed: " in answer["message"]
    assert _everything(api) == before
    lines = until(lambda: running.logged("refused")[before_it:])  # the last is written once the answer is on its way
    assert lines[-1]["request"] == f"POST {V}/containers/create"


def test_an_image_by_the_id_of_another_repository_is_refused(
    running: Running, stage_image: str, api: docker.APIClient
) -> None:
    other = next(
        image["Id"]
        for image in api.images()
        if not any(tag.startswith("ratchet-stage:") for tag in image["RepoTags"] or [])
    )
    status, answer = ask(running, "POST", f"{V}/containers/create?name={_name()}", body(other))
    assert (status, answer["message"]) == (
        403,
        f"engine filter: image {other} is refused; allowed: images of ratchet-stage",
    )
    status, _ = ask(running, "GET", f"{V}/images/{other}/json")
    assert status == 403


def test_a_key_that_is_there_twice_is_refused(running: Running, stage_image: str, api: docker.APIClient) -> None:
    before = _everything(api)
    text = json.dumps(body(stage_image)).replace('"Init": true', '"Init": true, "Init": true')
    status, answer = ask(running, "POST", f"{V}/containers/create?name={_name()}", text.encode())
    assert status == 403
    assert "key 'Init' is there twice" in answer["message"]
    assert _everything(api) == before


@pytest.mark.parametrize("name", ["", "name=", "name=s3", "name=ratchet-a", "name=/ratchet-a-00000000", "name=ratchet-a-0000000g", "name=ratchet-a-00000000&platform=x", "name=ratchet-a-00000000&name=ratchet-a-00000001"])  # fmt: skip
def test_a_container_may_not_take_the_name_of_something_else(running: Running, stage_image: str, name: str) -> None:
    status, _ = ask(running, "POST", f"{V}/containers/create?{name}", body(stage_image))
    assert status == 403


@pytest.mark.parametrize(
    "line",
    [
        "GET /json",
        "GET /logs?stdout=1",
        "POST /start",
        "POST /stop",
        "POST /kill",
        "POST /wait",
        "POST /unpause",
        "PUT /archive?path=/run",
        "DELETE ",
    ],
)
def test_a_container_of_another_installation_is_out_of_reach(
    running: Running, strange: str, api: docker.APIClient, line: str, place: str
) -> None:
    method, _, rest = line.partition(" ")
    content = archive(Job(name="a", request=b"{}")) if method == "PUT" else None
    for named in (strange, strange[:12], f"strange-{place}"):
        status, answer = ask(running, method, f"{V}/containers/{named}{rest}", content)
        assert status == 403
        assert answer["message"].endswith(f"allowed: containers of the installation {place}")
    assert api.inspect_container(strange)["State"]["Running"]


def test_the_list_has_no_container_of_another_installation(running: Running, strange: str, created: str) -> None:
    for query in ("", f"&filters={quote(json.dumps({'label': ['ratchet=1']}))}"):
        status, found = ask(running, "GET", f"{V}/containers/json?all=1{query}")
        assert (status, [container["Id"] for container in found]) == (200, [created])


def test_the_cache_and_a_network_of_the_settings_are_there(
    running: Running, stage_image: str, api: docker.APIClient, place: str
) -> None:
    wanted = bent(body(stage_image, cache=place), (H, "NetworkMode"), place)
    status, answer = ask(running, "POST", f"{V}/containers/create?name={_name()}", wanted)
    assert status == 201, answer
    try:
        packed = archive(Job(name="a", request=b"{}"))
        assert ask(running, "PUT", f"{V}/containers/{answer['Id']}/archive?path=/run", packed)[0] == 200
        assert ask(running, "POST", f"{V}/containers/{answer['Id']}/start")[0] == 204
        assert ask(running, "POST", f"{V}/containers/{answer['Id']}/wait")[1]["StatusCode"] == 0
        made = api.inspect_container(answer["Id"])
    finally:
        api.remove_container(answer["Id"], v=True, force=True)
    mounts = {mount["Destination"]: (mount["Type"], mount["Driver"], mount["Name"]) for mount in made["Mounts"]}
    assert mounts["/var/cache/ratchet"] == ("volume", "local", place)
    assert set(mounts) == {"/run", "/var/cache/ratchet"}
    assert set(made["NetworkSettings"]["Networks"]) == {place}


def test_little_is_said_about_the_engine(running: Running) -> None:
    status, info = ask(running, "GET", f"{V}/info")
    assert (status, set(info)) == (
        200,
        {"ID", "Name", "NCPU", "MemTotal", "ServerVersion", "OSType", "Architecture", "SystemTime"},
    )
    status, network = ask(running, "GET", f"{V}/networks/bridge")
    assert (status, set(network)) == (200, {"Name", "Id", "Created", "Driver", "Scope"})


def test_nothing_is_put_into_a_container_that_has_started_and_none_starts_twice(running: Running, created: str) -> None:
    packed = archive(Job(name="a", request=b"{}"))
    put = f"{V}/containers/{created}/archive?path=/run"
    assert ask(running, "PUT", put, packed)[0] == 200
    assert ask(running, "POST", f"{V}/containers/{created}/start")[0] == 204
    ask(running, "POST", f"{V}/containers/{created}/wait")
    for method, target, content in (("PUT", put, packed), ("POST", f"{V}/containers/{created}/start", None)):
        status, answer = ask(running, method, target, content)
        assert status == 403
        assert "allowed: one that was created and not started" in answer["message"]


def test_a_link_in_an_archive_is_refused_and_its_content_is_not_in_the_log(running: Running, created: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("ratchet")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/hunter2"
        tar.addfile(entry)
    status, answer = ask(running, "PUT", f"{V}/containers/{created}/archive?path=/run", packed.getvalue())
    assert (status, "a link or device in the archive" in answer["message"]) == (403, True)
    assert "hunter2" not in json.dumps(running.lines)


def test_what_is_created_is_logged(running: Running, created: str) -> None:
    entry = until(lambda: next((line for line in running.logged("create") if line["container"] == created), None))
    assert (entry["user"], entry["network"]) == ("10001:10001", "none")
    assert "Env" not in entry


def test_each_request_that_changes_a_container_is_logged_with_who_sent_it(running: Running, stage_image: str) -> None:
    _, made = ask(running, "POST", f"{V}/containers/create?name={_name()}", body(stage_image))
    one = f"{V}/containers/{made['Id']}"
    asked = {
        "start": ("POST", f"{one}/start"),
        "kill": ("POST", f"{one}/kill?signal=SIGTERM"),
        "stop": ("POST", f"{one}/stop?t=0"),
        "remove": ("DELETE", f"{one}?force=1&v=1"),
    }
    for method, target in asked.values():
        ask(running, method, target)
    until(lambda: any(line["container"] == made["Id"] for line in running.logged("remove")))
    lines = [line for line in running.lines if line.get("container") == made["Id"]]
    assert [line["event"] for line in lines] == ["create", *asked]
    assert {line["client"] for line in lines} == {"127.0.0.1"}
    assert lines[2]["signal"] == "SIGTERM"


def test_more_containers_than_allowed_are_tried_again_later(
    settings: dict[str, str], created: str, stage_image: str, api: docker.APIClient
) -> None:
    before = _everything(api)
    with filter_process({**settings, "max_containers": "1"}) as small:
        status, answer = ask(small, "POST", f"{V}/containers/create?name={_name()}", body(stage_image))
    assert status == 507
    assert "has 1 containers, as many as it may have" in answer["message"]
    assert _everything(api) == before
