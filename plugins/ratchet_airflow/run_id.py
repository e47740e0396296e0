"""The spelling of Airflow's run ids in the store."""

import hashlib
import re

_LONGEST = 150


def store_run_id(run_id: str) -> str:
    """`manual__2026-11-21T02:00:00+00:00` -> `manual__2026-11-21T02-00-00+00-00-<8 hex digits>`.

    An id that can be part of a path stays the same; others get a digest, so that two ids never become one.
    """
    plain = re.sub(r"[^A-Za-z0-9._=+-]|\.(?=\.)", "-", run_id)[:_LONGEST].strip("._=+-") or "run"
    if plain == run_id:
        return run_id
    return f"{plain}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"
