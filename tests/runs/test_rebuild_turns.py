"""A rebuild of a version that several processes compute, one after the other: what each of them finds, and what stays."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import RatchetError, Unavailable
from ratchet.contracts.labels import Label
from ratchet.contracts.reproduction import Reproduction
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.runners.devices import TooFewDevices
from ratchet.runners.process import ProcessRunner
from ratchet.runners.runner import Runner
from ratchet.runs.history import plan_of, plan_to_follow
from ratchet.runs.reproduction import reproduce
from ratchet.runs.turn import Turn
from ratchet.store.base import Store
from ratchet.store.version_records import read_record
from tests.runs.test_warm_nights import DAYS, made_in

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("turns")]
ALL: list[Stage] = ["features", "train", "evaluate", "refit"]
NAME = "warm"


class Ended(Exception):
    """The process of a turn has ended."""


@dataclass
class Heard:
    """What a turn computes and finds. ends_before: the version and the stage before which its process ends."""

    ends_before: tuple[str, Stage] | None = None
    computed: list[tuple[str, Stage]] = field(default_factory=list)
    found: list[tuple[str, Stage]] = field(default_factory=list)
    version: str = ""

    def stage(self, stage: Stage, outcome: Outcome | None) -> None:
        if outcome is None and self.ends_before == (self.version, stage):
            raise Ended
        if outcome is not None:
            (self.found if outcome.cached else self.computed).append((self.version, stage))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """With two versions, the second of which began with the first."""
    return made_in(tmp_path_factory.mktemp("turns"), DAYS[:2]).store


def take(
    store: Store, version: str, turn: Turn, heard: Heard, *, chain: bool = False, runner: Runner | None = None
) -> Reproduction:
    def begins(record: object) -> None:
        heard.version = str(getattr(record, "version", ""))

    return reproduce(
        store, read_record(store, NAME, version), runner or ProcessRunner(), image=None, started_by="ada", turn=turn,
        chain=chain, on_version=begins, on_stage=heard.stage, on_event=lambda *_: None,
    )  # fmt: skip


def turn(name: str) -> Turn:
    return Turn(name=name, origin="manual__1", installation="here", goes_on=lambda _: True)


def published(store: Store) -> set[str]:
    return {entry.key for entry in store.list(paths.published(NAME))}


def test_a_rebuild_that_is_ended_between_stages_goes_on_and_computes_nothing_again(store: Store) -> None:
    before, first = published(store), Heard(ends_before=("1", "evaluate"))
    with pytest.raises(Ended):
        take(store, "1", turn("a"), first)
    assert first.computed == [("1", "features"), ("1", "train")]
    run_id = turn("a").run_id(read_record(store, NAME, "1"))
    plan = plan_to_follow(store, NAME, run_id)
    assert plan is not None
    assert (plan.kind, plan.origin, plan.installation) == ("reproduction", "manual__1", "here")
    assert plan_of(store, NAME, run_id) is None  # it is no run
    second = Heard()
    said = take(store, "1", turn("a"), second)
    assert (said.likeness, said.run_id) == ("bit-equal", run_id)
    assert second.found == first.computed
    assert second.computed == [("1", "evaluate"), ("1", "refit")]
    assert published(store) == before
    third = Heard()
    assert take(store, "1", turn("a"), third) == said  # its process was ended before it could say so
    assert third == Heard()


@pytest.mark.parametrize(
    "why", [Unavailable("nvidia-smi lists none"), TooFewDevices("1 GPU, and this host has none", remedy="-", wanted=1)]
)
def test_a_device_that_is_not_here_now_is_no_answer_of_a_rebuild_that_another_turn_goes_on_with(
    store: Store, monkeypatch: pytest.MonkeyPatch, why: RatchetError
) -> None:
    """A driver that is silent, as after its upgrade, comes back; and a later turn may be on a larger host."""

    def lacks(*_: object) -> None:
        raise why

    name = type(why).__name__
    with monkeypatch.context() as patched:
        patched.setattr("ratchet.runs.reproduction.require_devices", lacks)
        with pytest.raises(type(why)):
            take(store, "1", turn(name), Heard())
    first = Heard(ends_before=("1", "features"))
    with pytest.raises(Ended):
        take(store, "1", turn(name), first)


class Left(ProcessRunner):
    """Has one more container, of each stage that is asked for without a fingerprint. removed: their handles."""

    def __init__(self) -> None:
        super().__init__()
        self.removed: list[str] = []

    def find(self, labels: Mapping[str, str]) -> list[str]:
        return super().find(labels) if Label.FINGERPRINT in labels else [f"left-{labels[Label.STAGE]}"]

    def labels(self, handle: str) -> Mapping[str, str]:
        left = {Label.STAGE: handle.removeprefix("left-"), Label.FINGERPRINT: "f"}
        return left if handle.startswith("left-") else super().labels(handle)

    def stop(self, handle: str, grace_s: float) -> None:
        if not handle.startswith("left-"):
            super().stop(handle, grace_s)

    def remove(self, handle: str) -> None:
        if handle.startswith("left-"):
            self.removed.append(handle)
        else:
            super().remove(handle)


def test_a_container_that_a_killed_turn_has_not_removed_after_its_result_goes_with_the_next_turn(store: Store) -> None:
    with pytest.raises(Ended):
        take(store, "1", turn("left"), Heard(ends_before=("1", "train")))
    runner, heard = Left(), Heard(ends_before=("1", "train"))
    with pytest.raises(Ended):
        take(store, "1", turn("left"), heard, runner=runner)
    assert heard.found == [("1", "features")]
    assert runner.removed == ["left-features"]


def test_it_goes_on_in_the_second_version_of_a_chain(store: Store) -> None:
    before, first = published(store), Heard(ends_before=("2", "train"))
    with pytest.raises(Ended):
        take(store, "2", turn("b"), first, chain=True)
    assert first.computed == [*(("1", stage) for stage in ALL), ("2", "features")]
    second = Heard()
    said = take(store, "2", turn("b"), second, chain=True)
    assert (said.likeness, [one.likeness for one in said.parents]) == ("bit-equal", ["bit-equal"])
    assert (second.found, second.computed) == (first.computed, [("2", stage) for stage in ALL[1:]])
    assert published(store) == before


def test_another_rebuild_shares_no_run_with_it_and_what_is_given_up_leaves_no_equal_parent(store: Store) -> None:
    before, ended = published(store), Heard(ends_before=("2", "features"))
    with pytest.raises(Ended):
        take(store, "2", Turn(name="c"), ended, chain=True)
    assert ended.computed == [("1", stage) for stage in ALL]
    assert published(store) == before
