"""Whether an installation can run its nights: one line for each thing that a night needs, with what to do.

Nothing is changed but a small file in the store, which is deleted again, and what `doctor MODEL` repairs.
"""

import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from ratchet.contracts import paths
from ratchet.contracts.diagnosis import Diagnosis
from ratchet.contracts.environment import alert_urls, alert_variable, environment, variable
from ratchet.contracts.errors import ConfigurationError, PipelineInvalid, RatchetError
from ratchet.contracts.joins import sources
from ratchet.contracts.loading import FILE, load
from ratchet.contracts.masking import mask
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.settings_check import diagnose_settings
from ratchet.production.diagnosis import diagnose
from ratchet.runners.diagnosis import diagnose_runner
from ratchet.runs.airflow_health import diagnose_airflow
from ratchet.runs.servers_health import diagnose_servers
from ratchet.runtime.release import stage_libraries
from ratchet.runtime.source_variables import expand
from ratchet.store.base import Store
from ratchet.store.diagnosis import diagnose_store
from ratchet.store.ledger import champion
from ratchet.tracking.diagnosis import diagnose_registry


def diagnose_installation(
    store: Store, *, airflow_url: str | None, opened_at: str | None, pipelines: Path
) -> Iterator[Diagnosis]:
    """Look at everything, in the order in which a night needs it.

    airflow_url: where Airflow answers here. opened_at: where people open it. pipelines: the folder with their folders.
    """
    yield from diagnose_settings()
    yield diagnose_versions()
    found = list(diagnose_store(store))
    yield from found
    yield from _checked("engine", diagnose_runner)
    uri = environment().tracking_uri
    yield (registry := diagnose_registry(uri))
    yield from _keeping()
    if airflow_url is not None:
        yield from diagnose_airflow(airflow_url)
    if all(one.well for one in found):
        yield from _checked("servers", lambda: diagnose_servers(store))
    specs: list[PipelineSpec] = []
    yield from _pipelines(pipelines, specs)
    yield from _checked("sources", lambda: _sources(specs))
    yield from _receivers(specs)
    if any(spec.alerts.to for spec in specs):
        yield from _checked("alerts", lambda: _outside(opened_at))
    if all(one.well for one in (*found, registry)):
        yield from _production(store, uri, specs)
    else:
        which = "store" if registry.well else "registry" if all(one.well for one in found) else "store and the registry"
        text = f"not checked, since the {which} could not be"
        yield Diagnosis(name="production", well=None, text=text)


def _checked(name: str, look: Callable[[], Iterator[Diagnosis]]) -> Iterator[Diagnosis]:
    """What it finds; where it cannot, a line that says so, as with a wrong setting. The lines after it come as well."""
    try:
        yield from look()
    except RatchetError as error:
        yield Diagnosis(name=name, well=None, text=f"not checked: {error.cause}; {error.remedy}")


def diagnose_versions() -> Diagnosis:
    """Whether the libraries here that results depend on are those of the stage image."""
    version = ".".join(map(str, sys.version_info[:3]))
    try:
        pinned = stage_libraries()
    except ConfigurationError as error:
        return Diagnosis(name="versions", well=False, text=f"{error.cause}; {error.remedy}")
    here = {name: found for name in pinned if (found := _installed(name)) is not None}
    other = [f"{name} {found} (the lock has {pinned[name]})" for name, found in here.items() if found != pinned[name]]
    if other:
        text = f"Python {version}; other versions than the stage image has: {', '.join(other)}; run `make environment`"
        return Diagnosis(name="versions", well=False, text=text)
    return Diagnosis(name="versions", well=True, text=f"Python {version}; {len(here)} libraries as in the stage image")


