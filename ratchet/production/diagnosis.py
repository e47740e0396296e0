"""`doctor`: whether production of a model is well, one line each, after what is safe to repair was repaired."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ratchet.contracts.diagnosis import Diagnosis
from ratchet.contracts.errors import RatchetError
from ratchet.production.reconcile import Reconciled, reconcile, sentences
from ratchet.production.standing import Standing, held, standing
from ratchet.store.base import Store
from ratchet.store.ledger import Record
from ratchet.tracking.mlflow import track
from ratchet.tracking.production import mend
from ratchet.tracking.registry import CHAMPION


def diagnose(store: Store, tracking_uri: str | None, model: str) -> tuple[Diagnosis, ...]:
    """Look at ledger, alias, weights, bans and hold of a model. The alias and the ledger's head are repaired."""
    return tuple(_lines(store, tracking_uri, model))


def _lines(store: Store, tracking_uri: str | None, model: str) -> Iterator[Diagnosis]:
    found = reconcile(store, tracking_uri, model)
    try:
        now = standing(store, model)
    except RatchetError as error:
        yield Diagnosis(name="ledger", well=False, text=str(found.finding or error))
        return
    if now.number == 0 and found.agrees:
        said = (
            f"no model {model} was ever in production here; check the name (register.model of the pipeline) and --store"
        )
        yield Diagnosis(name="ledger", well=False, text=said)
        return
    yield Diagnosis(name="ledger", well=True, text=_ledger(now))
    yield from _alias(model, found)
    if found.agrees and found.live is not None:
        yield _weights(store, tracking_uri, found.live, found.version)
    if found.finding is not None and found.finding.name == "ledger-lost":
        for name in ("hold", "bans"):
            yield Diagnosis(name=name, well=None, text="nobody knows: the ledger is lost")
        return
    yield Diagnosis(name="hold", well=True, text=held(now.hold) if now.hold else "promotions are not held")
    yield Diagnosis(
        name="bans", well=True, text="; ".join(one.sentence for one in now.banned) or "no version is banned"
    )


def _ledger(now: Standing) -> str:
    live = f"version {now.live.version} is in production since record {now.live.number}" if now.live else "it is empty"
    return f"{now.number} records, whole; {live}"


def _alias(model: str, found: Reconciled) -> Iterator[Diagnosis]:
    for text in sentences(model, found):
        yield Diagnosis(name="alias", well=None if found.unchecked else found.finding is None, text=text)
    if found.agrees and found.moved is None:
        named = f"names version {found.version}, as the ledger says" if found.live else "names nothing, as the ledger"
        yield Diagnosis(name="alias", well=True, text=f"the alias {CHAMPION} of {model} {named}")


def _weights(store: Store, tracking_uri: str | None, live: Record, version: str) -> Diagnosis:
    """Whether the registered files are those of the ledger's model; damaged ones are replaced by the store's."""
    try:
        with tempfile.TemporaryDirectory(prefix="ratchet-") as scratch:
            work = partial(mend, store=store, live=live, version=version, scratch=Path(scratch))
            mended = track(store, tracking_uri, Path(scratch), work)
    except Exception as error:  # noqa: BLE001 - whatever MLflow raises, the other lines are printed
        cause = str(error) if isinstance(error, RatchetError) else f"{type(error).__name__}: {error}"
        return Diagnosis(name="weights", well=None, text=f"the registered files were not checked: {cause[:300]}")
    whole = f"the files of version {version} are the model {live.model_digest[:12]}, as the ledger says"
    return Diagnosis(name="weights", well=True, text="; ".join(mended) or whole)
