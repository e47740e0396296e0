"""Nights that `ratchet run` made, of which no callback of Airflow reports a champion that cannot be measured."""

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.masking import masked_logger
from ratchet.contracts.summaries import judgement, registration
from ratchet.runs.history import days_of, is_local, runs_of
from ratchet.runs.outcomes import outcome_of_stage
from ratchet.store.base import Store
from ratchet_airflow import folders
from ratchet_airflow.alerts import unmeasured
from ratchet_airflow.alerts.by_hand import root
from ratchet_airflow.alerts.situation import Situation

_log = masked_logger("ratchet.alerts")
_read: dict[str, str] = {}
"""The newest run of each pipeline that was looked at last, so that one without news costs two lists of names."""


def scan_local_nights(store: Store) -> int:
    """Report the newest night of every pipeline, if `ratchet run` made it and it asks for a person. How many."""
    return sum(_scan(store, found) for found in folders.read(root())[0])


def _scan(store: Store, found: folders.PipelineFolder) -> bool:
    pipeline = found.spec.name
    key = f"{store.uri} {pipeline}"
    try:
        days = days_of(store, pipeline)
        runs = runs_of(store, pipeline, days[-1]) if days else []
        if not runs or _read.get(key) == runs[-1]:
            return False
        ended = outcome_of_stage(store, pipeline, runs[-1], "evaluate")
        if ended is None or ended.result is None:
            return False  # it may still run
        sent, judged = False, judgement(ended.result)
        registered = outcome_of_stage(store, pipeline, runs[-1], "register") if judged.offered else None
        if judged.offered and registered is None:
            return False  # the same
        if is_local(store, pipeline, runs[-1]):
            where = Situation(pipeline=pipeline, run_id=runs[-1], stage="evaluate", date=f"{days[-1]}")
            made = registration(registered.result) if registered and registered.result else None
            sent = made is not None and unmeasured.report_offer(made, where, found.spec.alerts)
            sent = sent or unmeasured.report(judged, where, found.spec.alerts)
    except (RatchetError, OSError, ValueError):  # a fault of one pipeline must not hide the others
        _log.exception("cannot look at the newest night of %s", pipeline)
        return False
    _read[key] = runs[-1]
    return sent
