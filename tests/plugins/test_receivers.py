"""Airflow's server tells the watch, and nobody else, the addresses in the connections of receivers."""

from base64 import b64encode

import pytest

from ratchet_airflow import receivers
from ratchet_airflow.alerts import delivery


def login(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


def test_only_who_knows_the_password_of_the_watch_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not receivers.may_ask(login("ratchet-watch:a"))  # no watch is set up
    monkeypatch.setenv("RATCHET_AIRFLOW_API", "http://ratchet-watch:a%2Fb@localhost:8080")
    assert receivers.may_ask(login("ratchet-watch:a/b"))
    for wrong in ("", login(""), login("ratchet-watch:a"), login("admin:a/b"), "Bearer a/b", "Basic é"):
        assert not receivers.may_ask(wrong)
    monkeypatch.setenv("RATCHET_AIRFLOW_API", "http://ratchet-watch@localhost:8080")
    assert not receivers.may_ask(login("ratchet-watch:"))


def test_only_connections_of_receivers_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(delivery, "_asks", [asked.append])
    for name in ("ml-ops", "../secret", "a b", ""):
        assert receivers.addresses(name) is None
    assert asked == ["ml-ops"]
