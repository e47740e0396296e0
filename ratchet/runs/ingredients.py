"""The ingredients of a recorded version: which are gone or damaged, and which are not what they were.

A change here violates the promise of the project when a rebuild goes on without an ingredient, or reads a source.
"""

from collections.abc import Iterator, Mapping

from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.result import Artifact, StageResult
from ratchet.contracts.stages import Stage
from ratchet.contracts.version_record import VersionRecord
from ratchet.runtime.release import stage_code
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store
from ratchet.store.cache import scratch

_COMPUTED: frozenset[Stage] = frozenset({"features", "train", "evaluate", "refit"})
_SHOWN = 5


def computed(record: VersionRecord) -> tuple[Stage, ...]:
    """The stages that a rebuild computes. What ingest and validate did is in the record: the snapshot, and its days."""
    return tuple(stage for stage in record.spec.sequence if stage in _COMPUTED)


def gone(store: Store, record: VersionRecord) -> list[str]:
    """What a rebuild needs and the store does not have whole, a line each."""
    needed = {f"the pipeline's folder ({record.bundle.key})": record.bundle}
    excluded = set(record.excluded)
    for day in record.snapshot.days:
        if day.day not in excluded:
            needed[f"the snapshot's rows of {day.day} ({day.file.key})"] = day.file
    return [f"{name} {found}" for name, artifact in needed.items() if (found := lack(store, artifact))]


def other_code(record: VersionRecord) -> list[str]:
    """Our modules that are not those of the record, a line for each stage."""
    lines = []
    for stage in computed(record):
        if stage not in record.stages:
            continue
        here = {name.removeprefix("code."): sha for name, sha in stage_code(stage).items()}
        if names := _unlike(record.stages[stage].code(), here):
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            lines.append(f"our code of {stage} differs in {', '.join(names[:_SHOWN])}{more}")
    return lines


def other_environment(record: VersionRecord, rebuilt: Mapping[Stage, StageResult]) -> Iterator[str]:
    """What really ran then and now, where it differs, a line for each stage and fact."""
    for stage, result in rebuilt.items():
        then, now = record.stages[stage].environment if stage in record.stages else None, result.environment
        if then is not None and now is not None:
            yield from (f"{stage}: {line}" for line in then.differences(now))


def _unlike(then: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*then, *here} if then.get(name) != here.get(name))


def lack(store: Store, artifact: Artifact) -> str:
    """How a file is lacking: `is gone`, `is damaged`; empty if it is whole."""
    if store.head(artifact.key) is None:
        return "is gone"
    with scratch() as folder:
        try:
            fetch(store, artifact, folder)
        except CorruptArtifact:
            return "is damaged"
    return ""
