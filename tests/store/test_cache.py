"""The cache of artifacts: it gives out no damaged bytes, stays within its limit, and never fails a stage."""

import hashlib
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.result import Artifact
from ratchet.store import cache
from ratchet.store.artifacts import fetch
from ratchet.store.cache import Cache
from ratchet.store.memory import MemoryStore
from ratchet.store.publishing import Transaction, verify
from tests.store.counting import CountingStore

DATA = b"0123456789" * 1000


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(tmp_path.name)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, as in the environment of a stage."""
    monkeypatch.setenv("RATCHET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def stored(store: MemoryStore, data: bytes = DATA, key: str = "a/file.npy") -> Artifact:
    store.create(key, data)
    return Artifact(key=key, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


def stage(store: MemoryStore, *artifacts: Artifact) -> list[bytes]:
    """The bytes that a stage reads when it fetches artifacts."""
    with cache.scratch() as folder:
        return [fetch(store, artifact, folder).read_bytes() for artifact in artifacts]


def files(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "files").iterdir())


def test_a_second_stage_downloads_nothing_and_reads_the_same_file(store: CountingStore, root: Path) -> None:
    artifact = stored(store)
    assert stage(store, artifact) == stage(store, artifact) == [DATA]
    assert store.downloads == ["a/file.npy"]
    with cache.scratch() as folder:
        assert fetch(store, artifact, folder).samefile(root / "files" / artifact.sha256)
        assert folder.is_relative_to(root)
    assert files(root) == [artifact.sha256]
    assert list((root / "scratch").iterdir()) == list((root / "incoming").iterdir()) == []


def test_without_the_setting_there_is_no_cache(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RATCHET_CACHE", raising=False)
    artifact = stored(store)
    assert stage(store, artifact) == stage(store, artifact) == [DATA]
    assert len(store.downloads) == 2


def test_the_next_stage_does_not_download_a_stored_file(store: CountingStore, root: Path) -> None:
    with cache.scratch() as folder:
        (folder / "made.npy").write_bytes(DATA)
        artifact = Transaction(store, "p/train/f", "a1").add("weights", folder / "made.npy")
        assert (folder / "made.npy").samefile(root / "files" / artifact.sha256)
    assert stage(store, artifact) == [DATA]
    assert store.downloads == []


def _flipped(entry: Path) -> None:
    entry.unlink()
    entry.write_bytes(b"x" + DATA[1:])


def _cut(entry: Path) -> None:
    entry.chmod(0o600)
    with entry.open("r+b") as file:
        file.truncate(100)


def _link(entry: Path) -> None:
    secret = entry.parent.parent / "secret"
    secret.write_bytes(DATA)  # the very bytes: it is refused for being a link
    entry.unlink()
    entry.symlink_to(secret)


def _pipe(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


def _folder(entry: Path) -> None:
    entry.unlink()
    entry.mkdir()


@pytest.mark.parametrize("poison", [_flipped, _cut, _link, _pipe, _folder])
def test_44_a_file_of_others_in_the_cache_is_refused_and_fetched_again(
    store: CountingStore, root: Path, poison: Callable[[Path], None]
) -> None:
    """Before a stage takes it, or in the middle of one that has."""
    artifact = stored(store)
    with cache.scratch() as folder:
        path = fetch(store, artifact, folder)
        with path.open("rb") as in_use:
            poison(root / "files" / artifact.sha256)
            if poison is not _cut:  # who may write into the file itself is trusted, see the module
                assert in_use.read() == path.read_bytes() == DATA
    assert stage(store, artifact) == [DATA]
    assert len(store.downloads) == 2
    assert stage(store, artifact) == [DATA]
    assert len(store.downloads) == 2
    assert not (root / "files" / artifact.sha256).is_symlink()


@pytest.mark.parametrize("later", [b"x" + DATA[1:], DATA[:100]])
def test_44_what_a_stage_writes_to_a_file_after_it_was_stored_is_not_given_out(
    store: CountingStore, root: Path, later: bytes
) -> None:
    """At the end of a stage its outputs are kept without a copy, while it still has them."""
    with cache.scratch() as folder:
        (folder / "made.npy").write_bytes(DATA)
        artifact = Transaction(store, "p/train/f", "a1").add("weights", folder / "made.npy")
        assert (folder / "made.npy").samefile(root / "files" / artifact.sha256)
        (folder / "made.npy").write_bytes(later)
    assert stage(store, artifact) == stage(store, artifact) == [DATA]
    assert len(store.downloads) == 1


def test_bytes_that_are_damaged_in_the_store_are_not_kept(store: CountingStore, root: Path) -> None:
    artifact = stored(store).model_copy(update={"sha256": "0" * 64})
    with pytest.raises(CorruptArtifact), cache.scratch() as folder:
        fetch(store, artifact, folder)
    assert files(root) == []
    assert list((root / "incoming").iterdir()) == []


def test_a_result_is_verified_once_and_a_changed_size_is_still_detected(store: CountingStore, root: Path) -> None:
    (root.parent / "made.npy").write_bytes(DATA)
    transaction = Transaction(store, "p/train/f", "a1")
    artifact = transaction.add("weights", root.parent / "made.npy")
    found = transaction.commit(stage="train", fingerprint="0" * 64, parts={}, content="0" * 64)
    assert verify(store, found) == verify(store, found) == []
    assert len(store.downloads) <= 1
    store.delete(artifact.key)
    assert verify(store, found) == ["weights"]
    store.create(artifact.key, DATA[1:])
    assert verify(store, found) == ["weights"]


def test_the_least_recently_used_file_is_evicted_first_and_a_file_in_use_stays(
    store: CountingStore, root: Path
) -> None:
    artifacts = [stored(store, bytes([i]) * 1000, f"a/{i}") for i in range(4)]
    limited = Cache(root, 3000)
    with limited.scratch() as folder:
        assert folder is not None
        for at, artifact in enumerate(artifacts[:3]):
            assert _brought(limited, store, artifact, folder / str(at))
            os.utime(root / "files" / artifact.sha256, ns=(at, at))
            if at:
                (folder / str(at)).unlink()
        assert limited.take(artifacts[1].sha256, 1000, folder / "again")  # used just now
        (folder / "again").unlink()
        assert _brought(limited, store, artifacts[3], folder / "3")
        assert files(root) == sorted(artifacts[at].sha256 for at in (0, 1, 3))
        assert (folder / "0").read_bytes() == bytes([0]) * 1000


def _brought(limited: Cache, store: MemoryStore, artifact: Artifact, target: Path) -> bool:
    with limited.room(artifact.bytes) as place:
        if place is None:
            return False
        store.download(artifact.key, place)
        limited.keep(place, artifact.sha256, target)
        return True


def test_an_open_file_stays_readable_when_it_is_evicted(store: CountingStore, root: Path, tmp_path: Path) -> None:
    first, second = stored(store, b"1" * 1000, "a/1"), stored(store, b"2" * 1000, "a/2")
    limited = Cache(root, 1500)
    assert _brought(limited, store, first, tmp_path / "first")
    (tmp_path / "first").unlink()
    with (root / "files" / first.sha256).open("rb") as file:
        assert _brought(limited, store, second, tmp_path / "second")
        assert files(root) == [second.sha256]
        assert file.read() == b"1" * 1000


def test_more_than_fits_goes_to_scratch_with_one_warning(
    store: CountingStore, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RATCHET_CACHE_LIMIT", "15k")
    artifacts = [stored(store, bytes([i]) * 10_000, f"a/{i}") for i in range(3)]
    assert stage(store, *artifacts) == [bytes([i]) * 10_000 for i in range(3)]
    assert files(root) == [artifacts[0].sha256]
    assert [record.message for record in caplog.records] == [
        f"the cache at {root} has no space for 10,000 bytes, with RATCHET_CACHE_LIMIT = 15,360, or its disk is full; "
        "the stage goes on without it"
    ]


def test_an_invalid_limit_is_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_CACHE_LIMIT", "much")
    with pytest.raises(ConfigurationError, match="RATCHET_CACHE_LIMIT: 'much' is not an amount"):
        cache.open_cache()
    assert not root.exists()


def test_a_stage_goes_on_without_a_cache_if_a_file_is_in_its_place(
    store: CountingStore, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root.write_text("no folder")
    artifact = stored(store)
    assert stage(store, artifact, artifact) == [DATA, DATA]
    assert root.read_text() == "no folder"
    assert len(caplog.records) == 1


def test_files_and_links_in_place_of_folders_are_replaced(store: CountingStore, root: Path, tmp_path: Path) -> None:
    root.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (root / "files").symlink_to(tmp_path / "elsewhere")
    (root / "incoming").write_text("x")
    artifact = stored(store)
    assert stage(store, artifact) == [DATA]
    assert files(root) == [artifact.sha256]
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.fixture
def small_disk(root: Path) -> Iterator[Callable[[str], None]]:
    """Mounts a tmpfs of a megabyte at the cache; called with options, remounts it with these."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount")
    root.mkdir()

    def mount(options: str) -> None:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "none", str(root)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr}")

    mount("size=1m")
    yield mount
    subprocess.run(["umount", str(root)], check=True)


