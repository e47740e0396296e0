"""Real containers that try what they must not, and report."""

import functools
import gc
import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.utils import kwargs_from_env

from ratchet.contracts.errors import ConfigurationError, JobGone, Unavailable
from ratchet.contracts.labels import STAGE_USER, Label
from ratchet.contracts.stages import Resources
from ratchet.runners.container import OUT_OF_MEMORY_SEEN
from ratchet.runners.docker import DockerRunner
from ratchet.runners.engine import engine_available
from ratchet.runners.following import JobEnd, follow_to_end
from ratchet.runners.job import Job, Mount
from ratchet.runners.log.lines import Line
from tests.readable import readable_by_all

pytestmark = pytest.mark.docker


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    with docker.APIClient(**kwargs_from_env()) as client:
        yield client


@pytest.fixture
def label(api: docker.APIClient) -> Iterator[dict[str, str]]:
    """A label of this test's own. At the end nothing may carry it."""
    mark = {Label.TEST: "1", Label.TEST_ID: uuid.uuid4().hex}
    wanted = {"label": [f"{Label.TEST_ID}={mark[Label.TEST_ID]}"]}
    yield mark
    left = api.containers(all=True, filters=wanted)
    for container in left:
        api.remove_container(container["Id"], v=True, force=True)
    volumes = api.volumes(filters=wanted)["Volumes"]
    assert (left, volumes) == ([], None) or (left, volumes) == ([], [])


@pytest.fixture
def job(stage_image: str, label: dict[str, str]) -> Any:
    """Makes jobs that run a Python program, or a command."""

    def make(code: str = "", **settings: Any) -> Job:
        command = settings.pop("command", ("python", "-I", "-S", "-c", code))
        return Job(name="job", request=b'{"a": 1}', image=stage_image, labels=label, command=command, **settings)

    return functools.partial(make)


def _follow(job: Job, on_line: Callable[[Line], None]) -> JobEnd:
    runner = DockerRunner()
    return follow_to_end(runner, runner.submit(job), job, on_line)


def _run(job: Job) -> tuple[JobEnd, list[str]]:
    lines: list[Line] = []
    ended = _follow(job, lines.append)
    return ended, [line.text for line in lines]


def _answer(job: Any, code: str, **settings: Any) -> Any:
    """What a program leaves in `answer`."""
    ended, lines = _run(job(f"import json, os\nanswer = None\n{code}\nprint(json.dumps(answer))", **settings))
    assert ended.exit_code == 0, lines
    return json.loads(lines[-1])


def test_streams_and_exit_code_come_back(job: Any) -> None:
    lines: list[Line] = []
    code = "import sys; print('out', flush=True); print('a\\rb\\r\\nc', file=sys.stderr); sys.exit(65)"
    ended = _follow(job(code), lines.append)
    assert (ended.exit_code, ended.out_of_memory, ended.timed_out) == (65, False, False)
    assert sorted((line.stream, line.text) for line in lines) == [
        ("stderr", "a"),
        ("stderr", "b"),
        ("stderr", "c"),
        ("stdout", "out"),
    ]


def test_it_is_the_user_that_was_named_with_no_way_up(job: Any) -> None:
    code = """if 1:
        fields = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
        answer = [os.getresuid(), os.getresgid(), {name: fields[name] for name in fields if name.startswith("Cap")}, fields["NoNewPrivs"]]
    """
    uids, gids, capabilities, no_new_privileges = _answer(job, code, user="12345:678")
    assert (uids, gids) == ([12345] * 3, [678] * 3)
    assert {int(value, 16) for value in capabilities.values()} == {0}
    assert no_new_privileges == "1"


WRITES = """if 1:
    answer = {}
    for path in ("/x", "/opt/x", "/etc/x", "/run/x", "/run/ratchet/x", "/run/ratchet/request.json", "/tmp/x"):
        try:
            open(path, "w").close()
            answer[path] = True
        except OSError:
            answer[path] = False
"""


def test_it_can_write_to_tmp_and_nowhere_else(job: Any) -> None:
    assert [path for path, written in _answer(job, WRITES).items() if written] == ["/tmp/x"]


def test_request_and_secrets_are_there_to_read_and_the_engine_does_not_show_them(
    job: Any, label: dict[str, str], api: docker.APIClient
) -> None:
    runner = DockerRunner()
    code = "print(open('/run/ratchet/request.json').read(), open('/run/ratchet/secrets/key').read())"
    handle = runner.submit(job(code, secrets={"key": b"hunter2"}))
    lines = [line.text for line in runner.logs(handle)]
    shown = json.dumps(api.inspect_container(handle))
    runner.remove(handle)
    assert lines == ['{"a": 1} hunter2']
    assert "hunter2" not in shown
    assert label[Label.TEST_ID] in shown


