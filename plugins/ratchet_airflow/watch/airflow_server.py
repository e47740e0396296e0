"""Airflow's server as the watch and the reaper ask it: its public REST API, as the user of RATCHET_AIRFLOW_API."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import requests

from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.masking import masked_logger
from ratchet_airflow.pages import PREFIX
from ratchet_airflow.receivers import NO_CONNECTION
from ratchet_airflow.run_id import has_name

_ANSWER_S = 30.0
"""Seconds for an answer."""
_PAGE = 100
"""The most rows that Airflow gives at once, unless its [api] maximum_page_limit is less."""
_START = "start it, or read its log"
_log = masked_logger("ratchet.alerts")
Row = dict[str, Any]


class ServerAway(Unavailable):
    """No answer at all: no task of Airflow can start either."""


class NotFound(Unavailable):
    """An answer 404. detail: its words as Airflow gives them; empty where they are not given so."""

    detail = ""


@contextmanager
def as_expected() -> Iterator[None]:
    """Raise Unavailable for an answer of another form, as of a proxy or another release of Airflow."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Unavailable(
            f"Airflow's server gives an answer that is not as expected ({type(error).__name__}: {error})",
            remedy="check that the address is that of Airflow 3.3 or later, and not of a page before it",
        ) from error


def named_server(who: str) -> "AirflowServer":
    """The server that RATCHET_AIRFLOW_API names, for a process that is no part of Airflow. who: its name in errors.

    Raises ConfigurationError, also if the process does not know the name of this installation.
    """
    address = environment().airflow_api
    if address is None:
        raise ConfigurationError(
            f"{variable('airflow_api')} is not set",
            remedy="set it to the address of Airflow's server, with a user who may read, and the password",
        )
    if not has_name():
        raise ConfigurationError(
            f"{variable('installation')} is not set, and no [api_auth] jwt_secret is here: the {who} would not "
            "find the runs of its Airflow",
            remedy="set it to what this prints where the scheduler runs: python -c "
            "'from ratchet_airflow.run_id import installation; print(installation())'",
        )
    return AirflowServer(address)


