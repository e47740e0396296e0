import io
import itertools
import tarfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.runners.container import archive, renewal
from ratchet.runners.job import Job
from team.engine_filter.archive import renews_keys, rewritten
from team.engine_filter.refusal import Refusal


def _entries(content: bytes) -> list[tuple[str, int, int, int, bytes, bytes | None]]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return [
            (one.name, one.uid, one.gid, one.mode, one.type, found.read() if (found := tar.extractfile(one)) else None)
            for one in tar
        ]


def _packed(name: str = "ratchet/x", content: bytes = b"x", **facts: Any) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.gid, entry.mode, entry.size = 10001, 0o440, len(content)
        for fact, value in facts.items():
            setattr(entry, fact, value)
        tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


@given(request=st.binary(max_size=2000), secret=st.binary(max_size=2000))
def test_what_the_runner_packs_arrives_as_it_was(request: bytes, secret: bytes) -> None:
    packed = archive(Job(name="a", request=request, secrets={"key": secret}))
    assert _entries(rewritten(packed)) == _entries(packed)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hunter2",
        b"\0" * 1024,
        archive(Job(name="a", request=b"{}"))[:700],
        _packed("/etc/passwd"),
        _packed("../x"),
        _packed("ratchet/../../x"),
        _packed("ratchet/a/b/c"),
        _packed("ratchet//x"),
        _packed("ratchet/.x"),
        _packed("x"),
        _packed("ratchet/" + "a" * 200),
        _packed(type=tarfile.SYMTYPE, linkname="/", size=0, content=b""),
        _packed(type=tarfile.LNKTYPE, linkname="ratchet", size=0, content=b""),
        _packed(type=tarfile.CHRTYPE, devmajor=1, devminor=11, size=0, content=b""),
        _packed(type=tarfile.BLKTYPE, devmajor=8, size=0, content=b""),
        _packed(type=tarfile.FIFOTYPE, size=0, content=b""),
        _packed(type=tarfile.CONTTYPE),
        _packed(type=tarfile.GNUTYPE_SPARSE),
        _packed(mode=0o4550),
        _packed(mode=0o444),
        _packed(uid=10001),
        _packed(gid=0),
        _packed() [:1024] + _packed(),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_anything_else_is_refused_without_a_word_of_its_content(content: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        rewritten(content)
    assert "hunter2" not in str(refused.value)


def test_headers_that_python_knows_and_the_engine_might_read_otherwise_do_not_get_through() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("ratchet/x")
        entry.gid, entry.mode = 10001, 0o440
        entry.pax_headers = {"SCHILY.xattr.security.capability": "x", "comment": "y"}
        tar.addfile(entry)
    assert b"SCHILY" in packed.getvalue()
    assert b"SCHILY" not in rewritten(packed.getvalue())


def test_only_the_keys_of_s3_are_a_renewal() -> None:
    assert renews_keys(rewritten(renewal("2000:2000", "aws-credentials", b"new")))
    assert not renews_keys(rewritten(renewal("2000:2000", "mlflow-credentials", b"new")))
    assert not renews_keys(rewritten(archive(Job(name="a", request=b"{}", secrets={"aws-credentials": b"new"}))))
