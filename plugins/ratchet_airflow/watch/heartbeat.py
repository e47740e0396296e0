"""A heartbeat to an address outside, so that silence alarms: where all here is dead, nothing here can say so.

A change here violates the promise of the project when a beat goes out while no night can run, no alert can be sent, or
the watch cannot see what it is there for; or when the address is in a log.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import requests

from ratchet.contracts.environment import environment
from ratchet.contracts.masking import masked_logger
from ratchet.outbox.outbox import Outbox

EVERY_S = 60.0
"""Seconds between two scans of the watch where it has a heartbeat to send."""
_TIMEOUT_S = 5.0
_OVERDUE = timedelta(minutes=30)
"""An alert that has waited for so long is one that nobody gets."""
_log = masked_logger("ratchet.alerts")


def overdue(outbox: Outbox, now: datetime) -> list[str]:
    """The titles of the alerts that should have been sent long ago, without those that wait for a summary."""
    return [letter.title for letter, _ in outbox.waiting() if not letter.held and now - letter.made > _OVERDUE]


def beat(outbox: Outbox, now: datetime, *, away: Sequence[str] = (), faults: Sequence[str] = ()) -> bool:
    """Ask for the address, if one is set and all is well. Whether it answered.

    away: parts of Airflow that have no heartbeat, in words. faults: what the watch could not look at, in words.
    """
    address = environment().heartbeat_url
    if address is None:
        return False
    waits = overdue(outbox, now)
    why = [
        *([f"{len(waits)} alerts cannot be sent, such as {waits[0]}"] if waits else []),
        *away,
        *([f"what the watch could not do: {len(faults)}, such as: {faults[0]}"] if faults else []),
    ]
    if why:
        _log.warning("no heartbeat is sent: %s", "; ".join(why))
        return False
    try:
        requests.get(address, timeout=_TIMEOUT_S).raise_for_status()
    except requests.RequestException as error:  # its text has the address
        _log.warning("the heartbeat did not reach its address: %s", type(error).__name__)
        return False
    return True
