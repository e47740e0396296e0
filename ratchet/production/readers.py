"""The columns of the models that a run may be measured against, so that ingest keeps them for the held-out days."""

from collections.abc import Iterator
from datetime import date

from ratchet.contracts import readers
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.readers import Reader
from ratchet.store.base import Store
from ratchet.store.ledger import Record, champion, records
from ratchet.store.publishing import read_manifest


def other_readers(store: Store, spec: PipelineSpec, data_date: date) -> tuple[Reader, ...]:
    """What models in production read that the pipeline file does not declare so, each once.

    Of the live champion, of the one that it replaced, which a rerun of its own date meets, and of the champion as of
    the data date, which a backfill meets. A model whose records cannot be read is left to evaluate, which names it.
    """
    source = {name: column.type for name, column in spec.columns.items() if not column.derived}
    found: dict[str, Reader] = {}
    for record in _possible(store, spec.model_name, data_date):
        one = _reader(store, record)
        if one is not None and one.lacks(source):
            found[one.model_dump_json()] = one
    return tuple(found[key] for key in sorted(found))


def _possible(store: Store, model: str, data_date: date) -> Iterator[Record]:
    history = {record.number: record for record in records(store, model)}
    if history:
        live = history[max(history)]
        yield live
        if live.baseline in history:
            yield history[live.baseline]
    if (past := champion(store, model, before=data_date)) is not None:
        yield past


def _reader(store: Store, record: Record) -> Reader | None:
    try:
        columns = readers.recorded_columns(read_manifest(store, record.manifests["train"]).result.parts)
    except (CorruptArtifact, LookupError, ValueError):
        return None
    return readers.reader(columns) if columns else None
