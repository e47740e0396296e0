"""The pipelines of a git repository: a branch is followed, and what was fetched stays when git is away."""

import os
import shutil
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from dulwich.errors import ChecksumMismatch
from dulwich.repo import Repo
from dulwich.server import BackendRepo, DictBackend
from dulwich.web import make_wsgi_chain

from ratchet.contracts import bundle
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.runs.pins import pins
from team.git_pipelines import CURRENT, Source, healthy, update
from tests.team.repository import Repository

LOGIN = "deploy:t0ken"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository")
    made.commit(pipelines__shop__pipeline_yaml="name: shop\n", pipelines__shop__features_py="# one\n", README="read\n")
    return made


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def read(place: Path) -> dict[str, str]:
    current = place / CURRENT
    return {str(file.relative_to(current)): file.read_text() for file in current.rglob("*") if file.is_file()}


def test_the_newest_commit_of_a_branch_is_there_and_a_subfolder_alone_if_one_is_named(
    repository: Repository, place: Path
) -> None:
    first = repository.git("rev-parse", "HEAD")
    assert healthy(place) == "nothing was fetched yet"
    assert update(repository.source(), place) == first
    assert read(place) == {"README": "read\n", "pipelines/shop/features.py": "# one\n", "pipelines/shop/pipeline.yaml": "name: shop\n"}  # fmt: skip
    assert healthy(place) is None
    assert update(repository.source(), place) is None
    repository.git("checkout", "--quiet", "-b", "next")
    second = repository.commit(pipelines__shop__features_py="# two\n")
    repository.git("checkout", "--quiet", "main")
    assert update(repository.source(), place) is None  # HEAD is main
    assert update(repository.source(branch="next", subfolder="pipelines"), place) == second
    assert read(place) == {"shop/features.py": "# two\n", "shop/pipeline.yaml": "name: shop\n"}


def test_another_subfolder_of_the_same_commit_is_read_at_once(repository: Repository, place: Path) -> None:
    commit = repository.git("rev-parse", "HEAD")
    for subfolder, files in (("", 3), ("pipelines", 2), ("pipelines/shop/", 2), ("", 3)):
        assert update(repository.source(subfolder=subfolder), place) == commit
        assert len(read(place)) == files
        assert update(repository.source(subfolder=subfolder), place) is None


def test_who_follows_the_link_once_reads_one_commit_which_stays_for_an_hour(
    repository: Repository, place: Path
) -> None:
    source = repository.source(subfolder="pipelines")
    update(source, place)
    planning = (place / CURRENT).resolve()
    written = (planning / "shop" / "pipeline.yaml").stat().st_mtime_ns
    repository.commit(pipelines__shop__features_py="# two\n")
    update(source, place)
    assert (planning / "shop" / "features.py").read_text() == "# one\n"
    assert (place / CURRENT / "shop" / "features.py").read_text() == "# two\n"
    # A pipeline whose file is as before is not new.
    assert (place / CURRENT / "shop" / "pipeline.yaml").stat().st_mtime_ns == written
    os.utime(planning, times=(time.time() - 3700,) * 2)
    update(source, place)
    assert not planning.exists()
    assert read(place)["shop/features.py"] == "# two\n"


@pytest.mark.parametrize(("subfolder", "below"), [("", "pipelines/shop"), ("pipelines", "shop")])
def test_a_run_has_the_commit_whose_files_it_is_planned_with(
    repository: Repository, place: Path, monkeypatch: pytest.MonkeyPatch, subfolder: str, below: str
) -> None:
    monkeypatch.delenv("RATCHET_COMMIT", raising=False)
    first = repository.git("rev-parse", "HEAD")
    update(repository.source(subfolder=subfolder), place)
    planned = (place / CURRENT / below).resolve()
    second = repository.commit(pipelines__shop__features_py="# two\n")
    update(repository.source(subfolder=subfolder), place)
    assert [pins(folder, None).commit for folder in (planned, place / CURRENT / below)] == [first, second]


def test_a_history_that_was_written_anew_is_followed_too(repository: Repository, place: Path) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.commit(README="two\n")
    update(repository.source(), place)
    repository.git("reset", "--quiet", "--hard", first)
    assert update(repository.source(), place) == first
    assert read(place)["README"] == "read\n"


