"""Copies of backups: sealed, whole or nothing, and opened again only as they were."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, Unavailable
from team.backup_copies import copy, fetch, prune
from team.backup_folder import write_manifest
from team.copy_places import Bucket, CopyPlace, Folder, copy_place, is_on_disk_of, refuse_inside
from team.sealed_copy import read_key, seal, unseal
from team.settings import Settings
from tests.s3 import S3Server

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

KEY, OTHER = bytes(range(32)), bytes(32)
NAME = "2026-11-27T120000Z"
SECRET = b"the password of everything"


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    (tmp_path / "backups").mkdir()
    made(tmp_path / "backups", NAME)
    return tmp_path / "backups"


def made(backups: Path, name: str) -> Path:
    (backups / name / "secrets").mkdir(parents=True)
    (backups / name / "airflow.dump").write_bytes(b"x" * (2 << 20))  # two whole chunks
    (backups / name / "empty.tar").write_bytes(b"")
    (backups / name / "secrets" / "made.json").write_bytes(SECRET)
    write_manifest(backups / name)
    return backups / name


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> CopyPlace:
    if request.param == "folder":
        (tmp_path / "disk").mkdir()
        return Folder(tmp_path / "disk" / "shop")
    client: S3Client = request.getfixturevalue("client")
    server: S3Server = request.getfixturevalue("s3_server")
    return Bucket(client, server.bucket, f"copies/{tmp_path.name}")


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def raw(place: CopyPlace) -> dict[str, bytes]:
    """What lies there."""
    found = {}
    for name in place.names():
        with place.open(name) as file:
            found[name] = file.read()
    return found


def test_a_copy_is_sealed_and_comes_back_as_it_was(place: CopyPlace, backups: Path, tmp_path: Path) -> None:
    copy(place, backups / NAME, KEY)
    there = raw(place)
    assert sorted(there) == [f"{NAME}/{name}.sealed" for name in sorted(files(backups / NAME))]
    assert not any(word in content for content in there.values() for word in (SECRET, b"made.json", b"xxxxxxxx"))
    (tmp_path / "host").mkdir()
    folder = fetch(place, NAME, tmp_path / "host", KEY)
    assert (folder, files(folder)) == (tmp_path / "host" / NAME, files(backups / NAME))
    (folder / "empty.tar").write_bytes(b"damaged here")
    assert fetch(place, NAME, tmp_path / "host", KEY) == folder
    assert files(folder) == files(backups / NAME)
    inode = folder.stat().st_ino
    assert fetch(place, NAME, tmp_path / "host", KEY).stat().st_ino == inode
    with pytest.raises(
        ConfigurationError, match=rf"2026-11-28T120000Z is no copy of a backup; to do: name one of {NAME}"
    ):
        fetch(place, "2026-11-28T120000Z", tmp_path / "host", KEY)


@pytest.mark.parametrize("file", ["airflow.dump", "empty.tar", "secrets/made.json", "manifest.json"])
@pytest.mark.parametrize("how", ["flipped", "cut", "longer", "emptied", "exchanged"])
def test_a_damaged_copy_is_refused_with_the_name_of_the_file(
    tmp_path: Path, backups: Path, file: str, how: str
) -> None:
    place = Folder(tmp_path / "shop")
    copy(place, backups / NAME, KEY)
    path = tmp_path / "shop" / NAME / f"{file}.sealed"
    whole = path.read_bytes()
    other = (
        tmp_path / "shop" / NAME / ("empty.tar.sealed" if file != "empty.tar" else "airflow.dump.sealed")
    ).read_bytes()
    path.write_bytes(
        {
            "flipped": whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:],
            "cut": whole[: (1 << 20) + 57] if file == "airflow.dump" else whole[:-1],
            "longer": whole + b"x",
            "emptied": b"",
            "exchanged": other,
        }[how]
    )
    (tmp_path / "host").mkdir()
    with pytest.raises(CorruptArtifact, match=rf"shop/{NAME}/{file}\.sealed is damaged; to do: restore another backup"):
        fetch(place, NAME, tmp_path / "host", KEY)
    assert not (tmp_path / "host" / NAME).exists()


def test_a_file_of_another_backup_is_noticed(tmp_path: Path, backups: Path) -> None:
    place = Folder(tmp_path / "shop")
    copy(place, backups / NAME, KEY)
    later = made(backups, "2026-11-28T120000Z")
    (later / "empty.tar").write_bytes(b"another")
    write_manifest(later)
    copy(place, later, KEY)
    sealed = "empty.tar.sealed"
    (tmp_path / "shop" / NAME / sealed).write_bytes((tmp_path / "shop" / later.name / sealed).read_bytes())
    (tmp_path / "host").mkdir()
    with pytest.raises(CorruptArtifact, match=f"{NAME}/{sealed} is damaged"):
        fetch(place, NAME, tmp_path / "host", KEY)


def test_an_older_copy_under_a_newer_name_does_not_open(tmp_path: Path, backups: Path) -> None:
    copy(Folder(tmp_path / "shop"), backups / NAME, KEY)
    later = "2026-11-28T120000Z"
    (tmp_path / "shop" / NAME).rename(tmp_path / "shop" / later)
    (tmp_path / "host").mkdir()
    with pytest.raises(CorruptArtifact, match=rf"{later}/manifest\.json\.sealed is damaged"):
        fetch(Folder(tmp_path / "shop"), later, tmp_path / "host", KEY)


def test_a_backup_in_clear_at_the_place_of_copies_is_left_alone(tmp_path: Path, backups: Path) -> None:
    there = files(backups)
    assert prune(Folder(backups), 1) == []
    assert files(backups) == there


def test_a_place_among_the_backups_is_refused(tmp_path: Path) -> None:
    (tmp_path / "team" / "backups").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "team" / "backups")
    for place in (tmp_path / "team" / "backups", tmp_path / "link"):
        with pytest.raises(ConfigurationError, match=r"RATCHET_BACKUPS_TO: .* lies in .*, where the backups are"):
            refuse_inside(str(place), tmp_path / "team")
    refuse_inside(str(tmp_path / "disk"), tmp_path / "team")
    refuse_inside("s3://bucket/team", tmp_path / "team")


def test_another_key_is_reported_as_that(place: CopyPlace, backups: Path, tmp_path: Path) -> None:
    copy(place, backups / NAME, KEY)
    (tmp_path / "host").mkdir()
    with pytest.raises(ConfigurationError, match=r"was sealed with another key; to do: name the file of that key"):
        fetch(place, NAME, tmp_path / "host", OTHER)


def test_a_copy_is_read_again_and_has_no_manifest_before_it_is_found_whole(
    backups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forgetful(Folder):
        """A disk that loses a byte."""

        def put(self, name: str, source: object, size: int) -> None:
            super().put(name, source, size)  # type: ignore[arg-type]
            path = tmp_path / "shop" / name
            path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(CorruptArtifact, match=r"airflow\.dump\.sealed is damaged"):
        copy(Forgetful(tmp_path / "shop"), backups / NAME, KEY)
    assert prune(Folder(tmp_path / "shop"), 7) == [NAME]
    assert Folder(tmp_path / "shop").names() == []


def test_the_newest_copies_are_kept_and_halves_and_older_ones_go(place: CopyPlace, backups: Path) -> None:
    later = made(backups, "2026-11-29T120000Z")
    copy(place, backups / NAME, KEY)
    copy(place, later, KEY)
    half = "2026-11-28T120000Z/airflow.dump.sealed"
    place.put(half, io.BytesIO(b"half"), 4)
    place.put("notes.txt", io.BytesIO(b"a person's"), 4)
    assert prune(place, 2) == ["2026-11-28T120000Z"]
    assert prune(place, 2) == []
    assert prune(place, 1) == [NAME]
    assert {name.partition("/")[0] for name in place.names()} == {later.name, "notes.txt"}


def test_a_copy_that_was_just_made_stays_though_the_clock_was_set_back(tmp_path: Path, backups: Path) -> None:
    later = made(backups, "2027-11-29T120000Z")
    for folder in (later, backups / NAME):
        copy(Folder(tmp_path / "shop"), folder, KEY)
    assert prune(Folder(tmp_path / "shop"), 1, but=NAME) == []
    assert prune(Folder(tmp_path / "shop"), 1, but="2026-11-28T120000Z") == [NAME]


def test_a_full_disk_is_reported_with_the_file(tmp_path: Path, backups: Path) -> None:
    folder = tmp_path / "shop" / NAME
    folder.mkdir(parents=True)
    (folder / ".airflow.dump.sealed").symlink_to("/dev/full")
    with pytest.raises(
        Unavailable, match=r"airflow\.dump\.sealed: no space left on device; to do: free space, or lower"
    ):
        copy(Folder(tmp_path / "shop"), backups / NAME, KEY)


def test_a_disk_that_is_not_mounted_is_no_place(tmp_path: Path) -> None:
    place = copy_place(str(tmp_path / "disk" / "shop"), Settings())
    with pytest.raises(ConfigurationError, match=r"disk is not there; to do: mount the disk"):
        place.names()


def test_a_place_on_the_disk_of_the_backups_is_noticed(tmp_path: Path) -> None:
    assert is_on_disk_of(str(tmp_path), tmp_path)
    assert not is_on_disk_of("/proc", tmp_path)
    assert not is_on_disk_of("s3://bucket", tmp_path)


def test_a_bucket_elsewhere_is_reached_by_the_settings_and_its_refusals_are_one_line(
    s3_server: S3Server, client: "S3Client", tmp_path: Path, backups: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("[default]\naws_access_key_id = test\naws_secret_access_key = test-secret\n")
    settings = Settings(backups_endpoint=s3_server.endpoint, backups_credentials=keys)
    copy(copy_place(f"s3://{s3_server.bucket}/{tmp_path.name}/shop", settings), backups / NAME, KEY)
    listed = client.list_objects_v2(Bucket=s3_server.bucket, Prefix=f"{tmp_path.name}/shop/{NAME}/")["Contents"]
    assert len(listed) == 4
    with pytest.raises(ConfigurationError, match=r"s3://absent-bucket/shop: refused with NoSuchBucket"):
        copy_place("s3://absent-bucket/shop", settings).names()
    gone = Settings(backups_endpoint=s3_server.endpoint, backups_credentials=tmp_path / "none")
    with pytest.raises(ConfigurationError, match=r"RATCHET_BACKUPS_CREDENTIALS: .*none is not there"):
        copy_place("s3://bucket/shop", gone)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "key cannot be read: no such file or directory; to do: make one with `openssl rand -hex 32"),
        ("abc", "key does not have 64 hexadecimal digits"),
        ("ab" * 31, "key does not have 64"),
        ("ü" * 64, "key does not have 64"),
    ],
)
def test_a_key_that_is_none_is_reported(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content)
    with pytest.raises(ConfigurationError, match=said):
        read_key(tmp_path / "key")


def test_a_key_may_end_with_a_new_line(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY.hex() + "\n")
    assert read_key(tmp_path / "key") == KEY
    with pytest.raises(ConfigurationError, match="set RATCHET_BACKUPS_KEY"):
        read_key(None)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_files_of_any_size_are_sealed_and_opened(size: int) -> None:
    content = b"\x5a" * size
    sealed = seal(io.BytesIO(content), KEY, "a").read()
    assert b"".join(unseal(io.BytesIO(sealed), KEY, "a", "a")) == content
    again = seal(io.BytesIO(content), KEY, "a").read()
    assert again[33:] != sealed[33:]  # the salt, and with it the key of the file
    with pytest.raises(CorruptArtifact):
        list(unseal(io.BytesIO(sealed), KEY, "b", "a"))


def test_chunks_can_be_neither_dropped_nor_exchanged() -> None:
    sealed = seal(io.BytesIO(bytes(4 << 20)), KEY, "a").read()
    size = (1 << 20) + 16
    head, body = sealed[:41], sealed[41:]
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    assert len(chunks) == 4
    for order in ([0, 1, 2], [1, 0, 2, 3], [0, 2, 3], [0, 0, 1, 2, 3], [3]):
        with pytest.raises(CorruptArtifact):
            list(unseal(io.BytesIO(head + b"".join(chunks[number] for number in order)), KEY, "a", "a"))


def test_a_file_that_takes_several_requests_is_copied_whole(
    client: "S3Client", s3_server: S3Server, tmp_path: Path
) -> None:
    place = Bucket(client, s3_server.bucket, f"copies/{tmp_path.name}")
    content = bytes(range(256)) * (9 << 12)  # 9 MiB
    place.put("a.sealed", seal(io.BytesIO(content), KEY, "a"), len(content))
    assert "-" in client.head_object(Bucket=s3_server.bucket, Key=f"copies/{tmp_path.name}/a.sealed")["ETag"]
    with place.open("a.sealed") as file:
        assert b"".join(unseal(file, KEY, "a", "a")) == content