def test_with_no_network_there_is_only_loopback(job: Any) -> None:
    assert _answer(job, "answer = os.listdir('/sys/class/net')") == ["lo"]


def test_a_bridge_is_there_when_asked_for(job: Any) -> None:
    assert len(_answer(job, "answer = os.listdir('/sys/class/net')", network="bridge")) > 1


FORK_BOMB = """if 1:
    import signal
    children, answer = [], None
    try:
        while len(children) < 500:
            child = os.fork()
            if not child:
                signal.pause()
            children.append(child)
    except BlockingIOError:
        answer = len(children)
    for child in children:
        os.kill(child, signal.SIGKILL)
"""


def test_a_fork_bomb_meets_its_limit(job: Any) -> None:
    forked = _answer(job, FORK_BOMB, resources=Resources(pids=32))
    assert 16 <= forked < 32


def test_more_memory_than_allowed_is_named_as_the_cause(job: Any) -> None:
    limits = Resources.model_validate({"memory": "32m"})
    ended, _ = _run(job("x = b'x' * (256 << 20)", resources=limits))
    assert (ended.exit_code, ended.out_of_memory) == (137, True)


def test_what_the_container_saw_is_enough_where_the_engine_missed_it(job: Any) -> None:
    ended, _ = _run(job(f"raise SystemExit({OUT_OF_MEMORY_SEEN})"))
    assert (ended.exit_code, ended.out_of_memory) == (137, True)


@pytest.mark.parametrize(("own_end", "reported"), [(0, (0, False)), (70, (137, True))])
def test_a_helper_killed_for_memory_counts_if_the_job_did_not_end_well(
    job: Any, own_end: int, reported: tuple[int, bool]
) -> None:
    limits = Resources.model_validate({"memory": "32m"})
    code = f"""if 1:
        import os
        helper = os.fork()
        if not helper:
            x = b"x" * (256 << 20)
        _, status = os.waitpid(helper, 0)
        print(os.WTERMSIG(status), flush=True)
        os._exit({own_end})
    """
    ended, lines = _run(job(code, resources=limits))
    assert lines == ["9"]
    assert (ended.exit_code, ended.out_of_memory) == reported


def test_tmp_counts_as_memory(job: Any) -> None:
    limits = Resources.model_validate({"memory": "32m"})
    ended, _ = _run(
        job(
            "open('/tmp/x', 'wb').write(b'x' * (16 << 20)) and open('/tmp/y', 'wb').write(b'x' * (24 << 20))",
            resources=limits,
        )
    )
    assert ended.exit_code != 0


def test_processor_time_is_a_quota_even_above_what_the_machine_has(job: Any) -> None:
    code = """if 1:
        import time
        begin, used = time.monotonic(), time.process_time()
        while time.monotonic() - begin < 0.8:
            pass
        answer = (time.process_time() - used) / (time.monotonic() - begin)
    """
    assert _answer(job, code, resources=Resources(cpus=0.25)) < 0.4
    assert _answer(job, "answer = 1", resources=Resources(cpus=1000)) == 1


def test_shared_memory_has_the_size_asked_for(job: Any) -> None:
    code = "s = os.statvfs('/dev/shm'); answer = s.f_blocks * s.f_frsize"
    assert _answer(job, code, resources=Resources.model_validate({"shm": "96m"})) == 96 << 20


def test_a_mount_is_writable_only_if_it_says_so(job: Any, tmp_path: Path) -> None:
    for folder in ("data", "store"):
        (tmp_path / folder).mkdir()
        os.chown(tmp_path / folder, STAGE_USER, STAGE_USER)
    readable_by_all(tmp_path)
    mounts = (Mount(path=f"{tmp_path}/data"), Mount(path=f"{tmp_path}/store", read_only=False))
    code = f"""if 1:
        answer = []
        for folder in ("data", "store"):
            try:
                open("{tmp_path}/" + folder + "/x", "w").close()
                answer.append(folder)
            except OSError:
                pass
    """
    assert _answer(job, code, mounts=mounts) == ["store"]
    assert (tmp_path / "store/x").stat().st_uid == STAGE_USER


PATIENT = """if 1:
    import signal, sys
    signal.signal(signal.SIGTERM, lambda *_: (print("saved"), sys.exit(75)))
    print("ready", flush=True)
    signal.pause()
"""


