"""The filter as a process: a listening socket, a server, and an end within seconds of SIGTERM."""

import asyncio
import signal
import socket

import uvicorn

from ratchet.contracts.errors import Unavailable
from team.engine_filter.app import Filter
from team.engine_filter.engine_client import EngineClient
from team.engine_filter.log import log_event
from team.engine_filter.policy import Policy
from team.engine_filter.protocol import OneReading

_GRACE_S = 2
_IDLE_S = 3600
"""Seconds that a connection may lie idle: one that is closed just when it is used again is an error to its client."""
_CLIENTS = 1024
_SILENT_PEER_S = 60
"""Seconds after which a silent client's machine is asked whether it is still there."""


def serve(policy: Policy) -> None:
    """Serve until SIGTERM or SIGINT. Raises Unavailable if it cannot listen there."""
    listening = _listening(policy)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the server has its own, and hands what came to this one at its end
    try:
        asyncio.run(_serve(policy, listening))
    finally:
        listening.close()
    log_event("ended")


async def _serve(policy: Policy, listening: socket.socket) -> None:
    async with EngineClient(policy.socket) as engine:
        server = uvicorn.Server(
            uvicorn.Config(
                Filter(policy, engine),
                http=OneReading,
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_CLIENTS,
                timeout_keep_alive=_IDLE_S,
                timeout_graceful_shutdown=_GRACE_S,
            )
        )
        host, port = listening.getsockname()[:2]
        log_event("listening", address=f"{host}:{port}", **policy.model_dump(mode="json"))
        await server.serve(sockets=[listening])


def _listening(policy: Policy) -> socket.socket:
    try:
        listening = socket.create_server((policy.host, policy.port), backlog=256)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {policy.listen}: {error.strerror or error}",
            remedy="set ENGINE_FILTER_LISTEN to a free address",
        ) from error
    # Inherited by each connection. The event loop sets the first by itself only for sockets that it has made.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_PEER_S)
    return listening
