import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ratchet.contracts.errors import JobGone, Unavailable
from ratchet.contracts.stages import Resources
from ratchet.runners.following import JobEnd, follow_to_end
from ratchet.runners.job import Job
from ratchet.runners.log.lines import Line
from ratchet.runners.log.output import MOST_LINES
from ratchet.runners.process import ProcessRunner
from tests.waiting import until


@pytest.fixture
def scratch_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's jobs get their folders."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def _python(code: str, **settings: object) -> Job:
    return Job(name="job", request=b"{}", command=(sys.executable, "-c", code), **settings)  # type: ignore[arg-type]  # a test's shorthand


def _follow(job: Job, on_line: Callable[[Line], None]) -> JobEnd:
    runner = ProcessRunner()
    return follow_to_end(runner, runner.submit(job), job, on_line)


def _run(job: Job) -> tuple[JobEnd, list[Line]]:
    lines: list[Line] = []
    return _follow(job, lines.append), lines


def left(root: Path) -> list[Path]:
    """The folders of jobs that are still there."""
    return list(root.glob("ratchet-jobs-*/*"))


def _state(pid: int) -> str:
    """The kernel's letter for the process: S sleeps, T is stopped, Z has ended; and Z where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the second one: it went between the opening and the reading
        return "Z"


def _gone(pid: int) -> bool:
    return _state(pid) == "Z"


def test_both_streams_and_the_exit_code_come_back() -> None:
    ended, lines = _run(_python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(65)"))
    assert (ended.exit_code, ended.out_of_memory, ended.timed_out) == (65, False, False)
    assert {(line.stream, line.text) for line in lines} == {("stdout", "out"), ("stderr", "err")}
    assert set(ended.tail) == set(lines)


def test_request_and_secrets_are_files_for_this_user_alone_and_vanish(scratch_root: Path) -> None:
    code = """if 1:
        import json, os
        from pathlib import Path
        request, secrets = Path(os.environ["RATCHET_REQUEST"]), Path(os.environ["RATCHET_SECRETS"])
        modes = [oct(path.stat().st_mode & 0o777) for path in (request.parent, secrets, secrets / "key")]
        print(json.dumps([request.read_text(), (secrets / "key").read_text(), modes, "hunter2" in str(os.environ)]))
    """
    ended, lines = _run(_python(code, secrets={"key": b"hunter2"}))
    assert ended.exit_code == 0
    assert json.loads(lines[0].text) == ["{}", "hunter2", ["0o700", "0o700", "0o400"], False]
    assert left(scratch_root) == []


def test_without_a_command_the_stage_program_gets_the_request() -> None:
    ended, lines = _run(Job(name="job", request=b"not a request"))
    assert ended.exit_code != 0
    assert lines


def test_a_process_past_its_timeout_gets_a_notice_and_its_last_lines_come() -> None:
    code = """if 1:
        import signal, sys
        signal.signal(signal.SIGTERM, lambda *_: (print("saved"), sys.exit(75)))
        print("ready"); signal.pause()
    """
    ended, lines = _run(_python(code, timeout_s=5, grace_s=10))
    assert (ended.exit_code, ended.timed_out) == (75, True)
    assert [line.text for line in lines] == ["ready", "saved"]


def test_one_that_does_not_listen_is_killed_after_its_grace() -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    ended, _ = _run(_python(code, timeout_s=5, grace_s=0.2))
    assert (ended.exit_code, ended.timed_out, ended.out_of_memory) == (137, True, False)


def test_an_exit_with_137_is_the_stages_own_word_for_out_of_memory() -> None:
    ended, _ = _run(_python("import sys; sys.exit(137)"))
    assert (ended.exit_code, ended.out_of_memory) == (137, True)


def test_threads_that_wait_for_numpy_take_no_processor() -> None:
    code = """if 1:
        import numpy, os, psutil, time
        time.sleep(0.5)
        others = [thread for thread in psutil.Process().threads() if thread.id != os.getpid()]
        print(len(others), sum(thread.user_time + thread.system_time for thread in others))
    """
    _, lines = _run(_python(code, resources=Resources(cpus=2)))
    threads, seconds = lines[0].text.split()
    assert (int(threads), float(seconds) < 0.05) == (min(2, os.cpu_count() or 1) - 1, True)


def test_children_of_the_process_end_with_it() -> None:
    ended, lines = _run(_python("import subprocess; print(subprocess.Popen(['sleep', '600']).pid)"))
    assert ended.exit_code == 0
    until(lambda: _gone(int(lines[0].text)), seconds=10)


def test_a_grandchild_that_left_the_group_and_holds_the_log_open_does_not_hold_up_the_end() -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)"
    ended, lines = _run(_python(code))
    os.kill(int(lines[0].text), signal.SIGKILL)
    assert ended.exit_code == 0


def test_an_error_of_the_caller_ends_the_job(scratch_root: Path) -> None:
    seen: list[int] = []

    def fail(line: Line) -> None:
        seen.append(int(line.text))
        raise RuntimeError("caller")

    job = _python("import os, time; print(os.getpid()); time.sleep(600)", grace_s=5)
    with pytest.raises(RuntimeError, match="caller"):
        _follow(job, fail)
    assert _gone(seen[0])
    assert left(scratch_root) == []


CALLER = """if 1:
    import signal, sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup has this one ignored
    from ratchet.runners.job import Job
    from ratchet.runners.process import ProcessRunner
    from ratchet.runners.following import follow_to_end
    code = 'import os, time; print(os.getpid()); time.sleep(600)'
    job = Job(name="job", request=b"", command=(sys.executable, "-c", code), grace_s=5)
    runner = ProcessRunner()
    follow_to_end(runner, runner.submit(job), job, lambda line: print(line.text, flush=True))
