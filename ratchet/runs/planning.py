"""Planning: everything that is decided before the first stage of a run, and written once."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import urlsplit

from ratchet.contracts import bundle, dates, paths
from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.gate_keys import gate_keys, refuse_gate_overrides, refuse_other_production, refuse_promotion
from ratchet.contracts.joins import sources
from ratchet.contracts.loading import load
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import (
    AsOf,
    FurtherDays,
    Promotion,
    RunKind,
    RunPlan,
    SourceDay,
    names_another_source,
)
from ratchet.contracts.result import Artifact
from ratchet.production.baseline import Mode, drift_reference, promotion
from ratchet.production.findings import unreadable
from ratchet.production.reconcile import reconcile, sentences
from ratchet.runs.chain import chain_of
from ratchet.runs.code_of_plan import installed_code
from ratchet.runs.day_records import day_states
from ratchet.runs.history import first_judged, seen_days
from ratchet.runs.newest import write_mark
from ratchet.runs.parents import find_parent
from ratchet.runs.past_rows import past_rows_stay
from ratchet.runs.pins import pins
from ratchet.runs.run_index import note_plan
from ratchet.runtime.further_days import days_to_join, further_days, of_join
from ratchet.runtime.held_days import source_days
from ratchet.runtime.source_reach import check_reach
from ratchet.store.base import Store
from ratchet.store.documents import read_document
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
    started_by: str = "",
    rebuild: bool = False,
    promote: Mode | None = None,
    image: str | None = None,
    as_of: AsOf = "now",
    origin: str = "",
    chain: str = "",
    latest: bool = False,
    publish: bool = True,
) -> RunPlan:
    """Decide a run, and publish its plan and its bundle unless `publish` is False.

    A run_id that has a plan gets that plan. A bundle whose bytes in the store are damaged is written again. as_of:
    `then` takes the source as the first run of this date that came to a verdict saw it, without later changes. origin:
    the orchestrator's own name of the run. started_by: the user. chain: of the dates that one local command runs.
    latest: whether this is the last of them, which a person lets promote.

    Raises ConfigurationError (a wrong folder or source, a source that pipelines may not read, a password in the
    tracking server's address, an override of a gate that only the file may change, more promotion than the file
    allows), and Unavailable (a store that does not answer).
    """
    if urlsplit(tracking_uri or "").password is not None:
        raise ConfigurationError(
            "MLFLOW_TRACKING_URI holds a password, and everyone who reads the store can read a plan",
            remedy=f"remove it, and name a file that has it in {variable('mlflow_credentials')}",
        )
    if promote is not None or "name" in (overrides or ()) or gate_keys(overrides or ()):
        of_file = load(folder)
        refuse_other_production((of_file.name, of_file.model_name), (spec.name, spec.model_name))
        allowed = of_file.register_.promote
        refuse_gate_overrides(overrides or {}, allowed, spec.name)
        refuse_promotion(promote, allowed, spec.name)
    store = open_store(store_uri)
    key = paths.plan(spec.name, run_id)
    ours = environment().installation or ""
    if (earlier := _read(store, key)) is not None:
        _refuse_foreign(earlier, ours)
        store.create(paths.night(spec.name, earlier.data_date, run_id), b"")
        _store_bundle(store, earlier.bundle, lambda: bundle.pack(folder))
        note_plan(store, earlier)
        return earlier
    now = datetime.now(UTC)
    store.prepare()  # first of all: a new folder is given to the user of the stages only while it is empty
    packed = bundle.pack(folder)
    own = not names_another_source(overrides or ())
    first = first_judged(store, spec.name, data_date) if as_of == "then" and own else None
    as_of = "then" if first is not None else "now"
    root, source = _source(
        store, spec, dates.window(data_date, spec.source.window_days), first, own=own, rebuild=rebuild
    )
    if any(day.held is None and (day.files or as_of == "now") for day in source):
        check_reach(spec.source, root, source, store)
    joins = _joins(store, spec, source, first, own=own, rebuild=rebuild)
    if publish:  # before the champion of the date is looked up: from now on, no change of production is in office on it
        write_mark(store, paths.night(spec.name, data_date, run_id))
    production = reconcile(store, tracking_uri, spec.model_name, look=not publish)
    authority = production.finding
    parent, fresh = find_parent(store, spec, data_date, "backfill" if chain else kind)
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
        joins=joins,
        as_of=as_of,
        promotion=Promotion(mode="never", reason=str(authority))
        if unreadable(authority)
        else promotion(
            store,
            spec.model_name,
            data_date=data_date,
            kind="backfill" if chain else kind,
            configured=spec.register_.promote,
            asked=promote,
        ),
        champion=None if unreadable(authority) else drift_reference(store, spec.model_name, data_date),
        chain=chain_of(store, spec.name, spec.model_name, data_date, overrides=overrides or {}, now=now)
        if kind == "backfill"
        else chain,
        latest=latest,
        parent=parent,
        fresh=fresh,
        installation=ours,
        authority=authority,
        production=tuple(sentences(spec.model_name, production)),
        store=store.uri,
        tracking_uri=tracking_uri,
        pins=pins(folder, image),
        code=installed_code(store if publish else None),
        overrides=dict(overrides or {}),
        started_by=started_by,
        rebuild=rebuild,
        days=day_states(store, spec.name, dates.window(data_date, spec.source.window_days)[:-1]),
        refused_by=_refused_by(store, spec, data_date) if first is None else "",
        created=now,
    )
    if not publish:
        return plan
    _store_bundle(store, plan.bundle, lambda: packed)
    with past_rows_stay(store, plan):
        store.create(key, plan.model_dump_json(by_alias=True, indent=1).encode())
    planned = _read(store, key) or plan
    _refuse_foreign(planned, ours)
    note_plan(store, planned)
    return planned


def _source(
    store: Store, spec: PipelineSpec, window: Sequence[date], first: RunPlan | None, *, own: bool, rebuild: bool
) -> tuple[str, tuple[SourceDay, ...]]:
    """The root of the source, and the days of the window; `first`: the run whose days are taken as it saw them.

    Where that run had all days of the window, the source is not listed, for it may be gone.
    """
    then = seen_days(store, first, spec) if first is not None else {}
    if first is not None and all(day in then for day in window):
        return first.source_root, tuple(then[day] for day in window)
    root, listed = source_days(store, spec, window, own=own, rebuild=rebuild)
    return root, tuple(then.get(each.day, each) for each in listed)


def _joins(
    store: Store,
    spec: PipelineSpec,
    source: tuple[SourceDay, ...],
    first: RunPlan | None,
    *,
    own: bool,
    rebuild: bool,
) -> dict[str, FurtherDays]:
    """The days of the further sources; `first`: see `_source`. What has changed since then is seen by ingest."""
    days = days_to_join(source, then=first is not None)
    if not days or not spec.joins:
        return {}
    if first is not None and first.spec.joins == spec.joins and {*days} <= {day.day for day in first.source}:
        return first.joins
    found = further_days(store, spec, days, own=own, rebuild=rebuild)
    for name, planned in found.items():
        with of_join(name):
            check_reach(spec.joins[name].source, planned.root, planned.days, store)
    return found


def _refuse_foreign(plan: RunPlan, ours: str) -> None:
    """Raise ConfigurationError if another installation has planned a run of this id. One of before had no name."""
    if plan.installation in {"", ours}:
        return
    here = f"this is {ours}" if ours else f"{variable('installation')} is not set here"
    raise ConfigurationError(
        f"run {plan.run_id} of {plan.spec.name} belongs to the installation {plan.installation}, and {here}",
        remedy=f"set {variable('installation')} as it was, or give each installation a store of its own",
    )


def _refused_by(store: Store, spec: PipelineSpec, data_date: date) -> str:
    """The run that refused the rows of a query. A database does not report that they have been corrected since."""
    states = day_states(store, spec.name, [data_date])
    asks = "sql" in {source.kind for _, source in sources(spec)}
    return states.refused[0].run_id if asks and states.refused and not states.admitted else ""


def _store_bundle(store: Store, artifact: Artifact, pack: Callable[[], bytes]) -> None:
    """Store the packed folder of a plan, in the place of bytes that are damaged. A folder that changed is no repair."""
    entry = store.head(artifact.key)
    with suppress(FileNotFoundError):
        if digest(store.read(artifact.key)) == artifact.sha256:
            return
    packed = pack()
    if digest(packed) == artifact.sha256:
        store.replace(artifact.key, packed, expected=entry.etag if entry else None)


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
        return read_document(store, key, RunPlan)
    except FileNotFoundError:
        return None
