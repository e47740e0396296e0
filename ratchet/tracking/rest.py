"""The public REST API of an MLflow server (MLflow documentation, "REST API", version 2.0), without MLflow's own client.

That client takes almost four seconds to import, and 190 MB. This one asks with the login that MLflow's own client would
use: of the address, of the environment, or of a file.
"""

import configparser
import os
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import requests

from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError, NoAnswer

_API = "api/2.0/mlflow"
_TIMEOUT_S = (5, 15)
"""To connect, and between two bytes of an answer."""
_NOT_THERE = frozenset({"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"})
_LOGIN = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")


class RestClient:
    """Asks an MLflow server. address: without a login, for messages."""

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        plain = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        self.address = urlunsplit(plain).rstrip("/")
        self._session = requests.Session()
        token = os.environ.get("MLFLOW_TRACKING_TOKEN")
        login = _login(parts.username, parts.password)
        if login:
            self._session.auth = login
        elif token:
            self._session.headers["Authorization"] = f"Bearer {token}"
        if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in {"true", "1"}:
            self._session.verify = False
        elif certificate := os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH"):
            self._session.verify = certificate

    def ask(self, method: str, path: str, given: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None for what is not there."""
        url = f"{self.address}/{_API}/{path.removeprefix('/')}"
        how: dict[str, Any] = {"params": given} if method == "GET" else {"json": given}
        remedy = "check that MLflow runs at this address and can be reached from here; run again if no retry follows"
        try:
            answer = self._session.request(method, url, timeout=_TIMEOUT_S, **how)
        except requests.RequestException as error:
            cause = type(error).__name__
            raise NoAnswer(f"MLflow at {self.address} does not answer: {cause}", remedy=remedy) from None
        if answer.ok:
            return _document(answer, self.address, remedy)
        if answer.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise refused_login(self.address, answer.status_code)
        if answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR and _code(answer) in _NOT_THERE:
            return None
        raise NoAnswer(f"MLflow at {self.address} answers {answer.status_code} to {path}", remedy=remedy)


def refused_login(address: str, status: int) -> ConfigurationError:
    """The error where a server takes no login, or not for this. status: of the answer."""
    return ConfigurationError(
        f"MLflow at {address} refuses the login ({status})",
        remedy=f"set {' and '.join(_LOGIN)}, or {variable('mlflow_credentials')}",
    )


def _document(answer: requests.Response, address: str, remedy: str) -> dict[str, Any]:
    try:
        return dict(answer.json())
    except ValueError:
        raise NoAnswer(f"MLflow at {address} answers with something that is no JSON", remedy=remedy) from None


def _code(answer: requests.Response) -> str:
    try:
        return str(answer.json().get("error_code", ""))
    except (ValueError, AttributeError):
        return ""


def _login(name: str | None, password: str | None) -> tuple[str, str] | None:
    """The login of the address, of the environment, of the installation's file, or of MLflow's own file."""
    if name:
        return unquote(name), unquote(password or "")
    given = tuple(os.environ.get(name, "") for name in _LOGIN)
    if all(given):
        return given[0], given[1]
    for place in (environment().mlflow_credentials, Path.home() / ".mlflow" / "credentials"):
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read_string(place.read_text(encoding="utf-8") if place else "")
            return parser.get("mlflow", _LOGIN[0].lower()), parser.get("mlflow", _LOGIN[1].lower())
        except (OSError, UnicodeDecodeError, configparser.Error):
            continue
    return None
