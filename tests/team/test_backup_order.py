"""A backup has no ledger ahead of its registry, and none behind it, whatever happens while it is made."""

import copy
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ratchet.contracts.errors import Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.production.reconcile import Reconciled, follow
from ratchet.store.base import Store
from ratchet.store.ledger import append, records
from ratchet.store.opening import open_store
from ratchet.tracking.memory_registry import MemoryRegistry
from ratchet.tracking.registry import DIGEST
from team.backup_order import save_store
from team.bucket_files import restore_bucket, save_bucket
from tests.s3 import S3Server
from tests.store.test_ledger import change
from tests.team.buckets import contents, stored

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

MODEL = "ranker"


@dataclass
class World:
    """A store in S3, and a registry whose dump is a copy of it."""

    client: "S3Client"
    bucket: str
    store: Store
    registry: MemoryRegistry
    dumped: MemoryRegistry

    def promote(self, name: str) -> None:
        """What a night does, in its order: results, a version, the record, the alias, the result of register."""
        stored(self.client, self.bucket, {f"published/p/train/{name}/manifest.json": name.encode()})
        made = digest(name.encode())
        version = self.registry.add(MODEL, {DIGEST: made})
        number = len(records(self.store, MODEL))
        append(self.store, change(version.number, 10, model_digest=made), after=number)
        follow(self.store, MODEL, self.registry)
        stored(self.client, self.bucket, {f"published/p/register/{name}/manifest.json": b"promoted"})

    def dump(self) -> None:
        self.dumped = copy.deepcopy(self.registry)

    def save(self, file: Path, dump: Callable[[], None]) -> None:
        save_store(self.client, self.bucket, file, dump, beside=lambda _: False)

    def restored(self, file: Path) -> tuple[Reconciled, dict[str, bytes]]:
        """What a run finds after a restore, and the objects."""
        bucket = f"restored-{uuid.uuid4().hex[:12]}"
        restore_bucket(self.client, bucket, file)
        objects = contents(self.client, bucket)
        return follow(open_store(f"s3://{bucket}"), MODEL, self.dumped), objects


@pytest.fixture
def world(client: "S3Client", s3: S3Server) -> World:
    bucket = f"store-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=bucket)
    registry = MemoryRegistry("registry")
    made = World(client, bucket, open_store(f"s3://{bucket}"), registry, registry)
    made.promote("a")
    return made


@pytest.mark.parametrize("first", ["dump", "promotion"])
def test_a_promotion_beside_the_dump_of_the_registry_makes_it_be_dumped_again(
    world: World, tmp_path: Path, first: str
) -> None:
    dumps: list[str] = []

    def dump() -> None:
        if first == "dump":
            world.dump()
        if not dumps:
            world.promote("b")
        if first == "promotion":
            world.dump()
        dumps.append(first)

    world.save(tmp_path / "store.tar", dump)
    found, objects = world.restored(tmp_path / "store.tar")
    assert len(dumps) == 2
    assert found.agrees
    assert found.live is not None
    assert (found.live.number, found.live.model_digest, found.moved) == (2, digest(b"b"), None)
    assert "published/p/register/b/manifest.json" in objects


def test_a_promotion_while_objects_are_read_is_not_in_the_backup_and_its_files_do_no_harm(
    world: World, tmp_path: Path
) -> None:
    turn = threading.Lock()
    is_dumped, is_promoted = threading.Event(), threading.Event()

    def promote(**_: object) -> None:
        with turn:  # every request after the dump waits for it
            if is_dumped.is_set() and not is_promoted.is_set():
                world.promote("b")
                is_promoted.set()

    def dump() -> None:
        world.dump()
        is_dumped.set()

    world.client.meta.events.register("before-call.s3.GetObject", promote)
    world.save(tmp_path / "store.tar", dump)
    assert len(records(world.store, MODEL)) == 2
    found, objects = world.restored(tmp_path / "store.tar")
    assert found.agrees
    assert found.live is not None
    assert (found.live.number, found.moved, found.head) == (1, None, False)
    assert "published/p/train/b/manifest.json" in objects
    assert "published/p/register/b/manifest.json" not in objects


def test_a_version_that_no_record_names_and_an_alias_that_lags_are_harmless(world: World, tmp_path: Path) -> None:
    world.registry.add(MODEL, {DIGEST: digest(b"registered and not promoted")})
    world.dump()
    append(world.store, change("1", 11, action="hold", model_digest=digest(b"a")), after=1)
    world.save(tmp_path / "store.tar", lambda: None)
    found, _ = world.restored(tmp_path / "store.tar")
    assert found.agrees
    version = world.dumped.champion(MODEL)
    assert version is not None
    assert (version.number, version.record) == ("1", 2)


@pytest.mark.parametrize(("first", "finding"), [("registry", "registry-behind"), ("store", "ledger-behind")])
def test_one_after_the_other_parts_them_in_either_order(world: World, tmp_path: Path, first: str, finding: str) -> None:
    """As backups were made before, and the other way round: why neither order is enough."""
    steps = {
        "registry": world.dump,
        "store": lambda: save_bucket(world.client, world.bucket, tmp_path / "store.tar"),
    }
    steps.pop(first)()
    world.promote("b")
    next(iter(steps.values()))()
    found, _ = world.restored(tmp_path / "store.tar")
    assert found.shows(finding)


def test_production_that_does_not_rest_ends_a_backup_with_one_line(world: World, tmp_path: Path) -> None:
    def dump() -> None:
        world.promote(uuid.uuid4().hex)

    with pytest.raises(Unavailable, match=r"production has moved during each of 5 dumps .*; to do: run `make backup`"):
        world.save(tmp_path / "store.tar", dump)
    assert not (tmp_path / "store.tar").exists()
