"""What people changed of production by hand, wherever they did: found in the ledgers, and reported once."""

from datetime import UTC, datetime, timedelta

from ratchet.contracts import paths
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.masking import masked_logger
from ratchet.store.base import Store
from ratchet.store.ledger import records
from ratchet_airflow import folders
from ratchet_airflow.alerts.by_hand import report, root

_RECENT = timedelta(days=7)
"""Older changes are no news, as where a store was copied."""
_log = masked_logger("ratchet.alerts")
_read: dict[str, int] = {}
"""How many documents each ledger had when it was read last, so that one without news costs a list of names."""


def scan_ledgers(store: Store, now: datetime | None = None) -> int:
    """Report the records by hand of every pipeline's model that were not reported before. The number of alerts."""
    since = (now or datetime.now(UTC)) - _RECENT
    return sum(_scan(store, found, since) for found in folders.read(root())[0])


def _scan(store: Store, found: folders.PipelineFolder, since: datetime) -> int:
    model = found.spec.model_name
    key = f"{store.uri} {model}"
    try:
        there = sum(1 for _ in store.list(paths.ledger(model)))
        if there == _read.get(key, 0):
            return 0
        ours = [one for one in records(store, model) if one.by_hand and one.pipeline == found.spec.name]
        sent = sum(report(record, found.spec.alerts) for record in ours if record.recorded >= since)
    except (RatchetError, OSError):  # a fault of one ledger must not hide the others
        _log.exception("cannot look for changes of production of %s by hand", model)
        return 0
    _read[key] = there
    return sent
