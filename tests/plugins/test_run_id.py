"""A run of Airflow has one id in the store, which no run of another Airflow has."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet_airflow.run_id import bare_run_id, is_foreign, store_run_id

SCHEDULED = "scheduled__2026-11-21T02:00:00+00:00"
ASK = "from ratchet_airflow.run_id import store_run_id; print(store_run_id('night'))"


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_run_id_becomes_part_of_a_path_and_two_never_become_one(one: str, other: str) -> None:
    first, second = store_run_id(one, "here"), store_run_id(other, "here")
    assert paths.segment(first) == first
    assert (first == second) == (one == other)


def test_a_plain_run_id_stays_as_it_is_before_the_name_of_the_installation() -> None:
    assert store_run_id("manual__2026-11-21", "here") == "manual__2026-11-21.here"


def test_two_installations_spell_the_same_run_in_two_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_INSTALLATION", "production")
    production = store_run_id(SCHEDULED)
    assert production == f"{bare_run_id(SCHEDULED)}.production"
    assert not is_foreign(production)
    monkeypatch.setenv("RATCHET_INSTALLATION", "staging")
    assert store_run_id(SCHEDULED) != production
    assert is_foreign(production)


@pytest.mark.parametrize("stored", ["scheduled__2026-11-21T02-00-00-00-00-1a2b3c4d", bare_run_id(SCHEDULED)])
def test_a_run_of_an_earlier_release_is_no_foreign_one(stored: str) -> None:
    assert not is_foreign(stored)


def test_without_a_setting_each_process_with_one_secret_finds_one_name_that_does_not_tell_it() -> None:
    def asked(secret: str) -> str:
        environment = {**os.environ, "AIRFLOW__API_AUTH__JWT_SECRET": secret, "PYTHONWARNINGS": "ignore"}
        environment |= {"PYTHONPATH": os.pathsep.join(sys.path)}
        environment.pop("RATCHET_INSTALLATION", None)
        command = [sys.executable, "-c", ASK]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    first, again, other = asked("one secret"), asked("one secret"), asked("another")
    assert first == again != other
    assert "secret" not in first


def test_a_name_that_cannot_be_part_of_a_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_INSTALLATION", "../production")
    with pytest.raises(ConfigurationError, match="RATCHET_INSTALLATION=production"):
        store_run_id(SCHEDULED)
