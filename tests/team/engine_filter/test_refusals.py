"""What must not be done to an engine, asked of the filter; and a look into the engine, where nothing of it has happened."""

import contextlib
import io
import itertools
import json
import re
import secrets
import socket
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
    api.remove_container(identity, force=True)


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
    told = len(running.told("refused"))
    name = _name()
    status, answer = ask(running, "POST", f"{V}/containers/create?name={name}", bent(body(stage_image), path, value))
    assert status == 403
    assert answer["message"].startswith("engine filter: ")
    assert "; allowed: " in answer["message"]
    assert _everything(api) == before
    lines = until(lambda: running.told("refused")[told:])  # the last is written once the answer is on its way
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


def test_a_key_that_stands_twice_is_refused(running: Running, stage_image: str, api: docker.APIClient) -> None:
    before = _everything(api)
    text = json.dumps(body(stage_image)).replace('"Init": true', '"Init": true, "Init": true')
    status, answer = ask(running, "POST", f"{V}/containers/create?name={_name()}", text.encode())
    assert status == 403
    assert "key 'Init' stands twice" in answer["message"]
    assert _everything(api) == before


@pytest.mark.parametrize("name", ["", "name=", "name=s3", "name=ratchet-a", "name=/ratchet-a-00000000", "name=ratchet-a-0000000g", "name=ratchet-a-00000000&platform=x", "name=ratchet-a-00000000&name=ratchet-a-00000001"])  # fmt: skip
def test_a_container_may_not_take_the_name_of_something_else(running: Running, stage_image: str, name: str) -> None:
    status, _ = ask(running, "POST", f"{V}/containers/create?{name}", body(stage_image))
    assert status == 403


