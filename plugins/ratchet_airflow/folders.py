"""The pipelines that are there: folders with a pipeline.yaml, read one by one so that none can harm another."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.contracts.errors import PipelineInvalid, Problem
from tasks.contracts.loading import FILE, load
from tasks.contracts.pipeline import PipelineSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A good pipeline and its folder."""

    folder: Path
    spec: PipelineSpec


def root(dag_file: str) -> Path:
    """RATCHET_PIPELINES, or the folder `pipelines` beside the DAG file."""
    given = os.environ.get("RATCHET_PIPELINES")
    return Path(given) if given else Path(dag_file).resolve().parent / "pipelines"


def read(pipelines: Path) -> tuple[list[Found], list[PipelineInvalid]]:
    """Every good pipeline in order of its folder's name, and what is wrong with each of the others."""
    found: dict[str, Found] = {}
    broken: list[PipelineInvalid] = []
    for file in sorted(pipelines.glob(f"*/{FILE}")):
        try:
            spec = load(file)
            if (earlier := found.get(spec.name)) is not None:
                raise _taken(file, spec.name, earlier.folder)
        except PipelineInvalid as error:
            broken.append(error)
        else:
            found[spec.name] = Found(folder=file.parent, spec=spec)
    return list(found.values()), broken


def read_one(pipelines: Path, name: str) -> list[Found]:
    """The pipeline of that name, nearly always the one in the folder of that name.

    Raises PipelineInvalid if it is not among the good ones and something is wrong with any: that is why it is missing.
    """
    file = pipelines / name / FILE
    if file.is_file():
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


def _taken(file: Path, name: str, by: Path) -> PipelineInvalid:
    message = f"{name!r} is the name of the pipeline in {by} already"
    return PipelineInvalid([Problem(where=str(file), key="name", message=message, allowed="a name of its own")])
