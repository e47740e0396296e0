"""The team set-up: `make up` and its kin."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable
from ratchet.runners.devices import host_devices
from team import backup, preflight, secret_files
from team.settings import Settings, read
from team.stack import Member, Stack

ROOT = Path(__file__).resolve().parents[1]
_WELL_S = 420
_ON_EACH_HOST = ("up", "down", "ps", "logs")


def main() -> int:
    """Run one of the verbs."""
    parser = argparse.ArgumentParser(prog="python -m team", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("up", help="start the stack, or bring it to what .env and the checkout say now")
    down = verbs.add_parser("down", help="end the stack; its data stay")
    down.add_argument("--volumes", action="store_true", help="and delete all its data, secrets included")
    verbs.add_parser("ps", help="how each container is; ends with 69 if one is not well")
    logs = verbs.add_parser("logs", help="what the services say")
    logs.add_argument("services", nargs="*", metavar="SERVICE")
    logs.add_argument("--follow", action="store_true")
    verbs.add_parser("backup", help="databases, buckets and secrets into a new folder")
    restore = verbs.add_parser("restore", help="put all of a backup back, over what is there")
    restore.add_argument("folder", type=Path)
    worker = verbs.add_parser("worker-files", help="what a worker on another host has to know, into a new folder")
    worker.add_argument("folder", type=Path)
    verbs.add_parser("files", help="make the secrets alone, for who runs docker-compose.yaml by hand")
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
        raise ConfigurationError("this host only works", remedy=f"do this on the main host, {settings.main_host}")
    if options.verb == "up" and _told_what_is_in_the_way(settings, console):  # before images are built for minutes
        return int(ConfigurationError.code)
    if options.verb == "restore":
        backup.check(options.folder)  # the same
    images = _images(settings) if options.verb in {"up", "restore"} else {}
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
            stack.compose("logs", "--tail=200", *follow, *options.services, quiet=False)
        case "backup":
            console.print(f"backup: {backup.save(stack, console)}")
        case "restore":
            backup.restore(stack, options.folder, console)
            return _started(stack, console)
        case _:
            _files(stack, options, console)
    return 0


def _files(stack: Stack, options: argparse.Namespace, console: Console) -> None:
    """Write secrets: those of this stack, or what a worker on another host has to know of them."""
    if options.verb == "worker-files":
        secret_files.hand_out(stack.secrets, options.folder, stack.settings)
        console.print(f"bring {options.folder}/* to {stack.secrets.relative_to(ROOT)} on the other host: docs/team.md")
    else:
        secret_files.write(stack.secrets, stack.settings, stack.owner)
        console.print(f"the secrets are in {stack.secrets}")


def _told_what_is_in_the_way(settings: Settings, console: Console) -> bool:
    found = preflight.problems(ROOT, Stack(ROOT, settings, {}).home, settings)
    for problem in found:
        console.print(f"up: {problem}", style="red", markup=False)
    return bool(found)


def _up(stack: Stack, console: Console) -> int:
    if stack.settings.main_host:
        secret_files.take(stack.secrets, stack.owner)
    else:
        secret_files.write(stack.secrets, stack.settings, stack.owner)
    return _started(stack, console)


def _started(stack: Stack, console: Console) -> int:
    """Start all services, tell of each as it gets well, and say where everything is."""
    began = time.monotonic()
    console.print("up: starting the services; the first time takes about two minutes")
    earlier = {member.container for member in stack.members()}  # Compose replaces those that have to change
    starting = stack.begin_all()
    told: set[str] = set()
    while True:
        failed = starting.failed()
        members = stack.members()
        for member in members:
            if member.well and member.name not in told:
                told.add(member.name)
                console.print(f"up: {member.service:<14} {member.state:<8} {time.monotonic() - began:4.0f} s")
        ill = [member for member in members if not member.well]
        hopeless = [member for member in ill if member.failed and (starting.done or member.container not in earlier)]
        if failed or hopeless or time.monotonic() - began > _WELL_S:
            if failed:
                console.print(f"up: {failed}", style="red", markup=False)
            starting.end()
            _tell_of(ill, stack, console)
            return int(Unavailable.code)
        if starting.done and not ill:
            break
        time.sleep(0.5)
    _addresses(stack, console)
    return 0


def _down(stack: Stack, console: Console, *, volumes: bool) -> int:
    """End the stack, and the stage containers that it started."""
    if stack.members():
        stack.compose("stop", "scheduler", "worker", "worker-gpu")  # so that nobody goes on with what ends now
    stages = stack.stages()
    if graces := [stage.grace_s for stage in stages if stage.running]:
        console.print(f"down: {len(graces)} running stages are told to save and end; they have up to {max(graces)} s")
    stack.end_stages(stages)
    stack.compose("down", "--remove-orphans", *(["--volumes"] if volumes else []))
    if volumes:
        stack.forget()
    console.print("down: nothing of it runs; " + ("its data are deleted" if volumes else "its data stay for `make up`"))
    return 0


def _ps(stack: Stack, console: Console) -> int:
    members = stack.members()
    if not members:
        console.print("nothing runs; `make up` starts the stack")
        return int(Unavailable.code)
    table = Table("service", "container", "state", box=None, pad_edge=False)
    for member in members:
        table.add_row(member.service, member.name, member.state, style=None if member.well else "red")
    console.print(table)
    ill = [member for member in members if not member.well]
    if ill:
        return int(Unavailable.code)
    _addresses(stack, console)
    return 0


def _tell_of(ill: list[Member], stack: Stack, console: Console) -> None:
    for member in ill:
        console.print(f"up: {member.name} is {member.state}; the end of its log:", style="red", markup=False)
        for line in stack.last_words(member):
            console.print(f"    {line}", markup=False)


def _addresses(stack: Stack, console: Console) -> None:
    settings, secrets = stack.settings, stack.secrets
    if settings.main_host:
        console.print(f"this host works for http://{settings.main_host}:{settings.airflow_port}")
        return
    admin = secret_files.ADMIN
    console.print(
        f"Airflow  http://127.0.0.1:{settings.airflow_port}   {admin}, password in {secrets}/airflow-admin-password"
    )
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
            f"data go to {settings.data}"
        )


def _images(settings: Settings) -> dict[str, str]:
    """Build or pull what is missing. What Compose is told of this host: the tags of our own images, and its GPUs."""
    devices = settings.gpus if settings.gpus is not None else host_devices().listed
    named = {"RATCHET_GPUS": devices}
    if settings.main_host:  # stages run there in the images of the main host, which were brought there
        return {**named, "RATCHET_AIRFLOW_IMAGE": _image("airflow")}
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
        raise Unavailable(f"scripts/{name} {' '.join(arguments)} ended with {done.returncode}", remedy="see above")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
