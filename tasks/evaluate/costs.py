"""What candidate and champion cost to serve: the time for a batch, the bytes of their files."""

from collections.abc import Callable, Sequence

from ratchet.contracts.gate import Gate
from ratchet.contracts.result import StageResult

TURNS = 15
"""Pairs of times. The bounds of their median ratio hold if up to three turns are disturbed."""
_FILES = ("weights", "description", "code")


def time_in_turns(
    gate: Gate, candidate: Callable[[], float], champion: Callable[[], float]
) -> Sequence[tuple[float, float]]:
    """Milliseconds of (candidate, champion), in turns, so that a busy machine slows both; none without a limit.

    candidate, champion: score a batch, and return how long it took.
    """
    return [(candidate(), champion()) for _ in range(TURNS if gate.max_latency is not None else 0)]


def size_of(trained: StageResult) -> int:
    """The bytes of a model's files."""
    return sum(trained.outputs[name].bytes for name in _FILES if name in trained.outputs)
