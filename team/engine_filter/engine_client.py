"""A client of the Docker engine behind its Unix socket. Its requests are made of checked words only."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx

from team.engine_filter.refusal import EngineAway, EngineSaid

_CONNECT_S = 10.0
_OK = 400
TAR, JSON = "application/x-tar", "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request to the engine. path: with the version."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    content_type: str | None = None


class EngineClient:
    """A connection for each question: none is left over that a restart of the engine could have broken.

    There is no limit to how long an answer takes: `wait` and `logs` take hours, and a client that has lost patience
    closes its connection, which ends the question.
    """

    def __init__(self, socket: str) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=socket, limits=limits),
            base_url="http://docker",
            timeout=httpx.Timeout(None, connect=_CONNECT_S),
            headers={"Accept-Encoding": "identity", "User-Agent": "ratchet-engine-filter"},
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def answer(self, question: Question) -> AsyncIterator[httpx.Response]:
        """The head of an answer, whose body is to be read in the block. Raises EngineAway if there is none."""
        headers = {"Content-Type": question.content_type} if question.content_type else {}
        request = self._client.build_request(
            question.method, question.path, params=dict(question.params), content=question.content, headers=headers
        )
        try:
            response = await self._client.send(request, stream=True)
        except httpx.ConnectError as error:
            raise EngineAway(str(error), 503) from error
        except httpx.TransportError as error:
            raise EngineAway(str(error) or type(error).__name__, 502) from error
        try:
            yield response
        finally:
            await response.aclose()

    async def whole(self, question: Question) -> httpx.Response:
        """An answer, error or not, with all of its body, which has to be small."""
        async with self.answer(question) as response:
            try:
                await response.aread()
            except httpx.TransportError as error:
                raise EngineAway(str(error) or type(error).__name__, 502) from error
            return response

    async def value(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """The JSON of a GET. Raises EngineSaid with the engine's own words if it is an error."""
        response = await self.whole(Question(method="GET", path=path, params=params or {}))
        if response.status_code >= _OK:
            raise EngineSaid(response.status_code, said(response.content))
        return json.loads(response.content)


def said(content: bytes) -> str:
    """The message in an error of the engine's."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:500].decode("utf-8", "replace")
