import numpy as np
import pytest

from ratchet.contracts.errors import OutOfMemory
from ratchet.verdict.gate_check.draws import Draws
from ratchet.verdict.gate_check.sample import pair_of
from ratchet.verdict.gate_check.scenarios import Exchange, Scenario
from ratchet.verdict.gate_check.simulation import simulate
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