"""


@pytest.fixture
def caller(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that runs a job and prints the job's pid."""
    with subprocess.Popen(
        [sys.executable, "-c", CALLER], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)]
)
def test_a_caller_that_gets_a_signal_cleans_up_first(
    caller: "subprocess.Popen[str]", tmp_path: Path, number: signal.Signals, code: int
) -> None:
    assert caller.stdout is not None
    job = int(caller.stdout.readline())
    caller.send_signal(number)
    assert caller.wait(20) == code
    assert _gone(job)
    assert left(tmp_path) == []


def test_a_job_does_not_outlive_a_caller_that_was_killed(caller: "subprocess.Popen[str]") -> None:
    assert caller.stdout is not None
    job = int(caller.stdout.readline())
    caller.kill()
    until(lambda: _gone(job), seconds=10)


def test_the_folder_of_a_job_whose_caller_was_killed_is_deleted_by_the_next_job_and_not_while_it_runs(
    caller: "subprocess.Popen[str]", scratch_root: Path
) -> None:
    assert caller.stdout is not None
    job = int(caller.stdout.readline())
    _run(_python(""))
    (folder,) = left(scratch_root)  # it is in use
    os.kill(job, signal.SIGSTOP)
    until(lambda: _state(job) == "T", seconds=20)  # or the notice of its parent's death could be heard first
    caller.kill()
    caller.wait(20)
    _run(_python(""))
    assert left(scratch_root) == [folder]  # its job may still save its work
    os.kill(job, signal.SIGKILL)
    until(lambda: _gone(job), seconds=10)
    _run(_python(""))
    assert left(scratch_root) == []


def test_lines_that_nobody_reads_do_not_block_the_process_and_the_loss_is_reported() -> None:
    runner = ProcessRunner()
    handle = runner.submit(_python(f"for i in range({MOST_LINES + 10}): print(i)"))
    assert runner.wait(handle, 30).exit_code == 0
    lines = [line.text for line in runner.logs(handle)]
    runner.remove(handle)
    assert lines[0] == "[10 lines were not read in time and are lost]"
    assert lines[-1] == str(MOST_LINES + 9)


def test_a_job_is_found_by_its_labels_until_it_is_removed() -> None:
    runner = ProcessRunner()
    handle = runner.submit(_python("", labels={"a": "1", "b": "2"}))
    assert runner.find({"a": "1"}) == [handle]
    assert runner.find({"a": "2"}) == []
    runner.remove(handle)
    runner.remove(handle)
    runner.stop(handle, 1)
    assert runner.find({}) == []
    with pytest.raises(JobGone, match="is gone"):
        runner.status(handle)


def test_removing_kills_what_runs() -> None:
    runner = ProcessRunner()
    handle = runner.submit(_python("import time; time.sleep(600)"))
    assert runner.wait(handle, 0.05).running
    assert runner.status(handle).running
    runner.remove(handle)
    assert runner.find({}) == []


def test_a_machine_without_room_for_the_process_says_so(scratch_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(Unavailable, match="cannot be started"):
        ProcessRunner().submit(_python(""))
    assert left(scratch_root) == []
