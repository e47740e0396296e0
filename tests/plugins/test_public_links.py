"""Links open at the address at which people open Airflow, with its base path."""

import pytest

from ratchet_airflow.public_links import airflow_url, base_path, public

INSIDE = "http://localhost:8080"


def test_links_are_airflows_own_unless_a_public_address_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"{INSIDE}/")
    assert (airflow_url(), base_path(), public(f"{INSIDE}/dags/p")) == (INSIDE, "", f"{INSIDE}/dags/p")
    monkeypatch.setenv("RATCHET_PUBLIC_AIRFLOW_URL", "https://airflow.example.org/base/")
    assert public(f"{INSIDE}/dags/p") == "https://airflow.example.org/base/dags/p"
    assert base_path() == "/base"
    assert public("") == ""
    assert public("https://elsewhere/x") == "https://elsewhere/x"