def _keeping() -> Iterator[Diagnosis]:
    """Whether anything is deleted by itself. A person chooses that, and should know where nobody has."""
    try:
        policy = environment().gc
    except ConfigurationError:
        return  # the line of the settings has it
    text = f"what nothing needs is deleted once a week; results of runs stay {policy.results} days"
    if not policy.weekly:
        text = (
            "nothing is deleted by itself, so the store and Airflow's database grow: put `weekly` into "
            f"{variable('gc')}, or see `ratchet gc`"
        )
    yield Diagnosis(name="keeping", well=True, text=text)


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def _pipelines(folder: Path, specs: list[PipelineSpec]) -> Iterator[Diagnosis]:
    """Read every pipeline file. specs: gets those that are right."""
    files = sorted(folder.glob(f"*/{FILE}"))
    for file in files:
        try:
            specs.append(load(file))
        except PipelineInvalid as error:
            text = f"{error.problems[0]}; `ratchet check {file.parent}` says all"
            yield Diagnosis(name="pipelines", well=False, text=text)
    if not files:
        text = f"{folder} has no folder with a {FILE}; set {variable('pipelines')}"
        yield Diagnosis(name="pipelines", well=False, text=text)
    elif specs:
        yield Diagnosis(name="pipelines", well=True, text=f"{len(specs)} in {folder} are right")


def _sources(specs: list[PipelineSpec]) -> Iterator[Diagnosis]:
    """Whether the variables that the pipelines' sources name are set here, and allowed."""
    wrong = False
    for spec in specs:
        for path, source in sources(spec):
            try:
                expand(source.uri, secret=source.kind == "sql")
            except ConfigurationError as error:
                cause = error.cause.replace("source.uri", ".".join((*path, "uri")), 1)
                yield Diagnosis(name="sources", well=False, text=f"{spec.name}: {cause}; {error.remedy}")
                wrong = True
    if specs and not wrong:
        yield Diagnosis(name="sources", well=True, text="the variables of all sources are set; no source was asked")


def _receivers(specs: list[PipelineSpec]) -> Iterator[Diagnosis]:
    """Whether each receiver of alerts has an address here; Airflow may have it as a connection."""
    names = sorted({name for spec in specs for name in spec.alerts.to})
    if specs and not names:
        yield Diagnosis(name="alerts", well=True, text="no pipeline names a receiver, so nobody is alerted")
    for name in names:
        found, setting = alert_urls(name), alert_variable(name)
        if found:
            yield Diagnosis(name="alerts", well=True, text=f"{name} has {len(found)} addresses")
        elif found is None:
            text = f"{name}: {setting} is not set; set it, or create Airflow's connection ratchet_alerts_{name}"
            yield Diagnosis(name="alerts", well=None, text=text)
        else:
            yield Diagnosis(name="alerts", well=False, text=f"{name}: {setting} is empty, so nobody is alerted; set it")


def is_of_this_host(address: str) -> bool:
    """Whether it leads from each host to that host itself."""
    return urlsplit(address).hostname in {"localhost", "127.0.0.1", "::1"}


def _outside(opened_at: str | None) -> Iterator[Diagnosis]:
    """What people who are not at this host see of alerts. Nothing here is wrong; it may be too little."""
    here = environment()
    link = here.public_airflow_url or opened_at
    if link is not None:
        more = f", which only this host can open; set {variable('public_airflow_url')}" if is_of_this_host(link) else ""
        yield Diagnosis(name="alerts", well=True, text=f"links begin with {mask(link)}{more}")


def _production(store: Store, uri: str | None, specs: list[PipelineSpec]) -> Iterator[Diagnosis]:
    """What is not well with the model of each pipeline and of each ledger; a line for each model that is well."""
    recorded = {entry.key.split("/")[1] for entry in store.list(paths.ledger())}
    for model in sorted({*recorded, *(spec.model_name for spec in specs)}):
        try:
            live = champion(store, model)
        except RatchetError:
            live = None  # `diagnose` says what is wrong
        else:
            if live is None:
                yield Diagnosis(name="production", well=True, text=f"{model}: no model yet")
                continue
        wrong = [one for one in diagnose(store, uri, model) if not one.well]
        for one in wrong:
            yield Diagnosis(name="production", well=one.well, text=f"{model}: {one.name}: {one.text}")
        if not wrong:
            version = live.version if live else ""
            text = f"{model}: version {version}; ledger, alias and files agree"
            yield Diagnosis(name="production", well=True, text=text)
