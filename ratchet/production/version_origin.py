"""Where a registered version comes from, and what the ledger records of it.

Its own record says so, which is found by the digest of the model. A version of an earlier release has none: then it is
the run that its tags name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.gate import Register
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.result import Artifact, StageResult
from ratchet.contracts.stages import STAGES, Stage
from ratchet.contracts.version_record import VersionRecord
from ratchet.production.recipe import recipe
from ratchet.store.base import Store
from ratchet.store.documents import read_document
from ratchet.store.ledger import Record
from ratchet.store.version_records import find_record
from ratchet.tracking.registry import FINGERPRINT, PIPELINE, RUN, Version

_AFTER = frozenset({"register", "report"})


@dataclass(frozen=True, kw_only=True)
class Origin:
    """record: as if the version were the champion. spec, bundle: of its run."""

    record: Record
    spec: PipelineSpec
    bundle: Artifact


def rules_of(store: Store, origin: Origin) -> Register:
    """The rules for the promotion of a version: those of the newest run of its pipeline, or of its own if stricter.

    An older version does not know the rules that were made since. Stricter are those that ask for more people, and
    among these the ones that name who may answer. They are taken whole: the people of one and the number of the other
    could be impossible to meet.
    """
    return max(_newest(store, origin), origin.spec.register_, key=lambda one: (one.approvals, bool(one.approvers)))


def _newest(store: Store, origin: Origin) -> Register:
    """The section of the newest run of the newest date; that of the version's own run where no plan is left."""
    pipeline = origin.record.pipeline
    nights: dict[date, list[str]] = {}
    for entry in store.list(paths.nights(pipeline)):
        nights.setdefault(paths.night_date(entry.key), []).append(paths.last(entry.key))
    for _, run_ids in sorted(nights.items(), reverse=True):
        plans = [plan for run_id in run_ids if (plan := _plan(store, pipeline, run_id)) is not None]
        if plans:  # by their own time: the files of a store that was copied have others
            return max(plans, key=lambda plan: plan.created).spec.register_
    return origin.spec.register_


def origin_of(store: Store, model: str, version: Version, *, pipelines: Iterable[str]) -> Origin:
    """Find what a version was made from. pipelines: where to look if it has no record, and its tags name none.

    Raises ConfigurationError if the store has neither its record nor a whole run, CorruptArtifact if its record is
    damaged: then its tags are not believed.
    """
    if (kept := find_record(store, model, version.number, version.digest)) is not None:
        return _recorded(version, kept)
    run_id = version.tags.get(RUN, "")
    for pipeline in dict.fromkeys(filter(None, (version.tags.get(PIPELINE, ""), *pipelines, model))):
        plan = _plan(store, pipeline, run_id)
        if plan is None:
            continue
        ended = {stage: found for stage in STAGES if (found := _outcome(store, pipeline, run_id, stage))}
        results = {stage: outcome.result for stage, outcome in ended.items() if outcome.result is not None}
        if {"ingest", "train", "evaluate"} <= results.keys():
            manifests = {str(stage): one.manifest for stage, one in ended.items() if one.manifest}
            return _tagged(model, version, plan, results, manifests)
    raise ConfigurationError(
        f"the store has no record of run {run_id or '?'}, which made version {version.number} of {model}",
        remedy="check --store; a version whose run is gone can serve, but not enter the ledger: train it again",
    )


def _recorded(version: Version, kept: VersionRecord) -> Origin:
    """By the record of the version."""
    training = kept.stages["refit" if kept.refit is not None else "train"]
    record = Record(
        number=1,
        model=kept.model,
        action="promote",
        version=version.number,
        fingerprint=training.fingerprint,
        model_digest=kept.digest,
        manifests={str(stage): one.manifest for stage, one in kept.stages.items() if stage not in _AFTER},
        data_date=kept.data_date,
        window_start=kept.snapshot.days[0].day,
        pipeline=kept.pipeline,
        run_id=kept.run_id,
        reason="",
        baseline=None,
        let_in=kept.let_in,
        recorded=datetime.now(UTC),
        recipe=recipe(kept.stages["train"].parts),
        refit_of=kept.trained.digest if kept.refit is not None else None,
        scoring=version.scoring,
    )
    return Origin(record=record, spec=kept.spec, bundle=kept.bundle)


def _tagged(
    model: str, version: Version, plan: RunPlan, results: dict[Stage, StageResult], manifests: dict[str, str]
) -> Origin:
    """By the run that the tags of the version name."""
    shipped = results.get("refit", results["train"])
    trained, snapshot = summaries.trained(shipped), summaries.snapshot(results["ingest"])
    used = {*trained.split.train, *trained.split.valid, *trained.split.holdout}
    record = Record(
        number=1,
        model=model,
        action="promote",
        version=version.number,
        fingerprint=version.tags.get(FINGERPRINT) or shipped.fingerprint,
        model_digest=version.digest,
        manifests={name: key for name, key in manifests.items() if name not in _AFTER},
        data_date=plan.data_date,
        window_start=snapshot.days[0].day,
        pipeline=plan.spec.name,
        run_id=plan.run_id,
        reason="",
        baseline=None,
        let_in=tuple(one for one in plan.days.counted(snapshot) if one.day in used),
        recorded=datetime.now(UTC),
        recipe=recipe(results["train"].parts),
        refit_of=trained.refit.of if trained.refit else None,
        scoring=version.scoring,
    )
    return Origin(record=record, spec=plan.spec, bundle=plan.bundle)


def _plan(store: Store, pipeline: str, run_id: str) -> RunPlan | None:
    if not run_id:
        return None
    try:
        return read_document(store, paths.plan(pipeline, run_id), RunPlan)
    except FileNotFoundError:
        return None


def _outcome(store: Store, pipeline: str, run_id: str, stage: Stage) -> Outcome | None:
    try:
        return read_document(store, paths.outcome(pipeline, run_id, stage), Outcome)
    except FileNotFoundError:
        return None
