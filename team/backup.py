"""Backups: the databases, the buckets, and the secrets that open them, in one folder.

The order keeps apart nothing that belongs together. What names something is saved before what it names:

1. Airflow's database, whose runs name results in the store;
2. the store and MLflow's database as of one moment (`team.backup_order`);
3. MLflow's artifacts, which are uploaded before a version names them, and the data, which nobody here writes.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ratchet.contracts.errors import ConfigurationError, Unavailable
from team import backup_copies, backup_folder, secret_files
from team.backup_folder import alone, backups_of, check, now
from team.backup_mark import forget_copied, mark_copied
from team.backup_order import save_store
from team.bucket_files import one_line, restore_bucket, save_bucket, set_aside
from team.copy_places import copy_place, is_on_disk_of, refuse_inside
from team.durable import rename, sync, sync_all
from team.ending import end_stages
from team.sealed_copy import read_key
from team.stack import Stack
from team.stack_buckets import buckets, further_sources, owner, s3_address, s3_client

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_DATABASES = ("airflow", "mlflow")


def back_up(stack: Stack, console: Console, *, sources: bool = False) -> Path:
    """Back up a running stack into a new folder, copy it off this host if there is a place, and delete old backups.

    sources: also the further buckets of RATCHET_SOURCE_ROOTS. Raises ConfigurationError, after all else, if the copy is
    on the disk of the backup.
    """
    settings, backups = stack.settings, backups_of(stack)
    _own_only(stack)
    refuse_half_restored(stack)
    with one_line(str(backups)), alone(backups):
        place = key = None
        if settings.backups_to is not None:
            key = read_key(settings.backups_key)
            refuse_inside(settings.backups_to, stack.home.parent)
            place = copy_place(f"{settings.backups_to.rstrip('/')}/{settings.project}", settings)
            place.names()  # one that does not answer is reported now, and not after hours
        # A full disk is no obstacle to a person who has just lowered the number.
        last = backup_folder.last_made(backups)
        _say_gone(console, backup_folder.prune(backups, settings.backups_keep, but=last), str(backups))
        folder = _save(stack, backups, console, sources=sources)
        _say_gone(console, backup_folder.prune(backups, settings.backups_keep, but=folder.name), str(backups))
        if place is None or key is None:
            forget_copied(stack)
        else:
            console.print(f"saved in {folder}; it is copied now")
            with _timer(console, f"copy to {place.address}"):
                backup_copies.prune(place, settings.backups_keep)
                backup_copies.copy(place, folder, key)
            backup_folder.note_copy(backups, folder.name, str(settings.backups_to))
            _say_gone(console, backup_copies.prune(place, settings.backups_keep, but=folder.name), place.address)
            _refuse_same_disk(str(settings.backups_to), backups, folder)
            mark_copied(stack)
    return folder


def _refuse_same_disk(place: str, backups: Path, folder: Path) -> None:
    """Raises ConfigurationError if the copy is lost with the backup: no disk may be mounted there."""
    if is_on_disk_of(place, backups):
        raise ConfigurationError(
            f"{place} is on the disk of the backups and is lost with it; {folder} and its copy are whole",
            remedy="mount another disk there, or name another place in RATCHET_BACKUPS_TO",
        )


def _save(stack: Stack, backups: Path, console: Console, *, sources: bool) -> Path:
    """A new folder, named by the time and readable by its owner only."""
    place = backups / now()
    unfinished = place.with_name(f".{place.name}")
    unfinished.mkdir(mode=0o700)
    try:
        with one_line(s3_address(stack), str(unfinished)):
            _save_all(stack, unfinished, console, sources=sources)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return rename(unfinished, place)


def _save_all(stack: Stack, folder: Path, console: Console, *, sources: bool) -> None:
    def dump(name: str) -> None:
        with _timer(console, f"database {name}"):
            _dump(stack, name, folder / f"{name}.dump")

    dump("airflow")
    client = s3_client(stack)
    store, *others = buckets(stack)
    with _timer(console, f"bucket {store}"):
        save_store(
            client,
            store,
            folder / f"{store}.tar",
            lambda: dump("mlflow"),
            beside=lambda key: owner(stack, store, key) != "store",
        )
    for bucket in (*others, *(further_sources(stack) if sources else ())):
        with _timer(console, f"bucket {bucket}"):
            save_bucket(client, bucket, folder / f"{bucket}.tar")
    shutil.copytree(stack.secrets, folder / "secrets")
    backup_folder.write_manifest(folder)


def find(stack: Stack, source: str, console: Console) -> Path:
    """The folder of a backup that is whole. A copy, in a folder or in a bucket, is fetched first."""
    _own_only(stack)
    backups, settings = backups_of(stack), stack.settings
    folder = Path(source)
    if source.startswith("s3://") or backup_copies.is_copy(folder):
        parent, _, name = (source if source.startswith("s3://") else str(folder.absolute())).rstrip("/").rpartition("/")
        key = read_key(settings.backups_key)
        with one_line(str(backups)), alone(backups), _timer(console, f"fetching {source}"):
            folder = backup_copies.fetch(copy_place(parent, settings), name, backups, key)
    _check(stack, folder)
    return folder


def _check(stack: Stack, folder: Path) -> None:
    check(folder, [*(f"{name}.dump" for name in _DATABASES), *(f"{bucket}.tar" for bucket in buckets(stack))])


def restore(stack: Stack, folder: Path, console: Console) -> None:
    """Restore a backup that `find` has found: its secrets, then, with all services and stages ended, all else.

    What the store and MLflow's artifacts have and the backup has not is moved into a folder beside the backups, so that
    no newer record of a ledger lies over an older registry. After a kill it can be run again; until it has ended,
    nothing else starts the stack.
    """
    _own_only(stack)
    aside = backups_of(stack) / f"aside-{now()}"
    _announce(stack, folder, aside, console)
    with one_line(s3_address(stack), str(stack.home)), alone(backups_of(stack)):
        _check(stack, folder)  # again: a backup by cron may have deleted it since
        end_stages(stack, console, "restore")
        stack.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        _mark(stack).write_text(str(folder.absolute()), encoding="utf-8")
        sync(_mark(stack))
        sync(stack.home)
        stack.compose("down", "--remove-orphans")
        end_stages(stack, console, "restore")  # of a request that was on its way
        _restore_secrets(stack, folder, aside)
        with _timer(console, "starting the database and S3"):
            stack.compose("up", "--detach", "postgres", "s3")
            stack.wait_for("postgres", "s3")
        _restore_databases(stack, folder, aside, console)
        client = s3_client(stack)
        for bucket in _buckets_of(stack, folder):
            with _timer(console, f"bucket {bucket}"):
                _restore_objects(stack, client, bucket, folder, aside, console)
        _mark(stack).unlink()


def _buckets_of(stack: Stack, folder: Path) -> list[str]:
    """The buckets of a backup; those of further sources only if it has them."""
    return [*buckets(stack), *(each for each in further_sources(stack) if (folder / f"{each}.tar").is_file())]


def _announce(stack: Stack, folder: Path, aside: Path, console: Console) -> None:
    settings = stack.settings
    console.print(
        f"restore: stages and services of {settings.project} end; then secrets, databases and buckets become those of "
        f"{folder}. Whatever else is in {settings.store} and {settings.artifacts} goes to {aside}; whatever else is in "
        f"{settings.data} stays"
    )
    if settings.listen is not None:
        console.print("restore: stages on other hosts cannot be ended from here; run `make down` there first")


def _restore_objects(
    stack: Stack, client: "S3Client", bucket: str, folder: Path, aside: Path, console: Console
) -> None:
    file = folder / f"{bucket}.tar"
    place = aside / file.name
    saved, gone = set_aside(client, bucket, file, place, belongs=lambda key: owner(stack, bucket, key) != "data")
    if saved:
        console.print(f"bucket {bucket}: {saved} objects are in {place} now, {gone} of them no longer in the bucket")
    restore_bucket(client, bucket, file)


def _restore_secrets(stack: Stack, folder: Path, aside: Path) -> None:
    """Those of the backup, and the files that this release makes of them. The present ones go aside."""
    unfinished = stack.secrets.with_name(".secrets")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(folder / "secrets", unfinished)
    unfinished.chmod(0o700)
    for path in unfinished.iterdir():  # a copy by root belongs to root
        path.chmod(0o400)
        shutil.chown(path, stack.owner if path.name != "made.json" else unfinished.stat().st_uid)
    if stack.secrets.is_dir():
        aside.mkdir(exist_ok=True, mode=0o700)
        shutil.copytree(stack.secrets, aside / "secrets")
        shutil.rmtree(stack.secrets)
    sync_all(unfinished)
    rename(unfinished, stack.secrets)
    secret_files.write(stack.secrets, stack.settings, stack.owner)


def _restore_databases(stack: Stack, folder: Path, aside: Path, console: Console) -> None:
    _roles(stack)
    _set_databases_aside(stack, aside, console)
    for name in _DATABASES:
        with _timer(console, f"database {name}"), (folder / f"{name}.dump").open("rb") as dump:
            stack.compose(
                "exec", "-T", "postgres", "pg_restore", "-U", "postgres", "-d", "postgres",
                "--clean", "--if-exists", "--create", "--exit-on-error", stdin=dump,
            )  # fmt: skip


def _set_databases_aside(stack: Stack, aside: Path, console: Console) -> None:
    """Save the databases that are there. Raises Unavailable if one cannot be saved; then it is not replaced."""
    with tempfile.TemporaryFile() as out:
        asked = "SELECT datname FROM pg_database"
        stack.compose("exec", "-T", "postgres", "psql", "-U", "postgres", "-Atc", asked, stdout=out)
        out.seek(0)
        there = out.read().decode().split()
    for name in (each for each in _DATABASES if each in there):
        aside.mkdir(exist_ok=True, mode=0o700)
        file = aside / f"{name}.dump"
        try:
            _dump(stack, name, file)
        except Unavailable as error:
            file.unlink(missing_ok=True)
            raise Unavailable(
                f"the database {name} that is there cannot be saved: {error.cause}",
                remedy="free space if the disk is full, move its volume away if it is damaged, and run again",
            ) from error
        sync(file)
        console.print(f"database {name} as it was is in {file} now")


def _dump(stack: Stack, name: str, file: Path) -> None:
    with file.open("wb") as out:
        stack.compose("exec", "-T", "postgres", "pg_dump", "-U", "postgres", "-Fc", "--create", name, stdout=out)


def _roles(stack: Stack) -> None:
    """Create the roles that own the databases, with the passwords of the secrets. Dumps of databases have no roles."""
    made: dict[str, str] = json.loads((stack.secrets / "made.json").read_text(encoding="utf-8"))
    lines = [f"ALTER ROLE postgres PASSWORD '{made['postgres']}';"]  # all passwords are letters and digits
    for name in _DATABASES:
        missing = f"WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{name}')"
        lines += [f"SELECT 'CREATE ROLE {name}' {missing}\\gexec"]
        lines += [f"ALTER ROLE {name} LOGIN PASSWORD '{made[f'{name}-database']}';"]
    with tempfile.TemporaryFile() as words:
        words.write("\n".join(lines).encode())
        words.seek(0)
        stack.compose("exec", "-T", "postgres", "psql", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", stdin=words)


def refuse_half_restored(stack: Stack) -> None:
    """Raises ConfigurationError while a restore has begun and not ended: databases and buckets are of two times."""
    if _mark(stack).is_file():
        folder = _mark(stack).read_text(encoding="utf-8")
        raise ConfigurationError(
            f"the restore of {folder} has not ended", remedy=f"run `make restore FROM={folder}` again"
        )


def _mark(stack: Stack) -> Path:
    return stack.home / "restoring"


def _own_only(stack: Stack) -> None:
    if {"postgres", "s3"} & set(stack.settings.elsewhere):
        raise ConfigurationError(
            "the database or S3 of this set-up is elsewhere", remedy="back it up there; see docs/team.md"
        )


@contextmanager
def _timer(console: Console, what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    console.print(f"{what}: {time.monotonic() - began:.1f} s")


def _say_gone(console: Console, names: list[str], where: str) -> None:
    if names:
        console.print(f"deleted in {where}: {', '.join(names)}")