FORBIDDEN = """
GET /containers/json
GET /v1.24/info
GET /v1.400/info
GET /v1.41/v1.41/info
GET /v1.41/events
GET /v1.41/images/json
GET /v1.41/images/search?term=x
GET /v1.41/images/ratchet-stage:cpu/history
GET /v1.41/images/ratchet-stage:cpu/get
GET /v1.41/images/ratchet-base:latest/json
GET /v1.41/images/get?names=ratchet-stage:cpu
POST /v1.41/images/create?fromImage=debian
POST /v1.41/images/load
POST /v1.41/images/ratchet-stage:cpu/tag?repo=x
POST /v1.41/images/prune
DELETE /v1.41/images/ratchet-stage:cpu
POST /v1.41/build
POST /v1.41/build/prune
POST /v1.41/commit?container={c}
POST /v1.41/auth
POST /v1.41/session
POST /grpc
GET /v1.41/networks
GET /v1.41/networks/host
GET /v1.41/networks/bridge?verbose=1
POST /v1.41/networks/create
POST /v1.41/networks/bridge/connect
DELETE /v1.41/networks/bridge
GET /v1.41/volumes
POST /v1.41/volumes/create
DELETE /v1.41/volumes/x
GET /v1.41/secrets
GET /v1.41/configs
GET /v1.41/services
GET /v1.41/nodes
GET /v1.41/swarm
POST /v1.41/swarm/init
GET /v1.41/plugins
POST /v1.41/plugins/pull?remote=x
GET /v1.41/system/df
GET /v1.41/distribution/x/json
POST /v1.41/containers/prune
POST /v1.41/exec/{c}/start
POST /v1.41/containers/{c}/exec
POST /v1.41/containers/{c}/attach?stream=1&stdin=1
GET /v1.41/containers/{c}/attach/ws
POST /v1.41/containers/{c}/resize?h=1&w=1
POST /v1.41/containers/{c}/update
POST /v1.41/containers/{c}/rename?name=x
POST /v1.41/containers/{c}/pause
POST /v1.41/containers/{c}/restart
POST /v1.41/containers/{c}/copy
GET /v1.41/containers/{c}/archive?path=/run
HEAD /v1.41/containers/{c}/archive?path=/run
GET /v1.41/containers/{c}/export
GET /v1.41/containers/{c}/top
GET /v1.41/containers/{c}/stats
GET /v1.41/containers/{c}/changes
GET /v1.41/containers/{c}/json?size=1
GET /v1.41/containers/{c}/logs?stdout=1&follow=2
GET /v1.41/containers/{c}/logs?stdout=1&tail=1
GET /v1.41/containers/{c}/logs?stdout=1&stdout=0
POST /v1.41/containers/{c}/kill?signal=SIGSTOP
POST /v1.41/containers/{c}/kill?signal=SIGHUP
POST /v1.41/containers/{c}/stop?t=-1
POST /v1.41/containers/{c}/stop?signal=SIGUSR1
POST /v1.41/containers/{c}/wait?condition=removed
POST /v1.41/containers/{c}/start?checkpoint=x
POST /v1.41/containers/{c}/start?detachKeys=x
DELETE /v1.41/containers/{c}?link=1
DELETE /v1.41/containers/{c}?force=yes
PUT /v1.41/containers/{c}/archive
PUT /v1.41/containers/{c}/archive?path=/
PUT /v1.41/containers/{c}/archive?path=/run/../etc
PUT /v1.41/containers/{c}/archive?path=/etc
PUT /v1.41/containers/{c}/archive?path=/run&copyUIDGID=1
GET /v1.41/containers/json?size=1
GET /v1.41/containers/json?filters={{
GET /v1.41/containers/json?filters=[]
GET /v1.41/containers/json?filters={{"name":["x"]}}
GET /v1.41/containers/json?filters={{"label":{{"a=b":true}}}}
GET /v1.41/containers/json?filters={{"label":[1]}}
GET /v1.41/containers/json?filters={{"label":[],"label":[]}}
GET /v1.41/containers/json?all
GET /v1.41//containers/json
GET //v1.41/containers/json
GET /v1.41/containers/json/
GET /v1.41/containers/../info
GET /v1.41/./info
GET /v1.41/containers/%2e%2e/info
GET /v1.41/containers%2fjson
GET /v1.41/containers/{c}%2fjson
GET /v1.41/containers/{c}%00/json
GET /v1.41/containers/{c}/json#x
GET /v1.41/containers/a:b/json
GET /v1.41/images/../containers/json
GET /v1.41/images/ratchet-stage:cpu/../../info/json
GET /v1.41/info;x=1
GET \\v1.41\\info
GET http://docker/v1.41/info
OPTIONS *
TRACE /v1.41/info
PATCH /v1.41/containers/{c}
get /v1.41/info
POST /v1.41/info
GET /
""".strip().splitlines()


@pytest.mark.parametrize("line", FORBIDDEN)
def test_whatever_is_not_allowed_is_refused_with_what_is(running: Running, created: str, line: str) -> None:
    method, _, target = line.format(c=created).partition(" ")
    path, mark, query = target.partition("?")
    status, answer = ask(running, method, f"{path}{mark}{quote(query, safe='=&/')}")
    assert status == 403
    if method != "HEAD":
        assert answer["message"].startswith("engine filter: ")
        assert " is refused; allowed: " in answer["message"]


def test_after_all_that_the_container_is_as_it_was(
    running: Running, created: str, api: docker.APIClient, stage_image: str
) -> None:
    before = api.inspect_container(created)
    for line in FORBIDDEN:
        method, _, target = line.format(c=created).partition(" ")
        path, mark, query = target.partition("?")
        ask(running, method, f"{path}{mark}{quote(query, safe='=&/')}")
    assert api.inspect_container(created) == before
    assert api.inspect_image(stage_image)
    assert running.process.poll() is None


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