class AirflowServer:
    """A client, logged in at its first request. address: the server's, with the user and the password."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")
        host = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy, and no other password from a file
        self._token = ""
        self._addresses: dict[str, str] = {}
        self._silent_until = 0.0

    def get(self, path: str, **query: Any) -> Row:
        """What a path below /api/v2 answers. Raises Unavailable while the server is away."""
        found: Row = self._ask("GET", path, params={name: _plain(value) for name, value in query.items()})
        return found

    def pages(self, path: str, name: str, **query: Any) -> Iterator[Row]:
        """Every row of a list, read in pages."""
        yield from self._pages(name, lambda offset: self.get(path, **query, limit=_PAGE, offset=offset))

    def find(self, path: str, name: str, **body: Any) -> Iterator[Row]:
        """The same of a list that is asked for by POST, since names of many DAGs are too long for an address."""
        asked = {key: _plain(value) for key, value in body.items()}

        def page(offset: int) -> Row:
            found: Row = self._ask("POST", path, json={**asked, "page_limit": _PAGE, "page_offset": offset})
            return found

        yield from self._pages(name, page)

    def receiver(self, name: str) -> str | None:
        """The addresses in Airflow's connection of a receiver; None if it has none.

        While the server is away: the last known. Raises Unavailable if none are: only the server can say what there is.
        """
        try:
            found = self._connection(name)
        except Unavailable:
            if name not in self._addresses:
                raise
            return self._addresses[name]
        if found is None:
            self._addresses.pop(name, None)
        else:
            self._addresses[name] = found
        return found

    def _connection(self, name: str) -> str | None:
        """What Ratchet's page of the server answers. One that was silent a moment ago is not asked again so soon."""
        if time.monotonic() < self._silent_until:
            raise ServerAway(f"Airflow's server did not answer at {self.url} a moment ago", remedy=_START)
        place = f"{self.url}{PREFIX}/receivers/{quote(name, safe='')}"
        try:
            answer = self._session.get(place, auth=(self._user, self._password), timeout=_ANSWER_S)
        except requests.RequestException as error:
            self._silent_until = time.monotonic() + _ANSWER_S
            raise self._away(error) from error
        said: Any = None
        with suppress(ValueError):
            said = answer.json()
        known = said if isinstance(said, dict) else {}
        if answer.ok and "addresses" in known:
            return str(known["addresses"])
        if answer.status_code == HTTPStatus.NOT_FOUND and known.get("detail") == NO_CONNECTION:
            self._check_database()
            return None
        if answer.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            same = f"set {variable('airflow_api')} to the same value there"
            _log.warning("Airflow's server does not give the address of %s (%d): %s", name, answer.status_code, same)
            return self._addresses.get(name)
        raise Unavailable(
            f"Airflow's server gives no address of {name} ({answer.status_code}): what answers is not Ratchet's plugin",
            remedy="read the log of its server",
        )

    def _check_database(self) -> None:
        """Raises Unavailable while the server does not reach its database: then it finds no connection at all."""
        try:
            with as_expected():
                is_well = self.get("/monitor/health")["metadatabase"]["status"] == "healthy"
        except ConfigurationError as error:
            raise Unavailable(f"whether Airflow's server reaches its database is not known: {error}") from error
        if not is_well:
            raise Unavailable("Airflow's server does not reach its database, which has the connections", remedy=_START)

    def _away(self, error: requests.RequestException) -> ServerAway:
        return ServerAway(f"Airflow's server does not answer at {self.url}: {type(error).__name__}", remedy=_START)

    def _pages(self, name: str, page: Any) -> Iterator[Row]:
        offset, total = 0, 1
        while offset < total:
            found = page(offset)
            yield from found[name]
            if not found[name]:
                return  # what it counted has changed meanwhile
            offset, total = offset + len(found[name]), found["total_entries"]

    def _ask(self, method: str, path: str, **given: Any) -> Any:
        for fresh in (False, True):
            if fresh or not self._token:
                self._log_in()
            head = {"Authorization": f"Bearer {self._token}"}
            answer = self._send(method, f"/api/v2{path}", headers=head, **given)
            if answer.status_code != HTTPStatus.UNAUTHORIZED:  # else the token has expired
                break
        if answer.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise ConfigurationError(
                f"Airflow does not let {self._user} read {path} ({answer.status_code})",
                remedy="give the user a role that may read DAGs, runs, task instances and audit logs, such as Viewer",
            )
        return _read(answer, f"{method} {path}")

    @as_expected()
    def _log_in(self) -> None:
        answer = self._send("POST", "/auth/token", json={"username": self._user, "password": self._password})
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            raise ConfigurationError(
                f"Airflow does not know {self._user}, or the password is another one",
                remedy=f"create the user, and correct {variable('airflow_api')}",
            )
        self._token = _read(answer, "POST /auth/token")["access_token"]

    def _send(self, method: str, path: str, **given: Any) -> requests.Response:
        try:
            answer = self._session.request(method, f"{self.url}{path}", timeout=_ANSWER_S, **given)
        except requests.RequestException as error:
            raise self._away(error) from error
        self._silent_until = 0.0
        return answer


def _read(answer: requests.Response, asked: str) -> Any:
    said: Any = None
    with suppress(ValueError):
        said = answer.json()
        if answer.ok:
            return said
    is_missing = answer.status_code == HTTPStatus.NOT_FOUND
    error = (NotFound if is_missing else Unavailable)(
        f"Airflow answers {answer.status_code} to {asked}: {answer.text[:200]}", remedy="read the log of its server"
    )
    if isinstance(error, NotFound) and isinstance(said, dict):
        error.detail = str(said.get("detail", ""))
    raise error


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
