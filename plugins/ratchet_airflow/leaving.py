"""To which process a task leaves its container: the triggerer beside the same engine, or the follower of its host."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.contracts.environment import environment
from ratchet_airflow.alerts.delivery import log_file

if TYPE_CHECKING:
    from ratchet.runners.runner import Runner
    from ratchet.runs.work import Work
    from ratchet_airflow.container_trigger import ContainerTrigger

_WELL_S = 60.0


def who_is_away() -> Sequence[str]:
    """Whom a task would leave its container to, and cannot, in words."""
    from ratchet_airflow.container_trigger import is_triggerer_well

    away = [] if is_triggerer_well() else ["no triggerer is healthy"]
    if _to_host() and not is_follower_well():
        away.append("the follower of this host is not there")
    return away


def left_to(work: "Work", runner: "Runner", attempt: str) -> "tuple[str, ContainerTrigger, dict[str, Any]]":
    """Leave the container of an attempt. Who follows it, in words; the trigger; and what `go_on` gets."""
    from ratchet.runs.left_elsewhere import leave
    from ratchet_airflow.container_trigger import ContainerTrigger

    asked, engine = work.request.model_copy(update={"attempt": attempt}), runner.engine
    request, left = asked.model_dump_json(by_alias=True), None
    if _to_host() and engine is not None:
        left = leave(work.store, work.plan, asked, engine)
    trigger = ContainerTrigger(store=work.plan.store, request=request, left=left)
    who = "the triggerer" if left is None else "the follower of this host"
    return who, trigger, {"request": request, "because": work.because, "left": left}


def alive_file() -> Path:
    """What the follower of this host touches after each good look."""
    return log_file().with_name("follower-alive")


def is_follower_well() -> bool:
    """Whether the follower of this host has looked a moment ago."""
    try:
        return abs(time.time() - alive_file().stat().st_mtime) < _WELL_S  # its clock may have been set back since
    except OSError:
        return False


def _to_host() -> bool:
    return environment().follower == "host"
