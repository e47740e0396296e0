"""The end of the stages of a stack."""

from rich.console import Console

from ratchet.contracts.errors import Unavailable
from team.stack import Stack

_ROUNDS = 5


def end_stages(stack: Stack, console: Console, verb: str) -> None:
    """Stop what starts stages, and end all of them. Raises Unavailable if some are there afterwards."""
    if stack.members():
        # So that none of them resumes what ends now, or keeps its lease.
        stack.compose("stop", "scheduler", "triggerer", "follower", "worker", "worker-gpu")
    for _ in range(_ROUNDS):  # a request to start one may have been on its way
        stages = stack.stages()
        if not stages:
            return
        if graces := [stage.grace_s for stage in stages if stage.running]:
            console.print(
                f"{verb}: {len(graces)} running stages save their work and end; this takes up to {max(graces)} s"
            )
        stack.end_stages(stages)
    raise Unavailable(f"{len(stages)} stage containers do not end", remedy="see `docker ps`, and run this again")
