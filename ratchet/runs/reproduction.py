"""Whether a version can be built again from its record, and how like the rebuild is: what every caller of it does."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.reproduction import TOLERANCE, Likeness, RebuiltParent, Reproduction
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet.contracts.version_record import VersionRecord
from ratchet.runners.devices import TooFewDevices, require_devices
from ratchet.runners.runner import Runner
from ratchet.runs.ancestors import ancestors, rebuilt
from ratchet.runs.history import report_of
from ratchet.runs.ingredients import gone, other_code, other_environment
from ratchet.runs.likeness import Comparison, compare
from ratchet.runs.lost_versions import why_lost
from ratchet.runs.rebuild import OnStage, OnStageEvent, Rebuild
from ratchet.runs.turn import Turn
from ratchet.store.base import Store
from ratchet.store.documents import read_document

OnBegin = Callable[[Rebuild], None]
OnVersion = Callable[[VersionRecord], None]
_OF_PARENT = set(RebuiltParent.model_fields)
_ENOUGH: frozenset[Likeness] = frozenset({"bit-equal", "within-tolerance"})


def reproduce(
    store: Store,
    record: VersionRecord,
    runner: Runner,
    *,
    image: str | None,
    started_by: str,
    on_stage: OnStage,
    on_event: OnStageEvent,
    on_begin: OnBegin = lambda _: None,
    on_version: OnVersion = lambda _: None,
    tolerance: float = TOLERANCE,
    chain: bool = False,
    turn: Turn | None = None,
) -> Reproduction:
    """Build a version again and compare. The answer is stored with the run, whatever it is.

    turn: of a rebuild that several processes compute, one after the other: this one goes on where the last one was.

    A version that began with the weights of another one takes them by their digest; where they are gone, or with
    `chain`, that version is built again and compared first, and so on. image: the digest of the stage image, None for
    processes. A rebuild that is bit-equal is deleted after it was compared; any other one
    stays, to look at. on_begin: is given each rebuild, for one who may have to interrupt it. on_version: is given each
    record before its rebuild. Raises the RatchetError that says why a stage failed.
    """
    turn = turn or Turn()
    if (answered := _answered(store, record, turn)) is not None:
        return answered
    older, lost = ancestors(store, record, whole=chain)
    lacking = [lost] if lost else []
    made: list[tuple[Rebuild, Reproduction]] = []
    shipped: StageResult | None = None
    try:
        for one in (*older, record):
            on_version(one)
            parent = rebuilt(one.parent, shipped)
            rebuild = Rebuild(store, one, turn, image=image, started_by=started_by, parent=parent)
            on_begin(rebuild)
            said = _compute(
                store, one, rebuild, runner, on_stage, on_event,
                lacking=lacking, parents=[before for _, before in made], tolerance=tolerance, started_by=started_by,
            )  # fmt: skip
            made.append((rebuild, said))
            lacking = [] if said.likeness in _ENOUGH else [f"its parent, version {one.version}: {in_words(said)[0]}"]
            shipped = rebuild.shipped
    except BaseException as error:
        if not turn.goes_on(error):
            _discard(made)
        raise
    _discard(made)
    return said


def _answered(store: Store, record: VersionRecord, turn: Turn) -> Reproduction | None:
    """The answer of an earlier turn, which was ended before it could give it."""
    key = _report(record, turn.run_id(record))
    try:
        return read_document(store, key, Reproduction)
    except FileNotFoundError:
        return None


def _discard(made: Sequence[tuple[Rebuild, Reproduction]]) -> None:
    for rebuild, found in made:
        if found.likeness == "bit-equal":
            rebuild.discard()


def _compute(
    store: Store,
    record: VersionRecord,
    rebuild: Rebuild,
    runner: Runner,
    on_stage: OnStage,
    on_event: OnStageEvent,
    *,
    lacking: Sequence[str],
    parents: Sequence[Reproduction],
    tolerance: float,
    started_by: str,
) -> Reproduction:
    """Build one version again, compare, and store the answer. lacking: what is known to be gone.

    A later turn does not read all ingredients again, and needs no device here: its container may be on another host.
    Raises Unavailable where the driver does not say what devices there are, and TooFewDevices as `_no_device`.
    """
    looked = [] if rebuild.goes_on else [*_no_device(record, rebuild.plan.origin), *gone(store, record)]
    lacking, code = [*why_lost(store, record), *lacking, *looked], other_code(record)
    compared = Comparison(likeness="not-rebuilt")
    differs = [*code, *_unlike_parent(parents)]
    if not lacking:
        try:
            results = rebuild.run(runner, on_stage=on_stage, on_event=on_event)
        except RatchetError as error:
            if code:
                error.remedy = f"{error.remedy}; the cause may be that {'; '.join(code)}"
            raise
        compared = compare(store, record, results, tolerance=tolerance)
        differs += other_environment(record, results)
    said = Reproduction(
        model=record.model,
        version=record.version,
        run_id=rebuild.run_id,
        gone=tuple(lacking),
        differs=tuple(differs),
        parents=tuple(RebuiltParent.model_validate(one.model_dump(include=_OF_PARENT)) for one in parents),
        steps=_steps(record, compared.training),
        tolerance=tolerance,
        started_by=started_by,
        finished=datetime.now(UTC),
        **vars(compared),
    )
    store.create(_report(record, rebuild.run_id), said.model_dump_json(by_alias=True, indent=1).encode())
    return said


def _report(record: VersionRecord, run_id: str) -> str:
    return report_of(record.pipeline, run_id)


def _unlike_parent(parents: Sequence[Reproduction]) -> list[str]:
    """That it begins with other bits, where its parent was built again and is not bit-equal."""
    if not parents or parents[-1].likeness != "within-tolerance":
        return []
    return [f"it begins with version {parents[-1].version} as built again, which is within tolerance"]


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
    lines += [f"its parent, version {one.version}, was built again first: {one.likeness}" for one in said.parents]
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


def _no_device(record: VersionRecord, origin: str) -> list[str]:
    """Which device this host lacks. With an origin, raises TooFewDevices: a later turn may be on a larger host."""
    try:
        require_devices(record.spec.resources["train"].gpus, "resources.train")
    except TooFewDevices as error:
        if origin:
            raise
        return [f"a device: {error.cause}"]
    return []