def test_a_stage_that_is_stopped_has_its_grace(job: Any) -> None:
    runner = DockerRunner()
    handle = runner.submit(job(PATIENT))
    logs = runner.logs(handle)
    assert next(logs).text == "ready"
    assert runner.status(handle).running
    assert runner.wait(handle, 0.05).running
    runner.stop(handle, 20)
    assert [line.text for line in logs] == ["saved"]
    assert runner.wait(handle).exit_code == 75
    runner.stop(handle, 20)
    runner.remove(handle)
    runner.remove(handle)
    runner.stop(handle, 20)
    with pytest.raises(JobGone, match="gone"):
        runner.status(handle)
    with pytest.raises(JobGone, match="gone"):
        list(runner.logs(handle))


def test_past_its_timeout_it_gets_a_notice_and_its_last_lines_come(job: Any) -> None:
    ended, lines = _run(job(PATIENT, timeout_s=10, grace_s=20))
    assert (ended.exit_code, ended.timed_out, lines) == (75, True, ["ready", "saved"])


def test_one_that_does_not_listen_is_killed(job: Any) -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    ended, _ = _run(job(code, timeout_s=10, grace_s=1))
    assert (ended.exit_code, ended.timed_out, ended.out_of_memory) == (137, True, False)


def test_a_caller_that_fails_leaves_nothing_behind(job: Any, label: dict[str, str]) -> None:
    def fail(_line: Line) -> None:
        raise RuntimeError("caller")

    with pytest.raises(RuntimeError, match="caller"):
        _follow(job(PATIENT), fail)
    assert DockerRunner().find(label) == []


def test_another_process_can_find_a_container_and_see_it_through(job: Any, label: dict[str, str]) -> None:
    handle = DockerRunner().submit(job("print('done')"))
    other = DockerRunner()
    assert other.find(label) == [handle]
    lines: list[Line] = []
    ended = follow_to_end(other, handle, job(), lines.append)
    assert (ended.exit_code, lines) == (0, [Line("stdout", "done")])


def test_a_long_log_comes_whole_and_a_long_line_cut(job: Any) -> None:
    code = "for i in range(20_000): print(i)\nprint('x' * 1_000_000)"
    ended, lines = _run(job(code))
    assert lines[:-1] == [str(number) for number in range(20_000)]
    assert len(lines[-1]) < 100_000
    assert len(ended.tail) == 100


def test_an_image_that_is_not_there_says_how_to_build_it(label: dict[str, str]) -> None:
    job = Job(name="job", request=b"", image="ratchet-none:1", labels=label)
    with pytest.raises(ConfigurationError, match=r"ratchet-none:1 is not in the engine.*scripts/images\.sh"):
        DockerRunner().submit(job)
    with pytest.raises(ConfigurationError, match=r"ratchet-none:1 is not in the engine"):
        DockerRunner().image_id("ratchet-none:1")


def test_a_job_without_an_image_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="names no image"):
        DockerRunner().submit(Job(name="job", request=b""))


def test_a_folder_that_is_not_there_is_refused_and_nothing_stays(job: Any) -> None:
    with pytest.raises(ConfigurationError, match="bind source path does not exist"):
        DockerRunner().submit(job(mounts=(Mount(path="/nonexistent/store"),)))


def test_a_gpu_that_is_not_there_is_a_matter_of_configuration(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a GPU")
    monkeypatch.setenv("RATCHET_GPUS", "0")
    with pytest.raises(ConfigurationError, match="device driver"):
        DockerRunner().submit(job(resources=Resources(gpus=1)))


def test_the_digest_of_an_image_is_known(stage_image: str) -> None:
    assert DockerRunner().image_id(stage_image).startswith("sha256:")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the SDK forgets a socket that failed
def test_an_engine_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert engine_available() is not None
    with pytest.raises(Unavailable, match=r"does not answer.*scripts/engine\.sh"):
        DockerRunner().submit(Job(name="job", request=b"", image="i"))
    gc.collect()


def test_one_runner_serves_several_threads(job: Any) -> None:
    runner, before = DockerRunner(), threading.active_count()  # other tests may have left some

    def run(number: int) -> JobEnd:
        given = job(f"print({number})")
        return follow_to_end(runner, runner.submit(given), given, lambda _: None)

    with ThreadPoolExecutor(3) as pool:
        all_ended = list(pool.map(run, range(6)))
    assert [ended.tail[0].text for ended in all_ended] == [str(n) for n in range(6)]
    assert threading.active_count() < before + 3
