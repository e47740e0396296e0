import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import Resources
from ratchet.runners.job import Job, Mount


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-a", "a b", "a\n", "x" * 101])
def test_a_name_that_is_a_path_or_worse_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="plain name"):
        Job(name=name, request=b"")
    with pytest.raises(ConfigurationError, match="secret name"):
        Job(name="a", request=b"", secrets={name: b""})


@pytest.mark.parametrize("user", ["0:0", "0:10", "00:1", "root", "1000", "1000:", "-1:1", ""])
def test_root_and_users_by_name_are_refused(user: str) -> None:
    with pytest.raises(ConfigurationError, match="uid:gid in numbers, not root"):
        Job(name="a", request=b"", user=user)


@pytest.mark.parametrize("path", ["/", "store", "/a/../b", "/a/", "//a", "/a/./b", ""])
def test_a_mount_that_is_not_a_plain_absolute_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="mount"):
        Job(name="a", request=b"", mounts=(Mount(path=path),))


def test_secrets_do_not_show_when_a_job_is_printed() -> None:
    assert "hunter2" not in repr(Job(name="a", request=b"", secrets={"key": b"hunter2"}))


@pytest.mark.parametrize(("wanted", "cores", "threads"), [(2, 16, "2"), (8, 2, "2"), (0.5, 4, "1"), (2.5, None, "3")])
def test_threads_follow_the_quota_and_the_machine(wanted: float, cores: int | None, threads: str) -> None:
    job = Job(name="a", request=b"", resources=Resources(cpus=wanted))
    environment = job.environment("/run/ratchet", cpus=cores)
    assert environment["OMP_NUM_THREADS"] == environment["POLARS_MAX_THREADS"] == threads


def test_the_environment_says_where_request_and_secrets_are_and_the_job_has_the_last_word() -> None:
    job = Job(name="a", request=b"", env={"OMP_NUM_THREADS": "7", "MODE": "x"})
    environment = job.environment("/run/ratchet", cpus=1)
    assert environment["RATCHET_REQUEST"] == "/run/ratchet/request.json"
    assert environment["RATCHET_SECRETS"] == "/run/ratchet/secrets"
    assert (environment["OMP_NUM_THREADS"], environment["MODE"]) == ("7", "x")
