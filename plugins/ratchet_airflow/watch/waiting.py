"""The outbox as the watch sees it: what waits is sent, and a store that stays away is reported once."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from ratchet.contracts import outbox_paths
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.masking import mask, masked_logger
from ratchet.outbox.causes import STORE
from ratchet.outbox.deadline import Deadline
from ratchet.outbox.incidents import summarise
from ratchet.outbox.letter import TAKEN, Letter
from ratchet.outbox.outbox import Clock, utc
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet_airflow import folders, settings
from ratchet_airflow.alerts.by_hand import root
from ratchet_airflow.alerts.deduplication import AlertHistory
from ratchet_airflow.alerts.delivery import known_addresses, outbox_of, post_message, send, spool
from ratchet_airflow.run_id import installation

_WATCH = "watch"
UNSEEN = "Meanwhile nobody hears of tasks that were killed, of late and stuck runs, and of the ends of backfills"
NO_STORE = "the store does not answer: no stage can run"
"""The title of that alert, which has a page in docs/on-call.md."""
_ANSWER_S = 30.0
"""Seconds for the store to answer; after that it counts as away."""
_log = masked_logger("ratchet.alerts")


def open_outbox(deadline: Deadline, now: Clock = utc) -> Store | None:
    """The store, once what this host has kept is in its outbox. None if it is away, which people hear of."""
    try:
        store = open_store(settings.read().store)
        Deadline(_ANSWER_S).call(lambda: next(iter(store.list(outbox_paths.letters(installation()))), None))
        deadline.call(lambda: spool().store_is_back(outbox_of(store, now)))
    except (RatchetError, OSError) as error:
        why = mask(str(error))
        _log.warning("the store is away: %s", why)
        _say_away(why, now)
        return None
    return store


def deliver(store: Store, deadline: Deadline, now: Clock = utc) -> int:
    """Sum up what many pipelines met, and send what is due, while there is time. How many letters were sent.

    deadline: its seconds are for sending alone. However long the store takes for the letters, some of them go.
    """
    outbox = outbox_of(store, now)
    try:
        waits = summarise(outbox)
        sending = Deadline(deadline.seconds)
        return outbox.deliver_due(waits, until=lambda: sending.over)
    except (RatchetError, OSError) as error:
        _log.warning("alerts: cannot send what waits in the outbox: %s", error)
        return 0


def say_refused(error: RatchetError | None, now: datetime) -> None:
    """Alert people that the watch may not read Airflow and so finds nothing there, if that is the error."""
    if isinstance(error, ConfigurationError):
        alert_once_a_day(
            "refused", "Ratchet: the watch may not read Airflow", f"Cause: {mask(str(error))}\n{UNSEEN}", now
        )


def alert_once_a_day(what: str, title: str, body: str, now: datetime, *, since: datetime | None = None) -> None:
    """Alert each receiver of failures to a fault of the watch, once a day.

    since: the beginning of the fault, which is the same at each look. One that begins later on that day is another one.
    """
    what = f"{what}-{since.astimezone(UTC):%Y%m%dT%H%M%S}" if since is not None else what
    for name in _receivers():
        letter = Letter(
            event=outbox_paths.message(installation(), f"{what}-{name}-{now:%Y-%m-%d}"),
            receiver=name,
            pipeline=_WATCH,
            occasion=_WATCH,
            title=title,
            body=body,
            kind="failure",
            made=now,
            due=now + TAKEN,
        )
        post_message(letter, b"{}", AlertHistory())


def _say_away(why: str, now: Clock) -> None:
    waits = len(spool().files())
    with suppress(OSError):
        receivers = {name: known_addresses(name) for name in _receivers()}
        spool().store_is_away(receivers, lambda name, address: _say(name, address, why, waits, now()), now())


def _say(receiver: str, address: str, why: str, waits: int, now: datetime) -> bool:
    """Send it past the outbox. Whether the address took it."""
    letter = Letter(
        event=STORE,
        receiver=receiver,
        pipeline=STORE,
        occasion="store",
        title=NO_STORE,
        body=f"Cause: {why}\nAlerts that wait on this host: {waits}\n"
        "What to do: bring the store back; what waits is sent then, in one summary",
        kind="failure",
        made=now,
        due=now,
    )
    return send(letter, address)


def _receivers() -> Sequence[str]:
    """Every receiver that hears of failures."""
    found = [one.spec.alerts for one in folders.read(root())[0]]
    return sorted({name for alerts in found if "failure" in alerts.on for name in alerts.to})
