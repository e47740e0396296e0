"""`ratchet stage REQUEST`: the command of a container. Logs JSON lines, and ends with an exit code of the contract."""

import argparse
import configparser
import gc
import json
import os
from pathlib import Path

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import OtherCode, OtherRelease, Preempted
from ratchet.contracts.request import StageRequest
from ratchet.contracts.stored import read_stored
from ratchet.runtime.logs import StageLog, forward_library_logs

_COLLECT_AFTER = 50_000
"""New objects, instead of 700: torch's import creates 200,000, and collections would take a tenth of its time."""
_AWS_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("request", type=Path, metavar="REQUEST", help="the file with the request, as JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    gc.set_threshold(_COLLECT_AFTER)
    log = StageLog("stage")
    try:
        request = _read(options.request)
        log = StageLog(request.stage)
        forward_library_logs(log)
        _take_secrets()
        from ratchet.runtime.stage import run_stage

        return run_stage(request, log)
    except BaseException as error:  # noqa: BLE001 - every error becomes one line and one exit code
        if isinstance(error, KeyboardInterrupt):
            error = Preempted(f"{log.stage} was interrupted")
        return int(log.failure(error))


def _read(file: Path) -> StageRequest:
    """The request. Raises OtherCode for one of a release whose requests this one cannot read."""
    try:
        return read_stored(StageRequest, file.read_bytes(), where="the request")
    except OtherRelease as error:
        raise OtherCode(error.cause, remedy="build the images again: scripts/images.sh") from error


def _take_secrets() -> None:
    """Set the environment so that libraries read the secret files that the runner wrote beside the request.

    Deletes inherited AWS keys, because libraries would prefer them to the files.
    """
    folder = environment().secrets
    if folder is None:
        return
    if (folder / "aws-credentials").is_file():
        for name in _AWS_KEYS:
            os.environ.pop(name, None)
        os.environ["AWS_SHARED_CREDENTIALS_FILE"] = str(folder / "aws-credentials")
    if (folder / "mlflow-credentials").is_file():
        # MLflow reads its file only from the home folder, which a process shares with its user.
        parser = configparser.ConfigParser()
        parser.read(folder / "mlflow-credentials", encoding="utf-8")
        os.environ.update({name.upper(): value for name, value in parser["mlflow"].items()})
    if (folder / "environment.json").is_file():
        os.environ.update(json.loads((folder / "environment.json").read_text(encoding="utf-8")))
