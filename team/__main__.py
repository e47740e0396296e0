"""The team set-up: the verbs of `make up`, `down`, `ps`, `logs`, `backup` and `restore`."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ratchet.checkout import ROOT
from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable
from ratchet.runners.devices import host_devices, why_silent
from team import backup, preflight, secret_files
from team.backup_folder import backups_of, describe_last
from team.ending import end_stages
from team.s3_rights import iam_policies
from team.settings import Settings
from team.settings_file import read
from team.stack import Member, Stack

_WELL_S = 420
_ON_EACH_HOST = ("up", "down", "ps", "logs")


def main() -> int:
    """Run one of the verbs."""
    parser = argparse.ArgumentParser(prog="python -m team", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("up", help="start the stack, or update it to the .env and the checkout of now")
    down = verbs.add_parser("down", help="stop the stack and keep its data")
    down.add_argument("--volumes", action="store_true", help="also delete all its data, secrets included")
    verbs.add_parser("ps", help="the state of each container; exits with 69 if one is not healthy")
    logs = verbs.add_parser("logs", help="the logs of the services")
    logs.add_argument("services", nargs="*", metavar="SERVICE")
    logs.add_argument("--follow", action="store_true")
    save = verbs.add_parser(
        "backup", help="save databases, buckets and secrets in a new folder, and a sealed copy at RATCHET_BACKUPS_TO"
    )
    save.add_argument("--sources", action="store_true", help="also the further buckets of RATCHET_SOURCE_ROOTS")
    restore = verbs.add_parser(
        "restore",
        help="end stages and services, replace databases, buckets and secrets by those of a backup, and start again",
    )
    restore.add_argument("source", metavar="FOLDER", help="a backup or a copy of one, also as s3://BUCKET/PREFIX/TIME")
    worker = verbs.add_parser(
        "worker-files", help="write the files that a worker on another host needs into a new folder"
    )
    worker.add_argument("folder", type=Path)
    policies = verbs.add_parser(
        "policies", help="write an IAM policy for each user of an S3 elsewhere, and what to do with it"
    )
    policies.add_argument("folder", type=Path)
    verbs.add_parser("files", help="make the secrets only, to run docker-compose.yaml by hand")
    options = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    try:
        return _run(options, console)
    except RatchetError as error:
        console.print(f"{options.verb}: {error}", style="red", markup=False)
        return int(error.code)


def _run(options: argparse.Namespace, console: Console) -> int:
    settings = read(ROOT / ".env")
    if settings.main_host and options.verb not in _ON_EACH_HOST:
        raise ConfigurationError(
            "this host only has a worker", remedy=f"run this on the main host, {settings.main_host}"
        )
    if options.verb == "up":  # before minutes of building images
        backup.refuse_half_restored(Stack(ROOT, settings, {}))
        if _report_problems(settings, console):
            return int(ConfigurationError.code)
    if options.verb == "restore":
        return _restore(settings, options.source, console)
    images = _images(settings, console) if options.verb == "up" else {}
    stack = Stack(ROOT, settings, images)
    match options.verb:
        case "up":
            return _up(stack, console)
        case "down":
            return _down(stack, console, volumes=options.volumes)
        case "ps":
            return _ps(stack, console)
        case "logs":
            follow = ["--follow"] if options.follow else []
            stack.compose("logs", "--tail=200", *follow, *options.services, stdout=1)  # of this process
        case "backup":
            console.print(f"backup: {backup.back_up(stack, console, sources=options.sources)}")
        case _:
            _files(stack, options, console)
    return 0


def _restore(settings: Settings, source: str, console: Console) -> int:
    folder = backup.find(Stack(ROOT, settings, {}), source, console)  # before minutes of building images
    stack = Stack(ROOT, settings, _images(settings, console))
    backup.restore(stack, folder, console)
    return _start_all(stack, console)


def _files(stack: Stack, options: argparse.Namespace, console: Console) -> None:
    """Write secrets: those of this stack, or the part that a worker on another host needs; or policies of S3."""
    if options.verb == "policies":
        _policies(stack.settings, options.folder, console)
    elif options.verb == "worker-files":
        secret_files.hand_out(stack.secrets, options.folder, stack.settings)
        console.print(
            f"copy {options.folder}/* to {stack.secrets.relative_to(ROOT)} on the other host; see docs/team.md"
        )
    else:
        secret_files.write(stack.secrets, stack.settings, stack.owner)
        console.print(f"the secrets are in {stack.secrets}")


def _policies(settings: Settings, folder: Path, console: Console) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, policy in iam_policies(settings).items():
        (folder / f"{name}.json").write_text(json.dumps(policy, indent=2) + "\n", encoding="utf-8")
        console.print(f"{folder / name}.json")
    console.print("attach each to a user of its name; write their keys under these names into RATCHET_S3_CREDENTIALS")


def _report_problems(settings: Settings, console: Console) -> bool:
    found = preflight.problems(ROOT, Stack(ROOT, settings, {}).home, settings)
    for problem in found:
        console.print(f"up: {problem}", style="red", markup=False)
    return bool(found)


def _up(stack: Stack, console: Console) -> int:
    backup.refuse_half_restored(stack)  # again: it may have begun while images were built
    if stack.settings.main_host:
        secret_files.take(stack.secrets, stack.owner)
    else:
        secret_files.write(stack.secrets, stack.settings, stack.owner)
    return _start_all(stack, console)


def _start_all(stack: Stack, console: Console) -> int:
    """Start all services, print each as it becomes healthy, and print the addresses."""
    began = time.monotonic()
    console.print("up: starting the services; the first time takes about two minutes")
    earlier = {member.container for member in stack.members()}  # Compose replaces those that have to change
    starting = stack.begin_all()
    printed: set[str] = set()
    while True:
        failed = starting.failed()
        members = stack.members()
        for member in members:
            if member.well and member.name not in printed:
                printed.add(member.name)
                console.print(f"up: {member.service:<14} {member.state:<8} {time.monotonic() - began:4.0f} s")
        ill = [member for member in members if not member.well]
        hopeless = [member for member in ill if member.failed and (starting.done or member.container not in earlier)]
        if failed or hopeless or time.monotonic() - began > _WELL_S:
            if failed:
                console.print(f"up: {failed}", style="red", markup=False)
            starting.end()
            _print_logs(ill, stack, console)
            return int(Unavailable.code)
        if starting.done and not ill:
            break
        time.sleep(0.5)
    _addresses(stack, console)
    return 0


def _down(stack: Stack, console: Console, *, volumes: bool) -> int:
    """Stop the stack, and the stage containers that it started."""
    end_stages(stack, console, "down")
    stack.compose("down", "--remove-orphans", *(["--volumes"] if volumes else []))
    if volumes:
        stack.forget()
    console.print(
        "down: all containers are stopped; "
        + ("the data are deleted" if volumes else "the data are kept for `make up`")
    )
    return 0


def _ps(stack: Stack, console: Console) -> int:
    members = stack.members()
    if not members:
        console.print("nothing is running; `make up` starts the stack")
        return int(Unavailable.code)
    table = Table("service", "container", "state", box=None, pad_edge=False)
    for member in members:
        table.add_row(member.service, member.name, member.state, style=None if member.well else "red")
    console.print(table)
    if not stack.settings.main_host and not {"postgres", "s3"} & set(stack.settings.elsewhere):
        said, fine = describe_last(backups_of(stack), stack.settings.backups_to)
        console.print(said, style=None if fine else "red", markup=False)
    ill = [member for member in members if not member.well]
    if ill:
        _say_pipelines(stack.settings, console)
        return int(Unavailable.code)
    _addresses(stack, console)
    return 0


def _print_logs(ill: list[Member], stack: Stack, console: Console) -> None:
    for member in ill:
        console.print(f"up: {member.name} is {member.state}; the end of its log:", style="red", markup=False)
        for line in stack.log_tail(member):
            console.print(f"    {line}", markup=False)


def _say_pipelines(settings: Settings, console: Console) -> None:
    """Where they come from; also while git, or anything else, is away."""
    if settings.main_host is None:
        branch = f" ({settings.pipelines_branch or 'its usual branch'})" if settings.has_git else ""
        console.print(f"pipelines from {settings.pipelines if settings.has_git else settings.pipelines_folder}{branch}")


def _addresses(stack: Stack, console: Console) -> None:
    settings, secrets = stack.settings, stack.secrets
    if settings.main_host:
        console.print(f"this host has a worker of http://{settings.main_host}:{settings.airflow_port}")
        return
    admin = secret_files.ADMIN
    console.print(
        f"Airflow  http://127.0.0.1:{settings.airflow_port}   {admin}, password in {secrets}/airflow-admin-password"
    )
    _say_pipelines(settings, console)
    if settings.mlflow_url:
        console.print(f"MLflow   {settings.mlflow_url}")
    else:
        console.print(
            f"MLflow   http://127.0.0.1:{settings.mlflow_port}   {admin}, password in {secrets}/mlflow-admin-password"
        )
    if settings.s3_endpoint:
        console.print(f"S3       {settings.s3_endpoint}")
    else:
        console.print(
            f"S3       http://127.0.0.1:{settings.s3_port}   credentials in {secrets}/s3-admin; "
            f"put data in {settings.data}"
        )


def _devices(settings: Settings, console: Console) -> str:
    """The GPUs of this host, with commas. Raises Unavailable if its driver does not say, where it has no other work."""
    if settings.gpus is not None:
        return settings.gpus
    if why := why_silent():
        said = f"nvidia-smi of this host lists no GPUs: {why}"
        remedy = "run nvidia-smi; after an upgrade of the driver the host may have to be restarted"
        if settings.main_host:
            raise Unavailable(said, remedy=remedy)
        console.print(f"up: {said}; no training here has one until the next `make up`; to do: {remedy}", markup=False)
    return host_devices().listed


def _with_worker(settings: Settings, devices: str) -> str:
    """Those of the devices of this host that a training may use: none without a worker here that takes trainings."""
    return devices if settings.gpu_workers else ""


def _images(settings: Settings, console: Console) -> dict[str, str]:
    """Build or pull missing images. The variables for Compose: the tags of our own images, and this host's GPUs."""
    devices = _devices(settings, console)
    named = {"RATCHET_GPUS": devices, "RATCHET_GPUS_OF_WORKERS": _with_worker(settings, devices)}
    if settings.main_host:  # stages there run in the images of the main host, which were copied there
        return {**named, "RATCHET_AIRFLOW_IMAGE": _image("airflow")}
    if not settings.pool_cpu:
        named["RATCHET_POOL_CPU"] = str(os.cpu_count() or 1)
    _script("images.sh", "team")
    named |= {"RATCHET_AIRFLOW_IMAGE": _image("airflow"), "RATCHET_STAGE_IMAGE": _image("stage")}
    if devices or settings.pool_gpu:
        named["RATCHET_STAGE_IMAGE_GPU"] = _image("stage", VARIANT="gpu")
    return named


def _image(name: str, **more: str) -> str:
    return _script("images.sh", name, **more).splitlines()[-1]


def _script(name: str, *arguments: str, **more: str) -> str:
    done = subprocess.run(
        [ROOT / "scripts" / name, *arguments],
        env={**os.environ, **more},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unavailable(
            f"scripts/{name} {' '.join(arguments)} ended with {done.returncode}", remedy="read its output above"
        )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