def test_what_is_told_of_the_engine_is_little(running: Running) -> None:
    status, info = ask(running, "GET", f"{V}/info")
    assert (status, set(info)) == (
        200,
        {"ID", "NCPU", "MemTotal", "ServerVersion", "OSType", "Architecture", "SystemTime"},
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


def test_what_is_created_is_told_in_the_log(running: Running, created: str) -> None:
    told = until(lambda: next((line for line in running.told("create") if line["container"] == created), None))
    assert (told["user"], told["network"]) == ("10001:10001", "none")
    assert "Env" not in told


def test_more_containers_than_allowed_are_tried_again_later(
    settings: dict[str, str], created: str, stage_image: str, api: docker.APIClient
) -> None:
    before = _everything(api)
    with filter_process({**settings, "max_containers": "1"}) as small:
        status, answer = ask(small, "POST", f"{V}/containers/create?name={_name()}", body(stage_image))
    assert status == 507
    assert "has 1 containers, as many as it may have" in answer["message"]
    assert _everything(api) == before


def _raw(running: Running, sent: bytes, *, ends: bool = False) -> bytes:
    """All that comes back for these bytes on one connection until the filter closes it, or hears that it `ends` here."""
    answer = b""
    with (
        socket.create_connection((running.host, running.port), timeout=10) as connection,
        contextlib.suppress(ConnectionError),  # cut off
    ):
        connection.sendall(sent)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65536):
            answer += piece
    return answer


SMUGGLED = b"POST /v1.41/containers/create?name=ratchet-a-00000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
PING = b"GET /_ping HTTP/1.1\r\nHost: x\r\n"
LAST = b"Connection: close\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        PING + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + SMUGGLED,
        PING + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        PING + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        PING + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        PING + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n" + SMUGGLED,
        PING + b"Content-Length: +5\r\n\r\n" + SMUGGLED,
        PING + b"Content-Length: 99999999999999999999\r\n\r\n",
        PING + b"Upgrade: tcp\r\nConnection: Upgrade\r\n\r\n",
        PING + b"Connection: keep-alive, Upgrade\r\n\r\n",
        PING + b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n",
        PING + b"Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /_ping\r\n\r\n",
        b"GET  /_ping HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /_ping HTTP/1.1\nX : y\n\n",
        b"GET /_ping HTTP/1.1\r\n\r\n",
        b"GET /_ping HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        PING + b"X: y\n\tTransfer-Encoding: chunked\n\n0\r\n\r\n" + SMUGGLED,
        b"GET /v1.41/\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT docker:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00",
        PING + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    ],
    ids=itertools.count(),
)
def test_a_request_that_two_programs_could_read_differently_is_refused_and_its_rest_never_read(
    running: Running, request_bytes: bytes
) -> None:
    answer = _raw(running, request_bytes)
    cut_off = not answer and len(request_bytes) > 64 << 10  # by what it had not read when it closed
    assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")) or cut_off
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert ask(running, "GET", "/_ping") == (200, b"OK")


def test_a_body_without_need_is_a_body_and_not_a_second_request(running: Running) -> None:
    answer = _raw(running, PING + LAST + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED)
    assert answer.startswith(b"HTTP/1.1 403")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_requests_in_a_row_are_each_looked_into(running: Running) -> None:
    events = b"GET /v1.41/events HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = _raw(running, PING + b"\r\n" + events + PING + LAST + b"\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"403", b"200"]


def test_a_body_that_is_too_long_is_refused_before_it_comes(running: Running) -> None:
    head = (
        b"POST /v1.41/containers/create?name=ratchet-a-00000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 16777217\r\n\r\n"
    )
    assert b"a body of 16777217 bytes is refused; allowed: at most 16777216" in _raw(running, head)


def test_a_body_that_ends_early_is_nothing(running: Running, api: docker.APIClient) -> None:
    before = _everything(api)
    head = b"POST /v1.41/containers/create?name=ratchet-a-00000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    assert not _raw(running, head, ends=True).startswith(b"HTTP/1.1 2")
    assert _everything(api) == before