@pytest.mark.usefixtures("small_disk")
def test_a_stage_goes_on_without_a_cache_if_the_disk_is_full(
    store: CountingStore, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    artifact = stored(store)
    (root / "filling").write_bytes(b"x" * (1 << 20))
    assert stage(store, artifact) == [DATA]
    assert not (root / "files").exists() or files(root) == []
    assert len(caplog.records) == 1


def test_a_read_only_cache_still_saves_the_download(
    store: CountingStore, root: Path, small_disk: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_FREE", 0)
    artifact, other = stored(store), stored(store, b"other", "a/other")
    stage(store, artifact)
    small_disk("remount,ro")
    assert stage(store, artifact, other) == [DATA, b"other"]
    assert store.downloads == ["a/file.npy", "a/other"]


def _writes(root: str, limit: int, seed: int, names: list[str], ready: object) -> None:
    """One of several stages that fetch artifacts in different orders, and read each while others evict files."""
    limited, store, order = Cache(Path(root), limit), MemoryStore(f"writer-{seed}"), random.Random(seed)
    artifacts = [stored(store, name.encode() * 1000, name) for name in names]
    ready.wait()  # type: ignore[attr-defined] # a barrier of multiprocessing
    for turn in range(60):
        artifact = order.choice(artifacts)
        with limited.scratch() as folder:
            assert folder is not None
            target = folder / str(turn)
            if limited.take(artifact.sha256, artifact.bytes, target) or _brought(limited, store, artifact, target):
                assert hashlib.sha256(target.read_bytes()).hexdigest() == artifact.sha256


def _used(root: Path) -> int:
    """Bytes of files and half-downloaded ones. Counted while they move, so it can be too much, never too little."""
    sizes: dict[int, int] = {}
    for below in ("incoming", "files"):
        for folder, _, names in os.walk(root / below):
            for name in names:
                with suppress(FileNotFoundError):
                    state = (Path(folder) / name).lstat()
                    sizes[state.st_ino] = state.st_size
    return sum(sizes.values())


def test_four_processes_stay_within_the_limit_and_read_only_intact_files(root: Path) -> None:
    together = multiprocessing.get_context("spawn")
    limit, names = 25_000, [f"artifact-{i:02d}" for i in range(12)]  # of 11,000 bytes each: two fit
    ready = together.Barrier(5)
    writers = [together.Process(target=_writes, args=(str(root), limit, seed, names, ready)) for seed in range(4)]
    for writer in writers:
        writer.start()
    ready.wait(300)
    most, deadline = 0, time.monotonic() + 500
    while any(writer.is_alive() for writer in writers):
        assert time.monotonic() < deadline
        most = max(most, min(_used(root) for _ in range(3)))
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert 0 < most <= limit
    assert _used(root) <= limit
    assert list((root / "incoming").iterdir()) == list((root / "scratch").iterdir()) == []


def test_concurrent_fetches_of_a_file_all_get_it_intact(store: CountingStore, root: Path) -> None:
    artifact = stored(store, os.urandom(1 << 20), "a/big")
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda _: stage(store, artifact)[0], range(16)))
    assert {hashlib.sha256(data).hexdigest() for data in read} == {artifact.sha256}
    assert files(root) == [artifact.sha256]


KILLED = """if 1:
    import os, pathlib, signal, sys
    from ratchet.store.cache import Cache
    cache = Cache(pathlib.Path(sys.argv[1]), 1 << 20)
    with cache.scratch() as folder, cache.room(1000) as place:
        (folder / "array.npy").write_bytes(b"x" * 1000)
        place.write_bytes(b"half")
        print("busy", flush=True)
        signal.pause()
"""


def test_the_folder_of_a_killed_stage_is_deleted_and_that_of_a_living_one_is_not(root: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(root)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"busy\n"
        with cache.scratch() as folder:
            assert len(list((root / "scratch").iterdir())) == 2
            process.send_signal(signal.SIGKILL)
            process.wait()
            with cache.scratch():
                assert len(list((root / "scratch").iterdir())) == 2
            assert list((root / "scratch").iterdir()) == [folder]
            assert list((root / "incoming").iterdir()) == []
