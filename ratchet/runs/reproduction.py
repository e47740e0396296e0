"""Whether a version can be built again from its record, and how like the rebuild is: what every caller of it does."""

from collections.abc import Callable
from datetime import UTC, datetime

from ratchet.contracts import paths
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.reproduction import TOLERANCE, Likeness, Reproduction
from ratchet.contracts.stages import Stage
from ratchet.contracts.version_record import VersionRecord
from ratchet.runners.devices import require_devices
from ratchet.runners.runner import Runner
from ratchet.runs.ingredients import gone, other_code, other_environment
from ratchet.runs.likeness import Comparison, compare
from ratchet.runs.rebuild import OnStage, OnStageEvent, Rebuild
from ratchet.store.base import Store

OnBegin = Callable[[Rebuild], None]
_REPORT = "report.json"


def reproduce(
    store: Store,
    record: VersionRecord,
    runner: Runner,
    *,
    image: str | None,
    started_by: str,
    on_stage: OnStage,
    on_event: OnStageEvent,
    on_begin: OnBegin | None = None,
    tolerance: float = TOLERANCE,
) -> Reproduction:
    """Build a version again and compare. The answer is stored with the run, whatever it is.

    image: the digest of the stage image, None for processes. A rebuild that is bit-equal is deleted after it was
    compared; any other one stays, to look at. on_begin: is given the rebuild, for one who may have to interrupt it.
    Raises the RatchetError that says why a stage failed.
    """
    rebuild = Rebuild(store, record, image=image, started_by=started_by)
    if on_begin is not None:
        on_begin(rebuild)
    lacking, code = (*gone(store, record), *_no_device(record)), other_code(record)
    compared = Comparison(likeness="not-rebuilt")
    differs = code
    if not lacking:
        try:
            results = rebuild.run(runner, on_stage=on_stage, on_event=on_event)
        except RatchetError as error:
            if code:
                error.remedy = f"{error.remedy}; the cause may be that {'; '.join(code)}"
            raise
        compared = compare(store, record, results, tolerance=tolerance)
        differs = [*code, *other_environment(record, results)]
    said = Reproduction(
        model=record.model,
        version=record.version,
        run_id=rebuild.run_id,
        gone=lacking,
        differs=tuple(differs),
        steps=_steps(record, compared.training),
        tolerance=tolerance,
        started_by=started_by,
        finished=datetime.now(UTC),
        **vars(compared),
    )
    key = paths.kept(record.pipeline, rebuild.run_id, paths.REPRODUCTION, _REPORT)
    store.create(key, said.model_dump_json(by_alias=True, indent=1).encode())
    if compared.likeness == "bit-equal":
        rebuild.discard()
    return said


def in_words(said: Reproduction) -> list[str]:
    """The answer in lines for people, the verdict first."""
    name = f"{said.model} version {said.version}"
    first: dict[Likeness, str] = {
        "bit-equal": f"bit-equal: weights and held-out scores of {name} have the same bits",
        "within-tolerance": f"within tolerance: {name}: {_figures(said)} (tolerance {said.tolerance:g})",
        "diverged": f"diverged: {name}: {_figures(said)} (tolerance {said.tolerance:g})",
        "not-rebuilt": f"not rebuilt: an ingredient of {name} is gone",
    }
    lines = [first[said.likeness], *(f"gone: {line}" for line in said.gone)]
    if said.arrays_differ:
        lines.append(f"before the training: the encoded array {said.arrays_differ} has other bytes")
    if said.first_step is not None:
        lines.append(
            f"{said.training} diverged at step {said.first_step:,} of {said.steps:,}: other bits of loss or gradient"
        )
    return [*lines, *(f"different: {line}" for line in said.differs)]


def _figures(said: Reproduction) -> str:
    parts = {"weights": said.weights_differ, "scores": said.scores_differ, "metric": said.metric_differs}
    return ", ".join(
        f"{name} differ by {value:.2g}" if value is not None else f"{name} cannot be compared"
        for name, value in parts.items()
    )


def _steps(record: VersionRecord, training: Stage | None) -> int | None:
    trace = record.traces.get(training) if training else None
    return trace.rows if trace else None


def _no_device(record: VersionRecord) -> list[str]:
    try:
        require_devices(record.spec.resources["train"].gpus, "resources.train")
    except RatchetError as error:
        return [f"a device: {error.cause}"]
    return []
