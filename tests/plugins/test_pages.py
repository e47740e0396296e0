"""The pages on Airflow's server: a report's link to the checks of its run leads to a page there."""

from pathlib import Path
from urllib.parse import urljoin

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Match

from ratchet.contracts.errors import Unavailable
from ratchet.store.file import FileStore
from ratchet_airflow import pages

REPORT = "/ratchet/pages/shop/report/f1"
LINKED = b'<a href="../../../../../runs/shop/run-1/validate-validation.html">All checks of the data</a>'
LOGGED = b'<a href="../../../../../runs/shop/run-1/train.2.log">log</a>'


def parameters(address: str) -> dict[str, object]:
    """What the one route that takes an address of this server is called with."""
    assert address.startswith(pages.PREFIX)
    scope = {"type": "http", "method": "GET", "path": address.removeprefix(pages.PREFIX)}
    (given,) = [
        found["path_params"]
        for route in pages._app().routes
        for match, found in [route.matches(scope)]
        if match is Match.FULL
    ]
    return dict(given)


@pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")  # Airflow imports it
def test_the_link_of_a_report_leads_to_the_page_that_validate_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path / "store"))
    store = FileStore(tmp_path / "store")
    store.prepare()
    store.create("runs/shop/run-1/validate-validation.html", b"<p>every check</p>")
    address = urljoin(REPORT, pages._linked(LINKED).decode().split('"')[1])
    assert parameters(address) == {"dag_id": "shop", "run_id": "run-1", "stage": "validate", "name": "validation"}
    assert pages._kept("shop", "run-1", "validate", "validation.html") == b"<p>every check</p>"


@pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")  # Airflow imports it
def test_the_link_of_a_report_leads_to_the_log_of_the_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path / "store"))
    store = FileStore(tmp_path / "store")
    store.prepare()
    store.create("runs/shop/run-1/train.2.log", b"<b>Traceback</b>")
    address = urljoin(REPORT, pages._linked(LOGGED).decode().split('"')[1])
    assert parameters(address) == {"dag_id": "shop", "run_id": "run-1", "stage": "train", "number": "2"}
    assert pages._log("shop", "run-1", "train", 2) == b"<b>Traceback</b>"
    for run_id, number in (("run-1", 3), ("run-2", 2), ("..", 2)):
        with pytest.raises(LookupError):
            pages._log("shop", run_id, "train", number)


@pytest.mark.parametrize("run_id", ["run-2", "..", "a/b"])
def test_a_page_that_does_not_exist_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_id: str) -> None:
    monkeypatch.setenv("RATCHET_STORE", str(tmp_path / "store"))
    with pytest.raises(LookupError):
        pages._kept("shop", run_id, "validate", "validation.html")


@pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")  # Airflow imports it
@pytest.mark.parametrize(
    "path",
    ["nights/shop", "verdicts/shop/r", "pages/shop/report/f1", "runs/shop/r/train.2.log", "runs/shop/r/a-b.html"],
)
def test_a_page_that_cannot_be_shown_is_a_line_and_no_error_of_the_server(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    from starlette.testclient import TestClient

    def away(_: str) -> FileStore:
        raise Unavailable("bucket ratchet: does not answer", remedy="start it")

    monkeypatch.setenv("RATCHET_STORE", "s3://ratchet")
    monkeypatch.setenv("RATCHET_INSTALLATION", "shop")
    monkeypatch.setattr("ratchet.store.opening.open_store", away)
    api = pages._app()
    needs = [need for one in api.routes if isinstance(one, APIRoute) for need in one.dependant.dependencies]
    monkeypatch.setattr(api, "dependency_overrides", {one.call: lambda: None for one in needs})
    answer = TestClient(api).get(f"/{path}")
    said = "this page cannot be shown now: bucket ratchet: does not answer; to do: start it"
    assert (answer.status_code, answer.text) == (503, said)
