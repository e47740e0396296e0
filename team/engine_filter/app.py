"""The filter as an ASGI application: one request in, looked into, and the engine's answer back as it comes."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing
from typing import Any

import httpx

from team.engine_filter.call import ClientGone, Receive, Scope, Send, client_of, read, shown
from team.engine_filter.engine_client import JSON, EngineClient, Question
from team.engine_filter.log import log_event
from team.engine_filter.operations import Answer, Operations
from team.engine_filter.policy import Policy
from team.engine_filter.refusal import EngineAway, EngineSaid, Refusal

_PASSED_HEADERS = ("content-type", "content-length", "api-version", "docker-experimental", "ostype")
_PIECES = 64
"""Of at most 64 KiB each, that may wait to be sent."""
_END = b""


class Filter:
    """Nothing is kept of a stream: each piece goes on before the next one is read, as fast as the client reads."""

    def __init__(self, policy: Policy, engine: EngineClient) -> None:
        self._engine = engine
        self._operations = Operations(policy, engine)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request. A client that goes away ends what was asked of the engine for it."""
        if scope["type"] != "http":
            return
        try:
            call = await read(scope, receive)
        except ClientGone:
            return
        except Refusal as refused:
            await self._refuse(scope, send, refused, keep=False)
            return
        await _while_there(self._serve(scope, send, call), receive)

    async def _serve(self, scope: Scope, send: Send, call: Any) -> None:
        try:
            handled = await self._operations.handle(call)
            if isinstance(handled, Question):
                await self._pass_on(handled, send)
            else:
                await _send_document(send, handled)
        except Refusal as refused:
            await self._refuse(scope, send, refused)
        except (EngineSaid, EngineAway) as error:
            await _send_document(send, Answer(status=error.status, value={"message": str(error)}))

    async def _refuse(self, scope: Scope, send: Send, refused: Refusal, *, keep: bool = True) -> None:
        log_event("refused", request=shown(scope), client=client_of(scope), what=refused.what, allowed=refused.allowed)
        await _send_document(send, Answer(status=refused.status, value={"message": str(refused)}), keep=keep)

    async def _pass_on(self, question: Question, send: Send) -> None:
        async with self._engine.answer(question) as response:
            headers = [
                (name.encode(), response.headers[name].encode()) for name in _PASSED_HEADERS if name in response.headers
            ]
            await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
            try:
                async with aclosing(_gather(response.aiter_raw())) as pieces:
                    async for piece in pieces:
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
            except httpx.TransportError as error:
                # No proper end is sent, so that the client sees that the stream broke, as it did.
                log_event(
                    "stream broke",
                    request=f"{question.method} {question.path}",
                    reason=str(error) or type(error).__name__,
                )
                return
            await send({"type": "http.response.body", "body": b""})


async def _gather(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The same bytes; pieces that come while another is sent are joined. The engine makes a piece of each line.

    What waits is bounded: the engine is read no further until it is sent.
    """
    queue: asyncio.Queue[bytes] = asyncio.Queue(_PIECES)

    async def fill() -> None:
        try:
            async for piece in pieces:
                await queue.put(piece)
        except httpx.TransportError:
            await queue.put(_END)
            raise
        await queue.put(_END)

    filling = asyncio.ensure_future(fill())
    try:
        ended = False
        while not ended:
            there = [await queue.get()]
            while not queue.empty():
                there.append(queue.get_nowait())
            ended = there[-1] == _END
            if joined := b"".join(there):
                yield joined
        await filling
    finally:
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)


async def _while_there(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Do the work until it is done or the client is gone, whichever is first."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_document(send: Send, answer: Answer, *, keep: bool = True) -> None:
    body = b"" if answer.value is None else json.dumps(answer.value).encode() + b"\n"
    headers = [(b"content-type", JSON.encode())] if body else []
    if answer.status not in {204, 304}:
        headers.append((b"content-length", str(len(body)).encode()))
    if not keep:  # what follows on this connection cannot be trusted to be a request
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
