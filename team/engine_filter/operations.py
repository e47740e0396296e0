"""The permitted operations, as a table; every other request is refused.

Each operation checks its request and returns the request to the engine (a Question, whose answer is streamed back), or
asks the engine itself and returns a document (an Answer).

A change here violates the promise of the team set-up when words of a client reach the engine that no pattern has
matched, or an operation reaches a container before `_ours` has said whose it is.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from ratchet.contracts.labels import MARK, Label
from team.engine_filter import archive, create
from team.engine_filter.call import Call
from team.engine_filter.engine_client import JSON, TAR, EngineClient, Question, said
from team.engine_filter.images import BUILT, Images
from team.engine_filter.log import logged
from team.engine_filter.policy import Policy
from team.engine_filter.refusal import EngineSaid, Refusal
from team.engine_filter.strict_json import parse

_ERROR = 400
_FLAG = re.compile(r"0|1|true|false|True|False")
_ON = frozenset({"1", "true", "True"})
_TIME = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_NAME = re.compile(r"ratchet-[A-Za-z0-9][A-Za-z0-9_.-]{0,99}-[0-9a-f]{8}")
_SIGNALS = {
    "SIGTERM": "SIGTERM",
    "TERM": "SIGTERM",
    "15": "SIGTERM",
    "SIGKILL": "SIGKILL",
    "KILL": "SIGKILL",
    "9": "SIGKILL",
}
_TEXT = re.compile(r".*", re.DOTALL)
_NEVER_STARTED = "0001-01-01T00:00:00Z"
_INFO = ("ID", "Name", "NCPU", "MemTotal", "ServerVersion", "OSType", "Architecture", "SystemTime")
_NETWORK = ("Name", "Id", "Created", "Driver", "Scope")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A small answer that is made here. value None: no body."""

    status: int
    value: Any = None


