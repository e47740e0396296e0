"""The definition of a service, and the policy of its restarts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Service:
    """A server, or a step that runs once before servers start.

    address: its URL for people; empty if it has none. health: a URL that answers 200 while it is healthy; empty to
    watch only its process. after: the name of the service that must run, or be done, before its first start. once:
    whether it ends by itself, with exit code 0. start_s: the longest time until its first answer, in seconds. silent_s:
    the longest time without an answer after that.
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

    first_s: the first delay in seconds; each later one is twice as long, `longest_s` at most.
    """

    restarts: int = 5
    within_s: float = 600
    first_s: float = 1
    longest_s: float = 60


def delay(policy: RestartPolicy, deaths: Sequence[float], now: float) -> float | None:
    """Seconds until the next start after these deaths (times in seconds, the last one included); None: give up."""
    recent = sum(now - died < policy.within_s for died in deaths)
    if recent > policy.restarts:
        return None
    return float(min(policy.longest_s, policy.first_s * 2 ** max(0, recent - 1)))
