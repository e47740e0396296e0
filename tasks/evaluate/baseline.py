"""The model in production, brought here to be measured, or the reason why it cannot be."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

import numpy as np

from ratchet.contracts import summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.refit import maker
from ratchet.contracts.summaries import Champion
from ratchet.metrics.metrics import Floats
from ratchet.model.files import lay_out
from ratchet.model.package import unpack
from ratchet.model.scorer import PackedModel, Scorer
from ratchet.model.scoring import load
from ratchet.runtime.logs import StageLog
from ratchet.store.artifacts import read_bytes
from ratchet.store.base import Store
from ratchet.store.publishing import read_manifest
from tasks.evaluate.passing import raise_passing

Trouble = Literal["baseline-missing", "baseline-unreadable"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """scores: the champion's, None where it could not be asked, for the reason in `trouble` and `cause`.

    seen: the held-out days that it was trained or tuned on.
    """

    champion: Champion
    scores: Floats | None = None
    model: Scorer | None = None
    seen: tuple[date, ...] = ()
    trouble: Trouble | None = None
    cause: str = ""


def ask(
    store: Store,
    champion: Champion,
    *,
    score: Callable[[Scorer], Floats],
    holdout: tuple[date, ...],
    scratch: Path,
    log: StageLog,
) -> Baseline:
    """Load the champion from its own weights, description, pipeline's code and scoring code, and let it score.

    A fault of its files or of its own code is returned as `trouble`. What may pass, as a store that does not answer or
    a lack of memory, is raised: a verdict about it would be stored.
    """
    try:
        result = read_manifest(store, maker(champion.manifests)).result
        split = summaries.trained(result).split
        model = _load(store, champion, lay_out(store, result, scratch / "champion", scratch), scratch, log)
        if model.digest != champion.digest:
            raise CorruptArtifact(f"its files are model {model.digest[:12]}, not {champion.digest[:12]}")  # noqa: TRY301 - returned as any other damage
        scores = score(model)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - its own code may fail in any way, and none may stop the night
        raise_passing(error)
        cause = error.cause if isinstance(error, CorruptArtifact) else f"{type(error).__name__}: {error}"
        gone = isinstance(error, KeyError) or "is gone" in cause
        return Baseline(
            champion=champion, trouble="baseline-missing" if gone else "baseline-unreadable", cause=cause[:500]
        )
    if not np.isfinite(scores).all():
        return Baseline(champion=champion, trouble="baseline-unreadable", cause="it gives scores that are no numbers")
    seen = tuple(sorted({*split.train, *split.valid} & set(holdout)))
    return Baseline(champion=champion, scores=scores, model=model, seen=seen)


def _load(store: Store, champion: Champion, folder: Path, scratch: Path, log: StageLog) -> Scorer:
    """The champion, with the scoring code that it was evaluated and is served with."""
    evaluated = champion.manifests.get("evaluate")
    packed = read_manifest(store, evaluated).result.outputs.get("scoring") if evaluated else None
    if packed is None:
        said = f"version {champion.version} was made before scoring code was kept: the installed code scores it"
        log.event("champion-code", said, level="warning", version=champion.version)
        return load(folder)
    return PackedModel(unpack(read_bytes(store, packed), scratch / "champion-scoring"), folder)