Handled = Awaitable[Question | Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """logged: the event of the line that an allowed request of it leaves in the log; empty for none."""

    method: str
    path: re.Pattern[str]
    query: Mapping[str, re.Pattern[str]]
    does: Callable[[Call, re.Match[str]], Handled]
    body: bool = False
    versioned: bool = True
    logged: str = ""


class Operations:
    """The operations of one installation on one engine."""

    def __init__(self, policy: Policy, engine: EngineClient) -> None:
        self._policy = policy
        self._engine = engine
        self._images = Images(policy, engine)
        self._creating = asyncio.Lock()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._table = self._operations()

    async def handle(self, call: Call) -> Question | Answer:
        """Raises Refusal for what is not permitted, EngineSaid and EngineAway if our checks meet an error."""
        for operation in self._table:
            found = operation.path.fullmatch(call.path)
            if not found or operation.method != call.method:
                continue
            if operation.versioned and not call.version:
                raise Refusal("a path without the API's version", "paths like /v1.41/info")
            for name, value in call.query.items():
                if name not in operation.query:
                    raise Refusal(f"the query's {name[:40]!r}", ", ".join(operation.query) or "no query")
                if not operation.query[name].fullmatch(value):
                    raise Refusal(f"the value of the query's {name!r}", f"what matches {operation.query[name].pattern}")
            if call.body and not operation.body:
                raise Refusal("a body", "none for this operation")
            with logged(operation.logged, **found.groupdict(), client=call.client, **call.query):
                return await operation.does(call, found)
        raise Refusal(
            f"{call.method[:10]} {call.path[:80]}",
            "ping, version, info; create, put archive, start, inspect, wait, logs, kill, stop, unpause, remove, list "
            "of this installation's containers; inspect, sizes, deletion of its images; inspect of the bridge network",
        )

    def _operations(self) -> tuple[_Operation, ...]:
        def row(method: str, path: str, does: Callable[[Call, re.Match[str]], Handled], **rest: Any) -> _Operation:
            query = {name: re.compile(pattern) for name, pattern in rest.pop("query", {}).items()}
            return _Operation(method=method, path=re.compile(path), query=query, does=does, **rest)

        one = r"/containers/(?P<container>[A-Za-z0-9][A-Za-z0-9_.-]{0,199})"
        flag = _FLAG.pattern
        listing = {"all": flag, "limit": "-1|0", "size": "0", "trunc_cmd": flag, "filters": _TEXT.pattern}
        logs = dict.fromkeys(("follow", "stdout", "stderr", "timestamps"), flag) | {"since": _TIME.pattern}
        return (
            row("GET", "/_ping", self._as_it_is, versioned=False),
            row("HEAD", "/_ping", self._as_it_is, versioned=False),
            row("GET", "/version", self._as_it_is, versioned=False),
            row("GET", "/info", self._info),
            row("GET", "/networks/bridge", self._bridge),
            row("GET", r"/images/(?P<image>[A-Za-z0-9][A-Za-z0-9_.:/-]*)/json", self._image),
            row("GET", "/system/df", self._sizes),
            row(
                "DELETE",
                f"/images/(?P<image>{BUILT})",
                self._delete_image,
                query={"force": "0|false|False", "noprune": "0|false|False"},
                logged="delete image",
            ),
            row("GET", "/containers/json", self._list, query=listing),
            row("POST", "/containers/create", self._create, query={"name": ".*"}, body=True),
            row("PUT", f"{one}/archive", self._put_archive, query={"path": create.RUN_FOLDER}, body=True, logged="put"),
            row("POST", f"{one}/start", self._start, logged="start"),
            row("GET", f"{one}/json", self._plain),
            row("POST", f"{one}/wait", self._plain),
            row("POST", f"{one}/unpause", self._plain, logged="unpause"),
            row("GET", f"{one}/logs", self._plain, query=logs),
            row("POST", f"{one}/kill", self._kill, query={"signal": "|".join(_SIGNALS)}, logged="kill"),
            row("POST", f"{one}/stop", self._plain, query={"t": "[0-9]{1,6}"}, logged="stop"),
            row(
                "DELETE", one, self._remove, query={"v": flag, "force": flag, "link": "0|false|False"}, logged="remove"
            ),
        )

    async def _as_it_is(self, call: Call, _: re.Match[str]) -> Question:
        return Question(method=call.method, path=call.version + call.path)

    async def _info(self, call: Call, _: re.Match[str]) -> Answer:
        found = await self._engine.value(f"{call.version}/info")
        return Answer(status=200, value={name: found[name] for name in _INFO if name in found})

    async def _bridge(self, call: Call, _: re.Match[str]) -> Answer:
        """When the engine came up, which is all that the runner asks it for; not who is on it."""
        found = await self._engine.value(f"{call.version}/networks/bridge")
        return Answer(status=200, value={name: found[name] for name in _NETWORK if name in found})

    async def _image(self, call: Call, found: re.Match[str]) -> Answer:
        return Answer(status=200, value=await self._images.inspect(call.version, found["image"]))

    async def _sizes(self, call: Call, _: re.Match[str]) -> Answer:
        return Answer(status=200, value=await self._images.sizes(call.version))

    async def _delete_image(self, call: Call, found: re.Match[str]) -> Question:
        return self._images.deletion(call.version, found["image"])

    async def _list(self, call: Call, _: re.Match[str]) -> Question:
        wanted = parse(call.query.get("filters") or "{}", "filters")
        labels = wanted.get("label", []) if isinstance(wanted, dict) and set(wanted) <= {"label"} else None
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise Refusal("the filters", '{"label": ["name=value", ...]}')
        params = {"all": _flag(call.query.get("all", "0")), "filters": self._label_filter(labels)}
        return Question(method="GET", path=f"{call.version}/containers/json", params=params)

    async def _create(self, call: Call, _: re.Match[str]) -> Answer:
        name = call.query.get("name", "")
        if not _NAME.fullmatch(name):
            raise Refusal(f"the container's name {name[:60]!r}", "ratchet-NAME- and eight hexadecimal digits")
        wanted = create.read(call.body, self._policy)
        image = await self._images.inspect(call.version, wanted.image)
        rebuilt = create.body(wanted, image["Id"], self._policy)
        facts = {
            "name": name,
            "client": call.client,
            "image": wanted.image,
            "image_id": image["Id"],
            "user": wanted.user,
            "network": wanted.host_config.network_mode,
            "memory": wanted.host_config.memory,
            "labels": dict(wanted.labels),
        }
        async with self._creating:
            await self._check_room(call.version)
            with logged("create", **facts) as further:
                answer = await self._ask(
                    Question(
                        method="POST",
                        path=f"{call.version}/containers/create",
                        params={"name": name},
                        content=json.dumps(rebuilt).encode(),
                        content_type=JSON,
                    )
                )
                further["container"] = answer.value["Id"]
        return answer

    async def _put_archive(self, call: Call, found: re.Match[str]) -> Answer:
        if call.query.get("path") != create.RUN_FOLDER:
            raise Refusal("an archive without its place", f"path={create.RUN_FOLDER}")
        content = archive.rewritten(call.body)
        container = await self._ours(call, found)
        async with self._lock(container):
            if not archive.renews_keys(content):
                await self._check_fresh(call, container, "an archive for")
            return await self._ask(
                Question(
                    method="PUT",
                    path=f"{call.version}/containers/{container}/archive",
                    params={"path": create.RUN_FOLDER},
                    content=content,
                    content_type=TAR,
                )
            )

    async def _start(self, call: Call, found: re.Match[str]) -> Answer:
        container = await self._ours(call, found)
        async with self._lock(container):
            await self._check_fresh(call, container, "a second start of")
            return await self._ask(Question(method="POST", path=f"{call.version}/containers/{container}/start"))

    async def _plain(self, call: Call, found: re.Match[str]) -> Question:
        """For operations whose query the table has checked word for word."""
        container = await self._ours(call, found)
        what = call.path.rpartition("/")[2]
        params = {
            name: _flag(value) if _FLAG.fullmatch(value) and name != "t" else value
            for name, value in call.query.items()
        }
        return Question(method=call.method, path=f"{call.version}/containers/{container}/{what}", params=params)

    async def _kill(self, call: Call, found: re.Match[str]) -> Question:
        container = await self._ours(call, found)
        signal = _SIGNALS[call.query.get("signal", "KILL")]
        return Question(method="POST", path=f"{call.version}/containers/{container}/kill", params={"signal": signal})

    async def _remove(self, call: Call, found: re.Match[str]) -> Question:
        container = await self._ours(call, found)
        params = {name: _flag(call.query.get(name, "0")) for name in ("v", "force")}
        return Question(method="DELETE", path=f"{call.version}/containers/{container}", params=params)

    async def _ours(self, call: Call, found: re.Match[str]) -> str:
        """The full id of the container that a path names. Raises Refusal unless this installation has made it.

        An id is never given twice and labels never change, so what holds of the id now holds when it is used.
        """
        return str((await self._inspect(call, found["container"]))["Id"])

    async def _inspect(self, call: Call, container: str) -> Mapping[str, Any]:
        inspected: Mapping[str, Any] = await self._engine.value(f"{call.version}/containers/{container}/json")
        labels = inspected["Config"]["Labels"] or {}
        if not self._own_labels.items() <= labels.items():
            raise Refusal(f"container {container[:80]}", f"containers of the installation {self._policy.installation}")
        return inspected

    async def _check_fresh(self, call: Call, container: str, what: str) -> None:
        state = (await self._inspect(call, container))["State"]
        if state["Status"] != "created" or state["StartedAt"] != _NEVER_STARTED:
            raise Refusal(f"{what} a container that has started", "one that was created and not started")

    async def _check_room(self, version: str) -> None:
        params = {"all": "1", "filters": self._label_filter([])}
        there = len(await self._engine.value(f"{version}/containers/json", params))
        if there >= self._policy.max_containers:
            raise EngineSaid(
                507,  # not a status that means that the engine is down, but one that is retried
                f"engine filter: {self._policy.installation} has {there} containers, as many as it may have at once",
            )

    @property
    def _own_labels(self) -> Mapping[str, str]:
        """What each container of this installation carries."""
        return {**MARK, Label.INSTALLATION: self._policy.installation}

    def _label_filter(self, labels: list[str]) -> str:
        ours = [f"{name}={value}" for name, value in self._own_labels.items()]
        return json.dumps({"label": [*labels, *ours]})

    def _lock(self, container: str) -> asyncio.Lock:
        """No start may come between the check that a container has not started and the archive that is put into it."""
        return self._locks.setdefault(container, asyncio.Lock())

    async def _ask(self, question: Question) -> Answer:
        response = await self._engine.whole(question)
        if response.status_code >= _ERROR:
            raise EngineSaid(response.status_code, said(response.content))
        return Answer(status=response.status_code, value=response.json() if response.content else None)


def _flag(value: str) -> str:
    return "1" if value in _ON else "0"
