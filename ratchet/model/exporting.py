"""The model of a run from the store, as the MLflow model that register uploads; also of a rejected run."""

from pathlib import Path

from ratchet.contracts import summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.request import RunPlan
from ratchet.contracts.result import StageResult
from ratchet.store.artifacts import read_bytes
from ratchet.store.base import Store


def export(
    store: Store, plan: RunPlan, trained: StageResult, evaluated: StageResult, target: Path, *, scratch: Path
) -> None:
    """Write a run's model to `target`, which must not exist. scratch: an empty folder.

    `mlflow.pyfunc.load_model(target)` loads it. It scores as evaluate measured it, by the same code. Raises
    CorruptArtifact if files of it are gone or damaged.
    """
    from ratchet.model.files import lay_out
    from ratchet.model.package import unpack
    from ratchet.model.packing import pack

    if "scoring" not in evaluated.outputs:
        raise CorruptArtifact("an evaluate result has no scoring code", remedy="run its date again with --rebuild")
    judged = summaries.judgement(evaluated)
    pack(
        plan.spec,
        lay_out(store, trained, scratch / "trained", scratch),
        unpack(read_bytes(store, evaluated.outputs["scoring"]), scratch / "scoring"),
        target,
        pins=plan.pins,
        tags={
            "ratchet.model_digest": summaries.trained(trained).digest,
            "ratchet.data_date": plan.data_date.isoformat(),
            "ratchet.run_id": plan.run_id,
            "ratchet.verdict": judged.verdict,
            "ratchet.reason": judged.reason,
        },
    )
