"""A training that its attempt leaves to a follower of many jobs, and goes on with when that says so."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from signal import SIGKILL

import pytest

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.runners import following
from ratchet.runners.docker import DockerRunner
from ratchet.runners.following import Leave, LeftRunning
from ratchet.runners.runner import Engine
from ratchet.runs import left_job
from ratchet.runs.attempt import Attempt
from ratchet.runs.events import Event
from ratchet.runs.left_job import Follower, Why, left_work
from ratchet.runs.stage_record import StageRecord
from ratchet.runs.work import Work, settle
from ratchet.store.lease import holder_of
from tests.faults.ticking import ticking
from tests.faults.trainings import Trainings, containers, trained, trainings
from tests.waiting import until

pytestmark = [pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("attempts")]
NAME = "left"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, stage_image: str) -> Iterator[Trainings]:
    with trainings(tmp_path_factory.mktemp("left"), stage_image, model=ticking(0.2), rows_per_day=2000) as prepared:
        yield prepared


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two a second."""
    monkeypatch.setattr(left_job, "LOOK_S", 0.5)


def plan_of(made: Trainings, name: str, seed: int, timeout: str = "10m", epochs: int = 1, grace: str = "5s") -> RunPlan:
    """A run up to its training, which makes some 45 steps an epoch."""
    stages = {"stages.train.grace": grace, "stages.train.timeout": timeout}
    plan = made.plan(name, **{"train.batch_size": 128, "train.epochs": epochs, "train.seed": seed, **stages})
    made.prepare(plan)
    return plan


def ticks(said: list[str]) -> list[int]:
    return [int(line.removeprefix("tick ")) for line in said if line.startswith("tick ")]


def hearing(said: list[str]) -> Callable[[Event], None]:
    return lambda event: said.append(event.message)


def left(made: Trainings, plan: RunPlan, said: list[str]) -> Work:
    """The work of an attempt that has left its training after some steps."""
    work = settle(made.store, plan, "train", NAME, on_event=hearing(said))
    assert isinstance(work, Work)
    leave = Leave(1.0, lambda: len(ticks(said)) > 0)
    attempt = Attempt(work, DockerRunner(), on_event=hearing(said), keep=True, leave=leave)
    with pytest.raises(LeftRunning):
        ended_by(attempt)
    kept = holder_of(made.store, work.lease)
    assert kept is not None
    assert (kept.attempt, kept.process, kept.ending) == (NAME, None, False)
    again = left_work(made.store, plan, work.request.model_dump_json(by_alias=True), work.because, DockerRunner())
    assert again is not None
    return again


def followed(made: Trainings, work: Work, said: list[str], *, until_ticks: int | None = None) -> Why:
    """What a follower says at last; with until_ticks it is stopped when it has heard so many."""
    over = threading.Event()
    name = f"{NAME}-{len(said)}"
    follower = Follower(
        made.store, work.plan, work.request, DockerRunner(), name=name, over=over, on_event=hearing(said)
    )
    with ThreadPoolExecutor(1) as pool:
        why = pool.submit(follower.follow)
        if until_ticks is not None:
            until(lambda: len(ticks(said)) > until_ticks or why.done(), seconds=60)
            over.set()
        return why.result(timeout=200)


class OtherHost(DockerRunner):
    """A host whose engine is another one."""

    engine = Engine("other/1", "other")

    def find(self, labels: Mapping[str, str]) -> list[str]:
        _ = labels
        return []


def ended(work: Work, said: list[str], runner: DockerRunner | None = None, log: str | None = None) -> Outcome:
    """How the attempt ends that goes on. log: where its follower has stored it."""
    on = Attempt(work, runner or DockerRunner(), on_event=hearing(said), keep=True, log=log)
    return ended_by(on, earlier=work.attempt)


def ended_by(attempt: Attempt, *, earlier: str | None = None) -> Outcome:
    """As an orchestrator does: how it ends is recorded."""
    work = attempt.work
    with StageRecord(work.store, work.plan, "train", no_end=(LeftRunning,)) as record:
        record.attempt = attempt
        return record.end(attempt.compute(earlier))


