"""Containers that stand in for those of a stack, and waiting for what becomes of them."""

from collections.abc import Callable

from team.stack import Member, Stack

Starts = Callable[..., str]
"""Starts a container for a service with some Python as its program; gives its id."""
LASTS = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0)); time.sleep(300)"


def member(stack: Stack, service: str) -> Member:
    """The only container of a service."""
    (found,) = [each for each in stack.members() if each.service == service]
    return found
