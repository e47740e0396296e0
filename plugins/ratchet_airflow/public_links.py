"""Addresses that open outside: at the public address of Airflow, with its base path."""

from urllib.parse import urlsplit

from ratchet.contracts.environment import environment

_DEFAULT = "http://localhost:8080"


def airflow_url() -> str:
    """Where people open Airflow: RATCHET_PUBLIC_AIRFLOW_URL, or Airflow's [api] base_url."""
    return environment().public_airflow_url or _base_url()


def base_path() -> str:
    """The path below which Airflow is served, such as `/base`; empty at the root of its host."""
    return urlsplit(airflow_url()).path.rstrip("/")


def public(link: str) -> str:
    """A link that Airflow made, at its public address."""
    base = _base_url()
    return f"{airflow_url()}{link[len(base) :]}" if link.startswith(base) else link


def _base_url() -> str:
    from airflow.configuration import conf

    return str(conf.get("api", "base_url", fallback=_DEFAULT)).rstrip("/") or _DEFAULT
