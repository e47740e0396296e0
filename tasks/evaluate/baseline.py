"""The model in production, brought here to be measured, or the reason why it cannot be."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

import numpy as np

from ratchet.contracts import summaries
from ratchet.contracts.errors import CorruptArtifact, OutOfMemory, Preempted, Unavailable
from ratchet.contracts.summaries import Champion
from ratchet.metrics.metrics import Floats
from ratchet.model.files import lay_out
from ratchet.model.scoring import ScoringModel, load
from ratchet.store.base import Store
from ratchet.store.publishing import read_manifest

Trouble = Literal["baseline-missing", "baseline-unreadable"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """scores: the champion's, None where it could not be asked, for the reason in `trouble` and `cause`.

    seen: the held-out days that it was trained or tuned on.
    """

    champion: Champion
    scores: Floats | None = None
    model: ScoringModel | None = None
    seen: tuple[date, ...] = ()
    trouble: Trouble | None = None
    cause: str = ""


def ask(
    store: Store,
    champion: Champion,
    *,
    score: Callable[[ScoringModel], Floats],
    holdout: tuple[date, ...],
    scratch: Path,
) -> Baseline:
    """Load the champion from its own weights, description and code, and let it score.

    A fault of its files or of its own code is returned as `trouble`. A store that does not answer is raised.
    """
    try:
        result = read_manifest(store, champion.manifests["train"]).result
        split = summaries.trained(result).split
        model = load(lay_out(store, result, scratch / "champion", scratch))
        if model.digest != champion.digest:
            raise CorruptArtifact(f"its files are model {model.digest[:12]}, not {champion.digest[:12]}")  # noqa: TRY301 - returned as any other damage
        scores = score(model)
    except (Unavailable, Preempted, OutOfMemory, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - its own code may fail in any way, and none may stop the night
        cause = error.cause if isinstance(error, CorruptArtifact) else f"{type(error).__name__}: {error}"
        gone = isinstance(error, KeyError) or "is gone" in cause
        return Baseline(
            champion=champion, trouble="baseline-missing" if gone else "baseline-unreadable", cause=cause[:500]
        )
    if not np.isfinite(scores).all():
        return Baseline(champion=champion, trouble="baseline-unreadable", cause="it gives scores that are no numbers")
    seen = tuple(sorted({*split.train, *split.valid} & set(holdout)))
    return Baseline(champion=champion, scores=scores, model=model, seen=seen)
