"""The pipelines that are there: folders with a pipeline.yaml, read and built one by one so that none harms another."""

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
"""`ratchet_airflow.dag.build`, handed in, as who only reads pipelines does without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A good pipeline and its folder."""

    folder: Path
    spec: PipelineSpec


def root(dag_file: str) -> Path:
    """RATCHET_PIPELINES, or the folder `pipelines` beside the DAG file."""
    return environment().pipelines or Path(dag_file).resolve().parent / "pipelines"


def read(pipelines: Path) -> tuple[list[Found], list[PipelineInvalid]]:
    """Every good pipeline in order of its folder's name, and what is wrong with each of the others."""
    found: dict[str, Found] = {}
    broken: list[PipelineInvalid] = []
    for file in sorted(pipelines.glob(f"*/{FILE}")):
        try:
            with _as_problem_of(file):
                spec = load(file)
                if (earlier := found.get(spec.name)) is not None:
                    raise _taken(file, spec.name, earlier.folder)
        except PipelineInvalid as error:
            broken.append(error)
        else:
            found[spec.name] = Found(folder=file.parent, spec=spec)
    return list(found.values()), broken


def build_all(pipelines: Path, build: Build) -> tuple[list[DAG], list[PipelineInvalid]]:
    """The DAG of every pipeline of which Airflow takes it, and what is wrong with each of the others."""
    with _without_collecting():
        found, broken = read(pipelines)
        dags: list[DAG] = []
        for pipeline in found:
            try:
                dags.append(build_one(pipeline, build))
            except PipelineInvalid as error:
                broken.append(error)
        return dags, broken


def build_one(pipeline: Found, build: Build) -> DAG:
    """A pipeline's DAG, as Airflow takes it. Raises PipelineInvalid for whatever keeps it from that."""
    with _as_problem_of(pipeline.folder / FILE):
        dag = build(pipeline.spec, pipeline.folder)
        # Airflow does so too, later, and holds what is wrong against the whole DAG file.
        dag.validate()  # type: ignore[no-untyped-call]
        dag.check_cycle()
    return dag


def read_one(pipelines: Path, name: str) -> list[Found]:
    """The pipeline of that name, nearly always the one in the folder of that name.

    Raises PipelineInvalid if it is not among the good ones and something is wrong with any: that is why it is missing.
    """
    file = pipelines / name / FILE
    if file.is_file():
        with _as_problem_of(file):
            spec = load(file)
        if spec.name == name:
            return [Found(folder=file.parent, spec=spec)]
    found, broken = read(pipelines)
    matching = [pipeline for pipeline in found if pipeline.spec.name == name]
    if broken and not matching:
        raise together(broken)
    return matching


def together(broken: Sequence[PipelineInvalid]) -> PipelineInvalid:
    """The problems of several pipelines as one error."""
    return PipelineInvalid([problem for error in broken for problem in error.problems])


@contextmanager
def _without_collecting() -> Iterator[None]:
    """What is built stays: there is no garbage, and looking for it in all of Airflow took a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def _as_problem_of(file: Path) -> Iterator[None]:
    """Whatever is raised is a problem of this pipeline: not even a bug that one meets may take the others down."""
    try:
        yield
    except PipelineInvalid:
        raise
    except Exception as error:
        message = f"no DAG can be made of it: {type(error).__name__}: {error}"
        raise PipelineInvalid([Problem(where=str(file), key="", message=message)]) from error


def _taken(file: Path, name: str, by: Path) -> PipelineInvalid:
    message = f"{name!r} is the name of the pipeline in {by} already"
    return PipelineInvalid([Problem(where=str(file), key="name", message=message, allowed="a name of its own")])