@pytest.mark.parametrize("call", ["symlink_to", "rename", "utime", "rmtree"])
def test_a_process_that_is_killed_leaves_whole_commits_and_the_next_one_goes_on(
    repository: Repository, place: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    class _KilledError(BaseException): ...

    owner: Any = {"symlink_to": Path, "rename": Path, "utime": os, "rmtree": shutil}[call]
    real = getattr(owner, call)

    def killed_after(first: Any, *words: Any, **more: Any) -> Any:
        if call == "rmtree":  # in its middle
            next(path for path in Path(first).rglob("*") if path.is_file()).unlink()
            raise _KilledError
        made = real(first, *words, **more)
        if call != "rename" or Path(words[0]).name == CURRENT:
            raise _KilledError
        return made

    first = update(repository.source(), place)
    assert first is not None
    before = read(place)
    reading = (place / CURRENT).resolve()
    os.utime(reading, times=(time.time() - 7200,) * 2)
    repository.commit(README="two\n")
    if call == "rmtree":
        update(repository.source(), place)
        os.utime(reading, times=(time.time() - 7200,) * 2)
    with monkeypatch.context() as patched:
        patched.setattr(owner, call, killed_after)
        with pytest.raises(_KilledError):
            update(repository.source(), place)
    if call == "rename":  # who reads the earlier commit goes on
        update(repository.source(), place)
        assert (reading / "README").read_text() == "read\n"
    third = repository.commit(README="three\n")
    assert update(repository.source(), place) == third
    repository.git("reset", "--quiet", "--hard", first)  # the branch goes back
    assert update(repository.source(), place) == first
    assert read(place) == before
    assert [path.name for path in place.iterdir() if path.name.startswith(".new")] == []


def test_while_git_is_away_the_pipelines_stay_and_the_service_is_unhealthy_after_ten_minutes(
    repository: Repository, place: Path
) -> None:
    update(repository.source(), place)
    before = read(place)
    with pytest.raises(Unavailable, match="cannot be fetched"):
        update(Source(url="http://127.0.0.1:9/x.git"), place)
    assert read(place) == before
    assert healthy(place) is None
    os.utime(place / ".asked", times=(time.time() - 601,) * 2)
    assert "has not answered for 601 s" in str(healthy(place))


@pytest.mark.parametrize("error", [zlib.error("incorrect data check"), ChecksumMismatch(b"a", b"b"), KeyError(b"c")])
def test_an_answer_that_is_damaged_on_its_way_is_asked_for_again(
    repository: Repository, place: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def damaged(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("team.git_pipelines._fetch", damaged)
        with pytest.raises(Unavailable, match="cannot be fetched"):
            update(repository.source(), place)
    assert update(repository.source(), place)


def test_what_does_not_exist_is_said_with_what_does(repository: Repository, place: Path) -> None:
    repository.git("branch", "staging")
    with pytest.raises(ConfigurationError, match=r"no branch nxt.*main, staging"):
        update(repository.source(branch="nxt"), place)
    with pytest.raises(ConfigurationError, match="no folder pipelnes"):
        update(repository.source(subfolder="pipelnes"), place)
    with pytest.raises(ConfigurationError, match="no folder README"):
        update(repository.source(subfolder="README"), place)
    with pytest.raises(ConfigurationError, match="no git repository"):
        update(Source(url=f"file://{place}"), place)
    assert not (place / CURRENT).exists()
    update(repository.source(), place)
    assert [path.name for path in place.iterdir() if path.name.startswith(".new")] == []


def test_a_link_leads_nowhere_and_a_pipeline_with_one_is_refused_by_its_plan(
    repository: Repository, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository.folder / "secret").symlink_to("/etc/passwd")
    (repository.folder / "pipelines" / "shop" / "model.py").symlink_to("../../README")
    commit = repository.git("rev-parse", "HEAD")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},pipelines/shop/library")
    repository.git("add", "pipelines", "secret")
    repository.git("commit", "--quiet", "--message", "links")
    for _ in range(2):  # the second commit is made beside the first
        update(repository.source(), place)
        shop = place / CURRENT / "pipelines" / "shop"
        assert not (place / CURRENT / "secret").exists()
        assert not (shop / "model.py").exists()
        assert not (shop / "library").exists()
        assert "left out" in capsys.readouterr().out
        with pytest.raises(ConfigurationError, match="is not a plain file"):
            bundle.pack(shop)
        repository.git("commit", "--quiet", "--allow-empty", "--message", "again")


@pytest.fixture
def served(repository: Repository) -> Iterator[str]:
    """The repository over HTTP, for those who log in."""
    opened = Repo(str(repository.folder))
    backend: dict[str, BackendRepo] = {"/shop.git": opened}
    chain = make_wsgi_chain(DictBackend(backend))
    wanted = f"Basic {b64encode(LOGIN.encode()).decode()}"

    def guarded(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/old.git"):
            query = f"?{environ['QUERY_STRING']}" if environ["QUERY_STRING"] else ""
            place = environ["PATH_INFO"].replace("/old.git", "/shop.git") + query
            start("301 Moved Permanently", [("Location", place), ("Content-Length", "0")])
            return [b""]
        if environ.get("HTTP_AUTHORIZATION") != wanted:
            start("401 Unauthorized", [("WWW-Authenticate", "Basic"), ("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = chain(environ, start)
        return answer

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with make_server("127.0.0.1", 0, guarded, handler_class=Quiet) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/shop.git"
        server.shutdown()
    opened.close()


def test_a_repository_over_http_is_read_with_its_log_in_alone(repository: Repository, served: str, place: Path) -> None:
    for login in ("", "deploy:wrong"):
        with pytest.raises(ConfigurationError, match="wants a log-in") as caught:
            update(Source(url=served, login=login), place)
        assert "wrong" not in str(caught.value)
    source = Source(url=served, login=f"{LOGIN}\n", subfolder="pipelines")
    assert "t0ken" not in repr(source)
    assert update(source, place) == repository.git("rev-parse", "HEAD")
    assert read(place)["shop/features.py"] == "# one\n"
    second = repository.commit(pipelines__shop__features_py="# two\n")
    assert update(source, place) == second


def test_a_repository_that_has_moved_is_found_under_its_old_address(
    repository: Repository, served: str, place: Path
) -> None:
    source = Source(url=served.replace("shop.git", "old.git"), login=LOGIN)
    assert update(source, place) == repository.git("rev-parse", "HEAD")
    assert read(place)["README"] == "read\n"
