"""Where the outbox is in the store: alerts that wait to be delivered. See `ratchet.outbox`.

Each installation has its own, since each has its own receivers.
"""

import hashlib
from datetime import date

from ratchet.contracts.paths import join, last, segment

EVERY = "outbox"
"""The prefix of the outboxes of all installations."""
BACKUP = "backup"
"""What marks that a backup was copied off the host, as a server marks that it is there."""
_DIGEST = 32


def letters(installation: str) -> str:
    """The prefix of the letters that wait."""
    return join("outbox", installation, "letters")


def letter(installation: str, receiver: str, event: str) -> str:
    """The letter about an event, which is a key of the store, to one receiver."""
    return f"{letters(installation)}/{segment(receiver)}/{_digest(event)}.json"


def incidents(installation: str) -> str:
    """The prefix of the causes that several pipelines meet now."""
    return join("outbox", installation, "incidents")


def incident(installation: str, receiver: str, cause: str) -> str:
    """One cause, as one receiver hears of it."""
    return f"{incidents(installation)}/{segment(receiver)}/{_digest(cause)}.json"


def undelivered(installation: str, *pipeline: str) -> str:
    """The prefix of the letters that were given up, or of a pipeline's."""
    return join("outbox", installation, "undelivered", *pipeline)


def newest_undelivered(installation: str, *pipeline: str) -> str:
    """The prefix of the documents with the newest of them, or a pipeline's document."""
    return join("outbox", installation, "newest-undelivered", *(f"{one}.json" for one in pipeline))


def given_up(installation: str, pipeline: str, receiver: str, event: str) -> str:
    """One of them."""
    return f"{undelivered(installation, pipeline)}/{segment(receiver)}-{_digest(event)}.json"


def given_up_of(key: str) -> tuple[str, str]:
    """The pipeline and the receiver of such a letter, by its key."""
    *_, pipeline, name = key.split("/")
    return pipeline, name.removesuffix(".json")[: -_DIGEST - 1]


def digest(installation: str, receiver: str, day: date) -> str:
    """The event of a morning digest."""
    return message(installation, f"digest-{receiver}-{day}")


def message(installation: str, name: str) -> str:
    """The event of a message that belongs to no run, such as the summary of an incident."""
    return join("outbox", installation, "messages", f"{name}.json")


def presence(installation: str, server: str) -> str:
    """The mark of a server, such as the watch, or of what goes on at times: when it was written last, one lived."""
    return join("outbox", installation, f"{segment(server)}.json")


def is_backup(key: str) -> bool:
    """Whether a key of any outbox is the mark of the last backup that was copied."""
    return key.split("/")[2:] == [f"{BACKUP}.json"]


def absence(installation: str, server: str) -> str:
    """The mark of the first look that found none."""
    return join("outbox", installation, f"no-{segment(server)}.json")


def hosts(installation: str) -> str:
    """The prefix of the marks of hosts."""
    return join("outbox", installation, "hosts")


def host(installation: str, engine: str) -> str:
    """The mark of the host of an engine: how many GPUs it has."""
    return f"{hosts(installation)}/{_digest(engine)}.json"


def absence_of(host: str) -> str:
    """The mark of the first look that found no reaper on a host. host: the key of its mark."""
    place, _, name = host.rpartition("/hosts/")
    return f"{place}/no-host-{name}"


def is_host(key: str) -> bool:
    """Whether a key of any outbox is the mark of a host."""
    return key.split("/")[2:3] == ["hosts"]


def sent(event: str, receiver: str) -> str:
    """The mark that a receiver has the letter about an event; beside the event's own file."""
    return f"{event.rpartition('/')[0]}/{segment(f'sent-{receiver}.{last(event)}')}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
