"""What Airflow's server gives the watch, which has no database: the addresses in a receiver's connection.

Airflow's own API shows no password of a connection. A request has to know RATCHET_AIRFLOW_API, which the server, the
watch and the reapers have.
"""

import hmac
import re
from base64 import b64encode
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ratchet.contracts.environment import environment
from ratchet_airflow.alerts import delivery

if TYPE_CHECKING:
    from fastapi import FastAPI

NO_CONNECTION = "no such connection"
"""The words of its answer 404. That of a proxy, or of a server that has not loaded this plugin, has others."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


def add_route(api: "FastAPI") -> None:
    """The path /receivers/NAME of an app of FastAPI's."""
    from fastapi import HTTPException, Request
    from fastapi.responses import JSONResponse

    @api.get("/receivers/{name}")
    def receiver(name: str, request: Request) -> JSONResponse:
        if not may_ask(request.headers.get("authorization", "")):
            raise HTTPException(401, "not the watch of this installation")
        found = addresses(name)
        if found is None:
            raise HTTPException(404, NO_CONNECTION)
        return JSONResponse({"addresses": found}, headers={"Cache-Control": "no-store"})


def may_ask(authorization: str) -> bool:
    """Whether a header `Authorization` has the user and the password of RATCHET_AIRFLOW_API."""
    address = environment().airflow_api
    if address is None:
        return False
    parts = urlsplit(address)
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    wanted = f"Basic {b64encode(login.encode()).decode()}"
    return bool(parts.password) and hmac.compare_digest(wanted.encode(), authorization.encode())


def addresses(name: str) -> str | None:
    """The addresses of a receiver; None if there is no connection of it."""
    return delivery.connection(name) if _NAME.fullmatch(name) else None
