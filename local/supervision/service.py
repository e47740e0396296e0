"""What is to be kept running, and what happens when it dies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Service:
    """A server, or something that has to be done once before servers start.

    address: where people find it; empty if nobody calls it. health: a URL that answers 200 while it is well; empty if
    only its process tells. after: the name of what has to be done, or to run, before it starts first. once: it ends by
    itself, with exit code 0.
    start_s: how long it may take until it answers first. silent_s: how long it may not answer later on.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, Any])
    address: str = ""
    health: str = ""
    after: str = ""
    once: bool = False
    start_s: float = 150
    silent_s: float = 60


@dataclass(frozen=True, kw_only=True)
class RestartPolicy:
    """At most `restarts` within any `within_s` seconds, each after a delay.

    first_s: the first delay; each later one is twice the one before, `longest_s` at most.
    """

    restarts: int = 5
    within_s: float = 600
    first_s: float = 1
    longest_s: float = 60


def delay(policy: RestartPolicy, deaths: Sequence[float], now: float) -> float | None:
    """Seconds until the next start after these deaths (times in seconds, the last one included); None: give it up."""
    recent = sum(now - died < policy.within_s for died in deaths)
    if recent > policy.restarts:
        return None
    return float(min(policy.longest_s, policy.first_s * 2 ** max(0, recent - 1)))
