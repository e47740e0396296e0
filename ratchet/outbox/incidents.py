"""One cause, many pipelines: the first alert goes out at once, the others wait for a summary.

A receiver gets the first alert, one summary after the window, and one message when it is over. While it lasts for
hours, and others join, there is one more each hour. An incident that is over is remembered for a day, so that
pipelines that recover later are no message each.

A change here violates the promise of the project when an alert is held whose cause no other pipeline has, or when a
letter goes before a message that names its pipeline is in the outbox.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from ratchet.contracts import outbox_paths
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.masking import masked_logger
from ratchet.contracts.paths import last
from ratchet.outbox.causes import STORE
from ratchet.outbox.incident import REMEMBERED, Decided, Incident, is_due, is_over, latest, left, of, opened_by
from ratchet.outbox.letter import Letter
from ratchet.outbox.outbox import Outbox, Waiting, in_threads
from ratchet.store.documents import read_document, replace_document

_log = masked_logger("ratchet.alerts")
_MOST_NAMES = 13
_FIRST_SUMMARY = 2
"""Its number among the messages: the first alert was one."""
_WORDS = {
    "retry": "to be tried again",
    "failure": "failed for good",
    "refused": "refused the data",
    "recovered": "recovered",
    "missing": "not started",
}


def announce_store(outbox: Outbox, receiver: str, since: datetime) -> None:
    """The receiver has heard that the store is away: what that made fail waits for the summary."""
    now = outbox.now()
    known = Incident(
        receiver=receiver,
        cause=STORE,
        reason="the store did not answer",
        opened=since,
        heard=now,
        said=since,
        announced=True,
    )
    _open(outbox, outbox_paths.incident(outbox.installation, receiver, STORE), known)


def join(outbox: Outbox, letter: Letter) -> Letter:
    """The letter, held if another pipeline has reported its cause and that is not over."""
    if not letter.cause:
        return letter
    key = outbox_paths.incident(outbox.installation, letter.receiver, letter.cause)
    there = outbox.store.head(key)
    known = _read(outbox, key) if there is not None else None
    if letter.occasion == "recovered":
        if there is None:
            return letter
    elif there is None or (known is not None and known.closed):
        if _open(outbox, key, opened_by(letter, outbox.now())):
            return letter
        there, known = outbox.store.head(key), _read(outbox, key)  # another process was faster
    if known is None or there is None or {*known.members} == {letter.pipeline}:
        if known is not None and there is not None:
            members = {letter.pipeline: letter.occasion}
            until = latest(known.until, [letter])
            changed = known.model_copy(update={"members": members, "heard": outbox.now(), "until": until})
            replace_document(outbox.store, key, changed, expected=there.etag)
        return letter
    return letter.model_copy(update={"held": True})


def _open(outbox: Outbox, key: str, incident: Incident) -> bool:
    """Store an incident, unless that of its cause is not over. Whether it was stored."""
    if outbox.store.create(key, _bytes(incident)):
        return True
    there, known = outbox.store.head(key), _read(outbox, key)
    if there is None or known is None or not known.closed:
        return False
    return outbox.store.replace(key, _bytes(incident), expected=there.etag)


def summarise(outbox: Outbox) -> list[Waiting]:
    """Say what is due of every incident, and let out what is held by none. What may be sent then."""
    held: dict[tuple[str, str], list[Letter]] = {}
    free: list[Waiting] = []
    for letter, etag in outbox.waiting():
        if letter.held:
            held.setdefault((letter.receiver, letter.cause), []).append(letter)
        else:
            free.append((letter, etag))
    new: list[Letter] = []
    for entry in list(outbox.store.list(outbox_paths.incidents(outbox.installation))):
        incident = _read(outbox, entry.key)
        if incident is not None:
            letters = held.pop((incident.receiver, incident.cause), [])
            if incident.closed:  # the others open the next one
                held[incident.receiver, incident.cause] = [one for one in letters if one.occasion != "recovered"]
                letters = [one for one in letters if one.occasion == "recovered"]
            new += _advance(outbox, incident, entry.etag, letters)
    for letter in (one for letters in held.values() for one in letters):
        new += _let_out(outbox, letter)
    entries = [outbox.store.head(outbox.key(letter)) for letter in new]
    return free + outbox.read(entry for entry in entries if entry is not None)


def _advance(outbox: Outbox, incident: Incident, etag: str, letters: Sequence[Letter]) -> list[Letter]:
    """Decide on a message, and carry out what is decided; the message. Each step may be done again after a kill."""
    key = outbox_paths.incident(outbox.installation, incident.receiver, incident.cause)
    if incident.decided is None:
        decided = _decide(outbox, incident, letters)
        if decided is None:
            return []
        if not replace_document(outbox.store, key, decided, expected=etag):
            return []  # another watch decides
        incident = decided
    made = incident.decided
    if made is None:  # over, and there is nothing to say
        outbox.store.delete(key)
        return []
    outbox.post(made.letter.event, b"{}", [made.letter])
    in_threads(lambda event: outbox.finish(made.letter.model_copy(update={"event": event})), made.covers)
    if (now := outbox.store.head(key)) is not None:
        done = incident.model_copy(update={"decided": None, "closed": made.over})
        replace_document(outbox.store, key, done, expected=now.etag)
    return [made.letter]


def _decide(outbox: Outbox, incident: Incident, letters: Sequence[Letter]) -> Incident | None:
    """The incident with what is to be said now, or without a decision if it is over in silence; None: not yet."""
    now = outbox.now()
    members = dict(incident.members)
    for letter in sorted(letters, key=lambda letter: letter.made):
        members[letter.pipeline] = letter.occasion
    changed = incident.model_copy(
        update={
            "members": members,
            "heard": max([incident.heard, *(letter.made for letter in letters)]),
            "until": latest(incident.until, letters),
            "said": now,
            "messages": incident.messages + 1,
        }
    )
    if incident.closed and not letters:
        return changed if now - incident.said >= REMEMBERED else None
    over = is_over(changed, now)
    if not over and not is_due(incident, letters, now):
        return None
    if not (incident.announced or incident.messages > 1 or letters):
        return changed
    over = over or incident.closed
    covers = tuple(letter.event for letter in letters)
    decided = Decided(letter=_message(outbox, changed, over=over), covers=covers, over=over)
    return changed.model_copy(update={"decided": decided})


def _message(outbox: Outbox, incident: Incident, *, over: bool) -> Letter:
    """The letter that says how the incident is now. Its event is the same whoever makes it."""
    digest = last(outbox_paths.incident(outbox.installation, incident.receiver, incident.cause)).removesuffix(".json")
    name = f"{digest}-{incident.opened:%Y%m%dT%H%M%S}-{incident.messages}"
    return Letter(
        event=outbox_paths.message(outbox.installation, name),
        receiver=incident.receiver,
        pipeline=min(incident.members, default="ratchet"),
        occasion="incident",
        title=_title(incident, over=over and incident.messages > _FIRST_SUMMARY),
        body=_body(incident, over=over),
        kind="info" if over and not left(incident) else "failure",
        made=incident.said,
        due=incident.said,
    )


def _title(incident: Incident, *, over: bool) -> str:
    number = len(incident.members)
    if not number:
        return f"over: {incident.reason}"
    who = f"{number} pipeline{'' if number == 1 else 's'}"
    lacking = left(incident)
    how = "" if not over else f"{lacking} not recovered: " if lacking else "over: "
    return f"{who}: {how}{incident.reason}"


def _body(incident: Incident, *, over: bool) -> str:
    counts = Counter(incident.members.values())
    lines = [
        f"Cause: {incident.reason}",
        f"Since: {incident.opened:%Y-%m-%d %H:%M} UTC",
        f"Pipelines: {len(incident.members)}",
        *(f"  {number} {_WORDS.get(occasion, occasion)}" for occasion, number in sorted(counts.items())),
        *(f"  {_WORDS.get(one, one)}: {names(of(incident, one))}" for one in sorted(counts)),
    ]
    if not over:
        lines.append("What to do: remove the cause; what is to be tried again goes on by itself")
    elif counts["failure"] or counts["missing"]:
        lines.append("What to do: clear the runs that failed, or trigger those that did not start")
    if not counts:
        lines.append("Alerts that wait on the hosts of workers come with the next task there")
    if over and counts["retry"]:
        lines.append("Those that are to be tried again go on by themselves")
    return "\n".join(lines)


def names(found: Sequence[str]) -> str:
    """The first names, and how many others there are."""
    shown = ", ".join(found[:_MOST_NAMES])
    return f"{shown}, and {len(found) - _MOST_NAMES} others" if len(found) > _MOST_NAMES else shown


def _let_out(outbox: Outbox, letter: Letter) -> list[Letter]:
    """The incident that held it has ended: it is the first of the next one. The letter, unless that holds it."""
    entry = outbox.store.head(outbox.key(letter))
    if entry is None:
        return []
    free = join(outbox, letter.model_copy(update={"held": False}))
    outbox.replace(free, expected=entry.etag)
    return [] if free.held else [free]


def _read(outbox: Outbox, key: str) -> Incident | None:
    """The incident; None if there is none, or none that this release can read."""
    try:
        return read_document(outbox.store, key, Incident)
    except FileNotFoundError:
        return None
    except (OtherRelease, CorruptArtifact) as error:
        _log.warning("alerts: the incident is left: %s", error)
        return None


def _bytes(incident: Incident) -> bytes:
    return incident.model_dump_json().encode()