def test_two_followers_in_turn_and_then_the_attempt_go_on_and_nothing_is_lost(made: Trainings) -> None:
    said: list[str] = []
    work = left(made, plan_of(made, "left", 1, epochs=5), said)
    (container,) = containers(made)
    assert followed(made, work, said, until_ticks=len(ticks(said)) + 3).text == "it was left"
    assert containers(made) == [container]
    why = followed(made, work, said)
    assert why.text == "it has ended"
    elsewhere = ended(work, said, OtherHost(), log=why.log)
    assert containers(made) == [container]
    outcome = ended(work, said, log=why.log)
    assert containers(made) == []
    assert holder_of(made.store, work.lease) is None
    assert (elsewhere.cached, elsewhere.log, outcome.log) == (False, why.log, why.log)
    assert elsewhere.seconds > len(ticks(said)) * 0.1
    assert (outcome.state, outcome.cached, outcome.because) == ("done", False, work.because)
    assert trained(outcome).resumed_from is None
    assert ticks(said) == list(range(1, len(ticks(said)) + 1))  # none lost, none twice
    assert outcome.log is not None
    stored = made.store.read(outcome.log).decode().splitlines()
    assert ticks(stored) == ticks(said)
    assert stored[-1] == "# ended with exit code 0"
    assert ticks(list(outcome.last_lines)) != []
    assert outcome.seconds > len(ticks(said)) * 0.1  # of 0.2 s each; between two followers nobody counts


@pytest.mark.parametrize(("name", "seed", "code"), [("late", 2, ExitCode.TRY_AGAIN), ("deaf", 5, 128 + SIGKILL)])
def test_a_job_past_its_time_is_stopped_by_its_follower_though_no_attempt_goes_on(
    made: Trainings, monkeypatch: pytest.MonkeyPatch, name: str, seed: int, code: int
) -> None:
    """As in a DAG that is paused. A deaf one gets no notice."""
    monkeypatch.setattr(following, "_LEAST_LEFT_S", 1.0)
    if name == "deaf":
        monkeypatch.setattr(DockerRunner, "notify", lambda *_: None)
    said: list[str] = []
    grace = "5s" if name == "deaf" else "30s"
    work = left(made, plan_of(made, name, seed, timeout="60s", epochs=9, grace=grace), said)
    assert followed(made, work, said).text == "it has ended"
    (container,) = containers(made)
    assert DockerRunner().status(container).exit_code == code
    with pytest.raises(RatchetError, match="took longer than 1m and was stopped"):
        ended(work, said)
    assert containers(made) == []


def test_a_follower_leaves_the_lease_of_another_attempt_alone(made: Trainings) -> None:
    plan = plan_of(made, "other", 3)
    work = settle(made.store, plan, "train", NAME, on_event=lambda _: None)
    assert isinstance(work, Work)
    assert followed(made, work, []) == Why("its lease is another attempt's", again=True)
    assert holder_of(made.store, work.lease) is None


def test_what_another_attempt_has_taken_over_meanwhile_is_not_left(made: Trainings) -> None:
    """A worker that was frozen wakes up when its successor has ended the training."""
    plan, said, other = plan_of(made, "woken", 4), list[str](), list[str]()
    work = settle(made.store, plan, "train", NAME, on_event=hearing(said))
    assert isinstance(work, Work)

    def taken() -> bool:
        """The frozen one is here, about to leave it."""
        if ticks(said) and not other:
            found = settle(made.store, plan, "train", "second", on_event=hearing(other))
            assert isinstance(found, Work)
            ended_by(Attempt(found, DockerRunner(), on_event=hearing(other), keep=True), earlier=NAME)
        return bool(other)

    late = Attempt(work, DockerRunner(), on_event=hearing(said), keep=True, leave=Leave(1.0, taken))
    assert late.compute().result is not None
    assert late.lost
    assert containers(made) == []
