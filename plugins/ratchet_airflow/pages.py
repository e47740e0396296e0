"""The pages that stages made, shown by Airflow's server to whoever may see the pipeline's DAG.

Every Airflow process imports its plugins, tasks too. So the app is made when it is first asked for something.
"""

from functools import cache
from typing import Any

PREFIX = "/ratchet"
_INERT = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A page holds text from data and from people. Nothing in it may run, or act as the person who looks at it."""


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The ASGI app."""
    await _made()(scope, receive, send)


@cache
def _made() -> Any:
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import HTMLResponse

    made = FastAPI(title="Ratchet", openapi_url=None)

    @made.get("/pages/{dag_id}/{stage}/{fingerprint}", dependencies=[Depends(requires_access_dag("GET"))])
    def show(dag_id: str, stage: str, fingerprint: str) -> HTMLResponse:
        try:
            content = _page(dag_id, stage, fingerprint)
        except LookupError as error:
            raise HTTPException(404, str(error)) from None
        return HTMLResponse(content, headers={"Content-Security-Policy": _INERT, "X-Content-Type-Options": "nosniff"})

    @made.get("/nights/{dag_id}", dependencies=[Depends(requires_access_dag("GET"))])
    def nights(dag_id: str) -> HTMLResponse:
        return HTMLResponse(_nights(dag_id), headers={"Content-Security-Policy": _INERT})

    return made


def _nights(pipeline: str) -> str:
    """The nights of a pipeline, newest first."""
    from ratchet.runs.history import days_of, newest
    from ratchet.runs.history_page import page
    from ratchet.store.opening import open_store
    from ratchet_airflow import settings

    store = open_store(settings.read().store)
    lines = (newest(store, pipeline, day) for day in reversed(days_of(store, pipeline)))
    return page(pipeline, [line for line in lines if line is not None])


def _page(pipeline: str, stage: str, fingerprint: str) -> bytes:
    """The page that a stage published. Raises LookupError if there is none."""
    from ratchet.contracts import paths
    from ratchet.contracts.errors import ConfigurationError, RatchetError
    from ratchet.store.opening import open_store
    from ratchet.store.publishing import published
    from ratchet_airflow import settings

    store = open_store(settings.read().store)
    try:
        found = published(store, paths.published(pipeline, stage, fingerprint))
        page = found.result.outputs.get("page.html") if found else None
        return store.read(page.key) if page else _none()
    except ConfigurationError as error:
        raise LookupError("no such page") from error
    except (FileNotFoundError, RatchetError) as error:
        raise LookupError(f"the page cannot be read: {error}") from error


def _none() -> bytes:
    raise LookupError("no such page")
