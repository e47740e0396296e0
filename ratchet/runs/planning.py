"""Planning: everything that is decided before the first stage of a run, and written once."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import urlsplit

from ratchet.contracts import bundle, dates, paths
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import AsOf, RunKind, RunPlan
from ratchet.contracts.result import Artifact
from ratchet.runs.baseline import Mode, drift_reference, promotion
from ratchet.runs.history import first_valid_source
from ratchet.runs.pins import pins
from ratchet.runtime.sources import list_days
from ratchet.store.base import Store
from ratchet.store.opening import open_store


def make_plan(
    *,
    folder: Path,
    spec: PipelineSpec,
    data_date: date,
    run_id: str,
    kind: RunKind,
    store_uri: str,
    tracking_uri: str | None = None,
    overrides: Mapping[str, str] | None = None,
    rebuild: bool = False,
    promote: Mode | None = None,
    image: str | None = None,
    as_of: AsOf = "now",
    origin: str = "",
    publish: bool = True,
) -> RunPlan:
    """Decide a run, and publish its plan and its bundle unless `publish` is False.

    A run_id that has a plan gets that plan. as_of: `then` takes the source as the first run of this date whose
    validation passed saw it, without later changes. origin: the orchestrator's own name of the run.

    Raises ConfigurationError (a wrong folder or source, a password in the tracking server's address), Unavailable (a
    store that does not answer).
    """
    if urlsplit(tracking_uri or "").password is not None:
        raise ConfigurationError(
            "MLFLOW_TRACKING_URI holds a password, and everyone who reads the store can read a plan",
            remedy=f"remove it, and name a file that has it in {variable('mlflow_credentials')}",
        )
    store = open_store(store_uri)
    key = paths.plan(spec.name, run_id)
    if (earlier := _read(store, key)) is not None:
        return earlier
    store.prepare()  # first of all: a new folder is given to the user of the stages only while it is empty
    packed = bundle.pack(folder)
    root, source = list_days(spec.source, dates.window(data_date, spec.source.window_days))
    if as_of == "then":
        then = first_valid_source(store, spec.name, data_date)
        source = tuple(then.get(each.day, each) for each in source)
    plan = RunPlan(
        run_id=run_id,
        origin=origin,
        kind=kind,
        spec=spec,
        bundle=Artifact(key=paths.bundle(digest(packed)), sha256=digest(packed), bytes=len(packed)),
        user_files=bundle.python_files(folder),
        data_date=data_date,
        source_root=root,
        source=source,
        as_of=as_of,
        promotion=promotion(
            store, spec.model_name, data_date=data_date, kind=kind, configured=spec.register_.promote, asked=promote
        ),
        champion=drift_reference(store, spec.model_name, data_date),
        store=store.uri,
        tracking_uri=tracking_uri,
        pins=pins(folder, image),
        overrides=dict(overrides or {}),
        rebuild=rebuild,
        created=datetime.now(UTC),
    )
    if not publish:
        return plan
    store.create(plan.bundle.key, packed)
    store.create(key, plan.model_dump_json(by_alias=True, indent=1).encode())
    store.create(paths.night(spec.name, data_date, run_id), b"")
    return _read(store, key) or plan


def load_plan(store_uri: str, pipeline: str, run_id: str) -> RunPlan:
    """The plan of a run. Raises ConfigurationError where there is none."""
    plan = _read(open_store(store_uri), paths.plan(pipeline, run_id))
    if plan is None:
        raise ConfigurationError(
            f"{pipeline}: no run {run_id!r} in {store_uri}",
            remedy=f"list the runs of {pipeline} with `ratchet why {pipeline}`",
        )
    return plan


def _read(store: Store, key: str) -> RunPlan | None:
    try:
        return RunPlan.model_validate_json(store.read(key))
    except FileNotFoundError:
        return None
