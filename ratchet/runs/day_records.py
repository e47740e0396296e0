"""The records of days: which day its own run or a person refused, and which one a person has let in.

A change here violates the promise of the project when a day that was refused is planned as if it had passed, when a run
takes back what a person refused of the same rows, or when a record changes or vanishes.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, date, datetime

from ratchet.contracts import paths
from ratchet.contracts.day_record import Action, DayRecord, DayStates
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Validation
from ratchet.store.base import Store
from ratchet.store.documents import read_document
from ratchet.store.sealed import seal, unseal

_TRIES = 20
_REMEDY = "restore it from a backup, or delete it and run that date again"
JUDGES: tuple[Stage, ...] = ("validate", "features")
"""The stages that check the rows of the data date."""


def day_states(store: Store, pipeline: str, days: Iterable[date]) -> DayStates:
    """What the newest records say of these days."""
    wanted = set(days)
    found: dict[date, list[paths.DayRecordKey]] = {}
    for entry in store.list(paths.day_records(pipeline)):
        key = paths.day_record_key(entry.key)
        if key.day in wanted:
            found.setdefault(key.day, []).append(key)
    refused, admitted, before, accepted = [], [], [], {}
    for day, keys in sorted(found.items()):
        last = next((key for key in reversed(keys) if key.action != "admit"), None)
        if last is not None and last.action == "accept":
            accepted[day] = last.source
            about = {key.source: key for key in keys}  # the newest record of each of its rows
            before += [_read(store, key.key) for key in about.values() if key.action == "refuse"]
        elif last is not None:
            refused.append(_read(store, last.key))
            admitted += _admission(store, keys)
    return DayStates(refused=tuple(refused), before=tuple(before), admitted=tuple(admitted), accepted=accepted)


def _admission(store: Store, keys: list[paths.DayRecordKey]) -> list[DayRecord]:
    """The newest admission of a day, if there is one which no person took back by refusing the same rows later."""
    place = next((place for place in reversed(range(len(keys))) if keys[place].action == "admit"), None)
    if place is None or any(_is_of_person(store, key, keys[place].source) for key in keys[place + 1 :]):
        return []
    return [_read(store, keys[place].key)]


def record_day(
    store: Store,
    *,
    pipeline: str,
    data_date: date,
    run_id: str,
    stage: Stage,
    state: str,
    snapshot: Snapshot,
    past: bool = False,
    trial: bool = False,
) -> None:
    """Record what a stage that checks rows found out about its data date; nothing if it found nothing out.

    stage: one of JUDGES. state: how it ended, `done` or `failed`. past: whether the run takes the source as it was
    then; it changes nothing about other rows. trial: whether a person changed the rules for this run alone; it changes
    nothing that is recorded.
    """
    source = next((day.source for day in snapshot.days if day.day == data_date), None)
    causes = [] if state == "done" else _causes(store, paths.checks(pipeline, run_id, stage), data_date)
    if source is None or causes is None or (stage != "validate" and not causes):
        return
    newest = [key for key in _keys(store, pipeline, data_date) if key.action != "admit"][-1:]
    if any(trial or (past and key.source != paths.short(source)) for key in newest):
        return
    if not causes and any(_is_of_person(store, key, source) for key in newest):
        return
    record = DayRecord(
        day=data_date,
        action="refuse" if causes else "accept",
        source=source,
        reason="; ".join(causes),
        run_id=run_id,
        recorded=datetime.now(UTC),
    )
    _append(store, pipeline, record)


def refuse(store: Store, pipeline: str, day: date, source: str, *, by: str, because: str) -> DayRecord:
    """Refuse the rows of a day that the snapshot holds, until a person lets them in. source: their digest."""
    record = DayRecord(
        day=day,
        action="refuse",
        source=source,
        reason=" ".join(because.split()),
        by=" ".join(by.split()),
        run_id="",
        recorded=datetime.now(UTC),
    )
    _append(store, pipeline, record)
    return record


def _is_of_person(store: Store, key: paths.DayRecordKey, source: str) -> bool:
    """Whether a record is the refusal of these rows by a person."""
    return key.action == "refuse" and key.source == paths.short(source) and bool(_read(store, key.key).by)


def admit(store: Store, pipeline: str, day: date, *, by: str, because: str) -> DayRecord:
    """Let the rows of a day in that were refused last. Raises ConfigurationError if none were."""
    refused = day_states(store, pipeline, [day]).refused
    if not refused:
        raise ConfigurationError(
            f"{pipeline}: neither a run of {day} nor a person has refused it in {store.uri}",
            remedy="check the date, --store and the name of the pipeline",
        )
    action: Action = "admit"
    change = {
        "action": action,
        "by": " ".join(by.split()),
        "reason": " ".join(because.split()),
        "recorded": datetime.now(UTC),
    }
    record = refused[0].model_copy(update=change)
    _append(store, pipeline, record)
    return record


def decisions(store: Store, pipeline: str, known: Collection[str] = ()) -> Iterator[tuple[str, DayRecord]]:
    """The records of a pipeline's days that a person made, with their keys, in order. known: keys to leave out."""
    for entry in store.list(paths.day_records(pipeline)):
        if entry.key not in known and paths.day_record_key(entry.key).action != "accept":
            record = _read(store, entry.key)
            if record.by:
                yield entry.key, record


def _causes(store: Store, key: str, data_date: date) -> list[str] | None:
    """The failed checks of the data date, as rules and columns; None if its rows were not what failed."""
    try:
        failed = read_document(store, key, Validation).failures(data_date)
    except FileNotFoundError:
        return None
    return list(dict.fromkeys(f"{check.rule} of {check.column or 'all rows'}" for check in failed)) or None


def _append(store: Store, pipeline: str, record: DayRecord) -> None:
    """Add a record, unless it is a run's and the newest one says the same of the same rows.

    Of two at once, a refusal is the newer.
    """
    for _ in range(_TRIES):
        keys = list(_keys(store, pipeline, record.day))
        said = (keys[-1].action, keys[-1].source) if keys else None
        if not record.by and said == (record.action, paths.short(record.source)):
            return
        number = keys[-1].number + 1 if keys else 1
        key = paths.day_record(pipeline, record.day, number, record.action, record.source)
        if store.create(key, seal(record)):
            return
    where = f"{store.uri}/{paths.day_records(pipeline, record.day)}"
    raise Unavailable(f"{where}: other processes keep writing records of this day")


def _keys(store: Store, pipeline: str, day: date) -> Iterator[paths.DayRecordKey]:
    for entry in store.list(paths.day_records(pipeline, day)):
        yield paths.day_record_key(entry.key)


def _read(store: Store, key: str) -> DayRecord:
    return unseal(store.read(key), DayRecord, where=f"{store.uri}/{key}", remedy=_REMEDY)
