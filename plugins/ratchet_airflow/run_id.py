"""The spelling of Airflow's run ids in the store. See docs/adr/027.

Run ids of Airflow are the same in every installation, as in `scheduled__2026-11-21T02:00:00+00:00`. In the store an id
ends with the installation, so that two of them on one store share no run.

A change here violates the promise of the project when two installations find each other's runs, or when two processes
of one installation spell the same run in two ways.
"""

import hashlib
import re

from ratchet.contracts.environment import environment
from ratchet.contracts.setting_values import installation_of

_LONGEST = 150
_DIGEST = 8


def store_run_id(run_id: str, name: str | None = None) -> str:
    """`manual__2026-11-21T02:00:00+00:00` -> `manual__2026-11-21T02-00-00+00-00-<8 hex digits>.<installation>`.

    name: of another installation, for a process that is no part of it.
    """
    return f"{bare_run_id(run_id)}.{name or installation()}"


def bare_run_id(run_id: str) -> str:
    """The id without the installation: the spelling of earlier releases.

    An id that can be part of a path stays the same; others get a digest, so that two ids never become one.
    """
    plain = re.sub(r"[^A-Za-z0-9._=+-]|\.(?=\.)", "-", run_id)[:_LONGEST].strip("._=+-") or "run"
    if plain == run_id:
        return run_id
    return f"{plain}-{hashlib.sha256(run_id.encode()).hexdigest()[:_DIGEST]}"


def is_foreign(stored: str) -> bool:
    """Whether the id of a run in the store ends with the name of another installation."""
    _, dot, name = stored.rpartition(".")
    return bool(dot) and re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None and name != installation()


def installation() -> str:
    """The name of this Airflow: RATCHET_INSTALLATION, or the beginning of a digest of the secret of its API.

    Every component of one Airflow has the setting or that secret, in its environment or its airflow.cfg, and no two
    Airflows share it.
    """
    given = environment().installation
    return given if given is not None else installation_of(_secret())


def has_name() -> bool:
    """Whether this process knows the name: elsewhere than in a component of Airflow it may have neither."""
    return environment().installation is not None or _secret() != ""


def _secret() -> str:
    from airflow.configuration import conf

    return str(conf.get("api_auth", "jwt_secret", fallback=""))
