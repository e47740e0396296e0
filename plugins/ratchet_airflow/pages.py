"""The pages of stages on Airflow's server, for users who may read the pipeline's DAG, and what the watch asks for.

Every Airflow process, each task too, imports the plugins. So the app is built at its first request.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

PREFIX = "/ratchet"
_INERT = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A page holds text from data and from people. Nothing in it may run, or act in the name of its reader."""


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The ASGI app."""
    await _app()(scope, receive, send)


@cache
def _app() -> Any:
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import HTMLResponse, PlainTextResponse

    from ratchet.contracts.errors import RatchetError
    from ratchet_airflow import receivers

    api = FastAPI(title="Ratchet", openapi_url=None)
    api.add_exception_handler(RatchetError, _not_now)

    @api.get("/pages/{dag_id}/{stage}/{fingerprint}", dependencies=[Depends(requires_access_dag("GET"))])
    def show(dag_id: str, stage: str, fingerprint: str) -> HTMLResponse:
        try:
            content = _page(dag_id, stage, fingerprint)
        except LookupError as error:
            raise HTTPException(404, str(error)) from None
        return HTMLResponse(content, headers={"Content-Security-Policy": _INERT, "X-Content-Type-Options": "nosniff"})

    @api.get("/runs/{dag_id}/{run_id}/{stage}-{name}.html", dependencies=[Depends(requires_access_dag("GET"))])
    def kept(dag_id: str, run_id: str, stage: str, name: str) -> HTMLResponse:
        try:
            content = _kept(dag_id, run_id, stage, f"{name}.html")
        except LookupError as error:
            raise HTTPException(404, str(error)) from None
        return HTMLResponse(content, headers={"Content-Security-Policy": _INERT, "X-Content-Type-Options": "nosniff"})

    @api.get("/runs/{dag_id}/{run_id}/{stage}.{number}.log", dependencies=[Depends(requires_access_dag("GET"))])
    def log(dag_id: str, run_id: str, stage: str, number: int) -> PlainTextResponse:
        try:
            content = _log(dag_id, run_id, stage, number)
        except LookupError as error:
            raise HTTPException(404, str(error)) from None
        return PlainTextResponse(
            content, headers={"Content-Security-Policy": _INERT, "X-Content-Type-Options": "nosniff"}
        )

    @api.get("/verdicts/{dag_id}/{run_id}", dependencies=[Depends(requires_access_dag("GET"))])
    def verdict(dag_id: str, run_id: str) -> HTMLResponse:
        try:
            content = _verdict(dag_id, run_id)
        except LookupError as error:
            raise HTTPException(404, str(error)) from None
        return HTMLResponse(content, headers={"Content-Security-Policy": _INERT, "X-Content-Type-Options": "nosniff"})

    @api.get("/nights/{dag_id}", dependencies=[Depends(requires_access_dag("GET"))])
    def nights(dag_id: str) -> HTMLResponse:
        return HTMLResponse(_nights(dag_id), headers={"Content-Security-Policy": _INERT})

    receivers.add_route(api)
    return api


def _not_now(_: Any, error: Exception) -> Any:
    """The answer where a page cannot be shown, as while the store is away: one line."""
    from fastapi.responses import PlainTextResponse

    from ratchet.contracts.masking import mask

    return PlainTextResponse(mask(f"this page cannot be shown now: {error}"), 503)


def _nights(pipeline: str) -> str:
    """The table of a pipeline's nights, newest first. Reads a few documents, see docs/adr/063."""
    from ratchet.outbox.lost_letters import lost_letters
    from ratchet.runs.history_page import page
    from ratchet.runs.run_index import nights
    from ratchet.store.opening import open_store
    from ratchet_airflow import settings
    from ratchet_airflow.run_id import installation

    store = open_store(settings.read().store)
    lost = [
        f"{letter.made:%Y-%m-%d %H:%M} UTC, {letter.receiver}: {letter.title}"
        for letter in lost_letters(store, installation(), pipeline)
    ]
    return page(pipeline, nights(store, pipeline, follow=False)[::-1], undelivered=lost)


def _verdict(pipeline: str, run_id: str) -> str:
    """The verdict of a run, which is there before its report. Raises LookupError if there is none."""
    from ratchet.contracts.errors import RatchetError, Unavailable
    from ratchet.runs.verdict_page import verdict_page
    from ratchet.store.opening import open_store
    from ratchet_airflow import settings

    try:
        return verdict_page(open_store(settings.read().store), pipeline, run_id)
    except Unavailable:
        raise
    except RatchetError as error:
        raise LookupError(f"cannot read the verdict: {error.cause}") from error


def _page(pipeline: str, stage: str, fingerprint: str) -> bytes:
    """The page that a stage published. Raises LookupError if there is none."""
    from ratchet.contracts import paths
    from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable
    from ratchet.store.opening import open_store
    from ratchet.store.publishing import find_result
    from ratchet_airflow import settings

    store = open_store(settings.read().store)
    try:
        found = find_result(store, paths.published(pipeline, stage, fingerprint))
        page = found.result.outputs.get("page.html") if found else None
        return _linked(store.read(page.key)) if page else _no_page()
    except ConfigurationError as error:
        raise LookupError("no such page") from error
    except Unavailable:
        raise
    except (FileNotFoundError, RatchetError) as error:
        raise LookupError(f"cannot read the page: {error}") from error


def _kept(pipeline: str, run_id: str, stage: str, name: str) -> bytes:
    """A page that a stage kept with its run, also when it failed. Raises LookupError if there is none."""
    from ratchet.contracts import paths

    return _read(lambda: paths.kept(pipeline, run_id, stage, name))


def _log(pipeline: str, run_id: str, stage: str, number: int) -> bytes:
    """The log of one try of a stage. Raises LookupError if there is none."""
    from ratchet.contracts import paths

    return _read(lambda: paths.log(pipeline, run_id, stage, number))


def _read(key: Callable[[], str]) -> bytes:
    """A file of the store. Raises LookupError if there is none, or if its key is invalid."""
    from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable
    from ratchet.store.opening import open_store
    from ratchet_airflow import settings

    try:
        return open_store(settings.read().store).read(key())
    except ConfigurationError as error:
        raise LookupError("no such page") from error
    except Unavailable:
        raise
    except (FileNotFoundError, RatchetError) as error:
        raise LookupError(f"cannot read the page: {error}") from error


def _linked(page: bytes) -> bytes:
    """A published page with its links to the pages of its run, `runs/...` in the store, as addresses of this server."""
    return page.replace(b'href="../../../../../runs/', b'href="../../../runs/')


def _no_page() -> bytes:
    raise LookupError("no such page")
