"""The pipelines: folders with a pipeline.yaml, each read and built by itself so that none breaks another."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow.sdk import DAG

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import PipelineInvalid, Problem
from ratchet.contracts.loading import FILE, load
from ratchet.contracts.pipeline import PipelineSpec

Build = Callable[[PipelineSpec, Path], DAG]
"""`ratchet_airflow.dag.build`; an argument, so that a process that only reads pipelines does not import it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFolder:
    """A valid pipeline and its folder."""

    folder: Path
    spec: PipelineSpec


def root(dag_file: str) -> Path:
    """RATCHET_PIPELINES, or the folder `pipelines` beside the DAG file."""
    return environment().pipelines or Path(dag_file).resolve().parent / "pipelines"


def read(pipelines: Path) -> tuple[list[PipelineFolder], list[PipelineInvalid]]:
    """Every valid pipeline in order of its folder's name, and the errors of the others."""
    found: dict[str, PipelineFolder] = {}
    broken: list[PipelineInvalid] = []
    try:
        names = sorted(path.name for path in pipelines.iterdir())  # where it may not look, a glob finds nothing
    except OSError as error:
        broken.append(_missing(pipelines, error))
        names = []
    for file in (pipelines / name / FILE for name in names):
        if not _may_be_there(file):
            continue
        try:
            with _as_problem_of(file):
                spec = load(file)
                if (earlier := found.get(spec.name)) is not None:
                    raise _duplicate(file, spec.name, earlier.folder)
        except PipelineInvalid as error:
            broken.append(error)
        else:
            found[spec.name] = PipelineFolder(folder=file.parent, spec=spec)
    return list(found.values()), broken


def build_all(pipelines: Path, build: Build) -> tuple[list[DAG], list[PipelineInvalid]]:
    """The DAG of every pipeline that Airflow accepts, and the errors of the others."""
    with _no_garbage_collection():
        found, broken = read(pipelines)
        dags: list[DAG] = []
        for pipeline in found:
            try:
                dags.append(build_one(pipeline, build))
            except PipelineInvalid as error:
                broken.append(error)
        return dags, broken


def build_one(pipeline: PipelineFolder, build: Build) -> DAG:
    """A pipeline's DAG, validated as Airflow does. Raises PipelineInvalid for any error."""
    with _as_problem_of(pipeline.folder / FILE):
        dag = build(pipeline.spec, pipeline.folder)
        # Airflow does so too, later, and an error there fails the whole DAG file.
        dag.validate()  # type: ignore[no-untyped-call]
        dag.check_cycle()
    return dag


def read_one(pipelines: Path, name: str) -> list[PipelineFolder]:
    """The pipeline of that name, nearly always in the folder of that name; an empty list if there is none.

    Raises PipelineInvalid if no valid pipeline has the name and another one is broken, which is then the likely reason.
    """
    file = pipelines / name / FILE
    if file.is_file():
        with _as_problem_of(file):
            spec = load(file)
        if spec.name == name:
            return [PipelineFolder(folder=file.parent, spec=spec)]
    found, broken = read(pipelines)
    matching = [pipeline for pipeline in found if pipeline.spec.name == name]
    if broken and not matching:
        raise merge_errors(broken)
    return matching


def merge_errors(broken: Sequence[PipelineInvalid]) -> PipelineInvalid:
    """The problems of several pipelines as one error."""
    return PipelineInvalid([problem for error in broken for problem in error.problems])


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause the collector: what is built stays, and searching all of Airflow for garbage took a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def _as_problem_of(file: Path) -> Iterator[None]:
    """Turn every exception, a bug of ours too, into a problem of this pipeline, so that the others still load."""
    try:
        yield
    except PipelineInvalid:
        raise
    except Exception as error:
        message = f"cannot make a DAG of it: {type(error).__name__}: {error}"
        raise PipelineInvalid([Problem(where=str(file), key="", message=message)]) from error


def _may_be_there(file: Path) -> bool:
    """Whether there is such a file; True where nobody may look, so that loading it says why."""
    try:
        return file.exists()
    except OSError:
        return True


def _missing(pipelines: Path, error: OSError) -> PipelineInvalid:
    absent = isinstance(error, FileNotFoundError)
    message = f"the folder of the pipelines {'is not there' if absent else f'cannot be read: {error.strerror}'}"
    allowed = "a folder that the services may read; mount its disk, or correct its rights"
    return PipelineInvalid([Problem(where=str(pipelines), key="", message=message, allowed=allowed)])


def _duplicate(file: Path, name: str, by: Path) -> PipelineInvalid:
    message = f"the pipeline in {by} already has the name {name!r}"
    return PipelineInvalid(
        [Problem(where=str(file), key="name", message=message, allowed="a name that no other pipeline has")]
    )
