"""`ratchet doctor [MODEL]`: whether the installation, or production of a model, is well, and what to do where not."""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from ratchet.checkout import PIPELINES
from ratchet.cli.model_version import split
from ratchet.cli.pipelines import add_store
from ratchet.cli.user import user_at_host
from ratchet.contracts.diagnosis import Diagnosis
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError
from ratchet.production.accept_loss import accept_loss
from ratchet.production.diagnosis import diagnose
from ratchet.production.register_again import register_again
from ratchet.runs.installation import diagnose_installation, is_of_this_host
from ratchet.runs.run_index import note_production
from ratchet.store.opening import open_store

_NOTE = """\
Without MODEL it looks at the whole installation: settings, versions, the store and its clock, the Docker engine, the
stage image, GPUs, the registry, Airflow, the pipeline files, and production of each model. `make up` looks
at its part of these before it starts. With MODEL it looks at the production of that model.

It repairs what is safe, and says so: an alias that does not name what the ledger names, a head of the ledger that lags
after a crash, damaged copies of the model's files in MLflow. The exit code is 0 if all is well, 1 if something is wrong
or could not be checked. See docs/operations.md and docs/rollback.md.
"""
_AIRFLOW_DAGS = "AIRFLOW__CORE__DAGS_FOLDER"
_AIRFLOW_URL = "AIRFLOW__API__BASE_URL"
"""Airflow's own setting of the address that people open it at."""
_TASKS_API = "AIRFLOW__CORE__EXECUTION_API_SERVER_URL"
"""That of the address at which a worker reaches it: http://api-server:8080/execution/."""
_MARKS = {True: "ok", False: "WRONG", None: "unchecked"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _NOTE
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="the registered model (default name: that of the pipeline); without it, the installation",
    )
    parser.add_argument(
        "--airflow",
        metavar="URL",
        default=_reached(),
        help=f"the address of Airflow (default: ${_AIRFLOW_URL}; without either, Airflow is left out)",
    )
    parser.add_argument(
        "--accept-loss",
        metavar="WHY",
        help="go on with a ledger whose newest records are lost and in no backup: it is cut to those that are whole, "
        "the alias follows, and promotions are held until `ratchet release MODEL`",
    )
    parser.add_argument(
        "--register-again",
        metavar="WHY",
        help="make a version of the model in production (of MODEL@VERSION: of one that was in production, to roll "
        "back to it) from the store, where the registry has lost it and no backup has it; the ledger stays as it is",
    )
    parser.add_argument("--by", metavar="NAME", default=None, help="who decides either (default: user@host)")
    add_store(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.model is not None:
        return _model(options)
    if options.accept_loss is not None or options.register_again is not None:
        raise ConfigurationError(
            "--accept-loss and --register-again are of one model", remedy="name it: ratchet doctor MODEL ..."
        )
    store, folder = open_store(options.store), _pipelines()
    found = diagnose_installation(
        store, airflow_url=options.airflow, opened_at=_opened() or options.airflow, pipelines=folder
    )
    return _print(found)


def _reached() -> str | None:
    """Airflow's address for what runs here: in a container one of this host leads to the container itself."""
    opened, tasks = _opened(), os.environ.get(_TASKS_API, "").rstrip("/").removesuffix("/execution")
    is_near = opened is not None and is_of_this_host(opened)
    return tasks if is_near and tasks else opened


def _opened() -> str | None:
    return os.environ.get(_AIRFLOW_URL) or None


def _pipelines() -> Path:
    """The folder of the pipelines: the setting's, else the one in Airflow's folder of DAGs, else the checkout's."""
    dags = os.environ.get(_AIRFLOW_DAGS)
    beside = Path(dags) / "pipelines" if dags else PIPELINES
    return environment().pipelines or (beside if beside.is_dir() else PIPELINES)


def _model(options: argparse.Namespace) -> int:
    model, version = split(options.model, version=None if options.register_again is not None else False)
    store, uri = open_store(options.store), environment().tracking_uri
    who = user_at_host() if options.by is None else options.by
    if options.accept_loss is not None:
        record = accept_loss(store, uri, model, by=who, because=options.accept_loss)
        if record is not None:
            note_production(store, record)
        cut = f"record {record.number}: {record.reason}" if record else "no record was whole: the ledger is empty now"
        print(f"{cut}; what did not belong to it is kept beside it")
    if options.register_again is not None:
        number = register_again(store, uri, model, version=version, by=who, because=options.register_again)
        which = f"the model that was version {version}" if version else "the model in production"
        print(f"{which} is registered again, as version {number} of {model}")
    return _print(diagnose(store, uri, model))


def _print(found: Iterable[Diagnosis]) -> int:
    """Print each line as soon as it is known. Whether one is not well, as the exit code."""
    code = 0
    for one in found:
        print(f"{_MARKS[one.well]:<9} {one.name:<10} {one.text}", flush=True)
        code = code if one.well else 1
    return code
