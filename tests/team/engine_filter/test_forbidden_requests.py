"""Requests that the filter refuses whatever their body is; each leaves the container that it names as it was."""

import secrets
from collections.abc import Iterator
from urllib.parse import quote

import docker
import pytest

from tests.team.engine_filter.bodies import body
from tests.team.engine_filter.running import Running, ask

pytestmark = pytest.mark.docker

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
GET /v1.41/system/df?type=volume
GET /v1.41/system/df?verbose=1
DELETE /v1.41/images/ratchet-base:cpu-0123456789ab
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


@pytest.fixture(scope="module")
def untouched(running: Running, stage_image: str, api: docker.APIClient) -> Iterator[str]:
    """The id of a container that was made through the filter and has not started; no request here changes it."""
    name = f"ratchet-{secrets.token_hex(4)}-{secrets.token_hex(4)}"
    status, answer = ask(running, "POST", f"/v1.41/containers/create?name={name}", body(stage_image))
    assert status == 201, answer
    yield answer["Id"]
    api.remove_container(answer["Id"], v=True, force=True)


@pytest.mark.parametrize("line", FORBIDDEN)
def test_a_forbidden_request_is_refused_with_what_is_allowed_and_changes_nothing(
    running: Running, untouched: str, api: docker.APIClient, stage_image: str, line: str
) -> None:
    before = api.inspect_container(untouched)
    method, _, target = line.format(c=untouched).partition(" ")
    path, mark, query = target.partition("?")
    status, answer = ask(running, method, f"{path}{mark}{quote(query, safe='=&/')}")
    assert status == 403
    if method != "HEAD":
        assert answer["message"].startswith("engine filter: ")
        assert " is refused; allowed: " in answer["message"]
    assert api.inspect_container(untouched) == before
    assert api.inspect_image(stage_image)
    assert running.process.poll() is None
