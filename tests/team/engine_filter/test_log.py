"""Each request that reached the engine leaves a line in the filter's log, also if nobody waited for its answer."""

import asyncio
import json
from typing import Any, cast

import pytest

from ratchet.contracts.labels import MARK, Label
from team.engine_filter.app import Filter
from team.engine_filter.engine_client import EngineClient, Question
from team.engine_filter.log import logged
from team.engine_filter.policy import Policy
from team.engine_filter.refusal import EngineAway, EngineSaid

CONTAINER = "c" * 64
POLICY = Policy(installation="ours", networks=("stages",))
INSPECTED = {
    "Id": CONTAINER,
    "Config": {"Labels": {**MARK, Label.INSTALLATION: "ours"}},
    "State": {"Status": "created", "StartedAt": "0001-01-01T00:00:00Z"},
}


class SlowEngine:
    """It takes its time for what changes something. asked: of that."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def value(self, path: str, params: object = None) -> Any:
        """The answers to the filter's own questions."""
        if "/images/" in path:
            return {"Id": f"sha256:{'a' * 64}", "RepoTags": ["ratchet-stage:cpu"]}
        return [] if path.endswith("/containers/json") else INSPECTED

    async def whole(self, question: Question) -> Any:
        """No answer before the client leaves."""
        self.asked.set()
        await asyncio.sleep(3600)


async def leave_at_once(method: str, path: str, query: bytes = b"", body: bytes = b"") -> None:
    """A client that closes its connection as soon as the engine has its request."""
    engine, sent = SlowEngine(), [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if sent:
            return sent.pop()
        await engine.asked.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    headers = [(b"host", b"engine"), (b"content-length", str(len(body)).encode())]
    headers += [(b"content-type", b"application/json")] if body else []
    scope = {
        "type": "http", "method": method, "raw_path": path.encode(), "query_string": query, "headers": headers,
        "client": ("10.0.0.7", 1),
    }  # fmt: skip
    await asyncio.wait_for(Filter(POLICY, cast("EngineClient", engine))(scope, receive, send), 10)
    assert engine.asked.is_set()


def test_a_start_is_logged_although_its_client_left_before_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(leave_at_once("POST", f"/v1.41/containers/{CONTAINER}/start"))
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["event"], line["container"], line["client"]) == ("start", CONTAINER, "10.0.0.7")
    assert line["unanswered"] is True


def test_what_the_engine_may_have_done_is_logged_and_what_was_refused_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(EngineAway), logged("create", name="ratchet-a-00000000"):
        raise EngineAway("it stopped in the middle of its answer", 502)
    with pytest.raises(EngineSaid), logged("start", container=CONTAINER):
        raise EngineSaid(409, "it is being removed")
    with logged(""):
        pass
    with logged("create", name="ratchet-a-00000001") as further:
        further["container"] = CONTAINER
    lost, made = map(json.loads, capsys.readouterr().out.splitlines())
    assert (lost["name"], lost["unanswered"]) == ("ratchet-a-00000000", True)
    assert (made["name"], made["container"], "unanswered" in made) == ("ratchet-a-00000001", CONTAINER, False)
