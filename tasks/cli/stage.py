"""`ratchet stage REQUEST`: what a container runs. Speaks in JSON lines; its exit code is the contract's."""

import argparse
import configparser
import gc
import json
import os
import signal
import tempfile
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

from tasks.contracts import bundle
from tasks.contracts.errors import ConfigurationError, Preempted
from tasks.contracts.exits import ExitCode
from tasks.contracts.fingerprint import digest
from tasks.contracts.operations import Stage
from tasks.contracts.request import StageRequest
from tasks.runtime.code import code_parts
from tasks.runtime.logs import StageLog, forward_library_logs

_COLLECT_AFTER = 50_000
"""New objects, instead of 700: importing torch leaves 200,000, and looking at them so often is a tenth of its time."""
_AWS_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("request", type=Path, metavar="REQUEST", help="a StageRequest as JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    gc.set_threshold(_COLLECT_AFTER)
    log = StageLog("stage")
    try:
        request = StageRequest.model_validate_json(options.request.read_bytes())
        log = StageLog(request.stage)
        forward_library_logs(log)
        _take_secrets()
        return run_stage(request, log)
    except BaseException as error:  # noqa: BLE001 - whatever ends a stage becomes one line and one exit code
        if isinstance(error, KeyboardInterrupt):
            error = Preempted(f"{log.stage} was interrupted")
        return int(log.failure(error))


def run_stage(request: StageRequest, log: StageLog) -> int:
    """Run a stage's code on a request and publish what it made. Raises what the stage raises."""
    from tasks.runtime import cache  # noqa: PLC0415 - after the secrets are in place
    from tasks.runtime.context import StageContext  # noqa: PLC0415 - the same
    from tasks.runtime.publishing import Transaction  # noqa: PLC0415 - the same
    from tasks.runtime.store.opening import open_store  # noqa: PLC0415 - the same

    _refuse_other_code(request)
    store = open_store(request.store)
    stopping = Event()
    signal.signal(signal.SIGTERM, lambda *_: _stop(request.stage, stopping))
    with tempfile.TemporaryDirectory(prefix="ratchet-") as scratch, cache.scratch() as disk:
        folder = Path(scratch) / "pipeline"
        work = Path(scratch) / "work"
        folder.mkdir()
        work.mkdir()
        packed = store.read(request.bundle.key)
        if digest(packed) != request.bundle.sha256:
            raise ConfigurationError(f"{request.bundle.key} is damaged", remedy="plan the run again")
        bundle.unpack(packed, folder)
        context = StageContext(
            request=request,
            store=store,
            scratch=work,
            disk=disk,
            folder=folder,
            log=log,
            transaction=Transaction(store, request.prefix, request.attempt),
            stopping=stopping,
        )
        stage: Any = import_module(f"tasks.{request.stage}.stage")
        try:
            finished = stage.run(context)
        except BaseException:
            context.transaction.abandon()
            raise
        published = context.transaction.commit(
            stage=request.stage,
            fingerprint=request.fingerprint,
            parts=request.parts,
            content=finished.content,
            summary=finished.summary.model_dump(mode="json", by_alias=True),
            metrics=finished.metrics,
            timings={name: round(seconds, 4) for name, seconds in context.timings.items()},
        )
    log.event("published", f"published {published.key}", key=published.key, reused=published.reused)
    return int(ExitCode.DONE)


def _stop(stage: Stage, stopping: Event) -> None:
    """A notice to stop: training looks at the event and saves its work; the others have nothing to save."""
    stopping.set()
    if stage != "train":
        raise Preempted(f"{stage} was told to stop")


def _refuse_other_code(request: StageRequest) -> None:
    """A fingerprint speaks of the code that it was computed from; other code must not publish under it."""
    ours = code_parts(f"tasks.{request.stage}.stage")
    theirs = {name: value for name, value in request.parts.items() if name.startswith("code.")}
    if ours != theirs:
        differ = sorted(name.removeprefix("code.") for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
        raise ConfigurationError(
            f"the code of this image is not that of the run; they differ in {', '.join(differ[:3])}",
            remedy="build the images again: scripts/images.sh",
        )


def _take_secrets() -> None:
    """Point libraries at the secret files that the runner has put beside the request.

    A stage has the keys in its files alone: what it may have inherited, as a process does, would come before them.
    """
    folder = Path(os.environ.get("RATCHET_SECRETS", "/nonexistent"))
    if (folder / "aws-credentials").is_file():
        for name in _AWS_KEYS:
            os.environ.pop(name, None)
        os.environ["AWS_SHARED_CREDENTIALS_FILE"] = str(folder / "aws-credentials")
    if (folder / "mlflow-credentials").is_file():
        # MLflow looks for its file in the home folder alone, which a process shares with its user.
        parser = configparser.ConfigParser()
        parser.read(folder / "mlflow-credentials", encoding="utf-8")
        os.environ.update({name.upper(): value for name, value in parser["mlflow"].items()})
    if (folder / "environment.json").is_file():
        os.environ.update(json.loads((folder / "environment.json").read_text(encoding="utf-8")))
