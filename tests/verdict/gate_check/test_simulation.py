import numpy as np
import pytest
from numpy.typing import NDArray

from ratchet.contracts.errors import OutOfMemory
from ratchet.verdict.gate_check.draws import Draws
from ratchet.verdict.gate_check.sample import pair_of
from ratchet.verdict.gate_check.scenarios import Exchange, Scenario
from ratchet.verdict.gate_check.simulation import LEAST_NIGHTS, simulate
from tests.verdict.gate_check.seeded_samples import keys, ranked


def exchange() -> Scenario:
    pair = pair_of(ranked(60), "ndcg@10")
    assert pair is not None
    return Exchange(pair=pair, draws=Draws.single(pair.units), gate=keys("ndcg@10"))


def test_the_nights_are_the_same_on_any_number_of_cores() -> None:
    done: list[tuple[int, int]] = []
    scenarios = {"one": (exchange(), 50), "two": (exchange(), 30)}
    alone = simulate(scenarios, seed=3, workers=1, progress=lambda *now: done.append(now))
    both = simulate(scenarios, seed=3, workers=2, progress=lambda *_: None)
    assert done[-1] == (80, 80)
    assert {name: len(found) for name, found in alone.items()} == {"one": 50, "two": 30}
    assert all(np.array_equal(alone[name], both[name]) for name in scenarios)
    assert alone["one"].sum() > 0


def test_another_seed_draws_other_nights() -> None:
    found = [simulate({"one": (exchange(), 100)}, seed=seed, workers=1, progress=lambda *_: None) for seed in (0, 1)]
    assert not np.array_equal(found[0]["one"], found[1]["one"])


class Slow:
    """A scenario whose nights take a second each on a clock that is set."""

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock

    def night(self, generator: np.random.Generator) -> tuple[float, ...]:
        self.clock[0] += 1
        return (generator.random(),)


def slow(monkeypatch: pytest.MonkeyPatch, seconds: float) -> dict[str, NDArray[np.float64]]:
    clock = [0.0]
    monkeypatch.setattr("ratchet.verdict.gate_check.simulation.time.monotonic", lambda: clock[0])
    scenarios: dict[str, tuple[Scenario, int]] = {name: (Slow(clock), 1000) for name in ("more", "late", "needed")}
    return simulate(
        scenarios, seed=0, workers=1, progress=lambda *_: None, seconds=seconds, needed=frozenset({"needed"})
    )


def test_a_time_that_is_over_leaves_the_fewest_nights_of_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {name: len(found) for name, found in slow(monkeypatch, 0).items()} == {"needed": LEAST_NIGHTS}


def test_a_scenario_that_would_come_to_too_few_nights_is_given_up_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = slow(monkeypatch, 550)
    assert {name: len(nights) for name, nights in found.items()} == {"needed": 250, "more": 260}


def test_what_time_is_left_is_shared_and_the_nights_are_the_first_ones_of_more(monkeypatch: pytest.MonkeyPatch) -> None:
    found, all_of_them = slow(monkeypatch, 1500), slow(monkeypatch, 1e6)
    assert {name: len(nights) for name, nights in found.items()} == {"needed": 500, "more": 500, "late": 500}
    assert {len(nights) for nights in all_of_them.values()} == {1000}
    assert all(np.array_equal(nights, all_of_them[name][:500]) for name, nights in found.items())


class Ending:
    """A scenario whose process is ended from outside."""

    def night(self, generator: np.random.Generator) -> tuple[float, ...]:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
        return (0.0,)


def test_a_process_that_is_ended_is_said_so() -> None:
    with pytest.raises(OutOfMemory, match=r"ended from outside; to do: give --workers 1"):
        simulate({"one": (Ending(), 40)}, seed=0, workers=2, progress=lambda *_: None)
