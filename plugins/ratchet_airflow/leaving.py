"""To which process a task leaves its container: the triggerer beside the same engine, or the follower of its host."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ratchet.contracts import left_paths
from ratchet.contracts.environment import environment
from ratchet_airflow.servers import alive_file

if TYPE_CHECKING:
    from ratchet.runners.runner import Runner
    from ratchet.runs.work import OnEvent, Work
    from ratchet.store.base import Store

_WELL_S = 60.0
_LEFT_KEY = "ratchet_left"


def who_is_away(work: "Work", runner: "Runner") -> Sequence[str]:
    """Whom a task would leave its container to, and cannot, in words."""
    from ratchet_airflow.container_trigger import is_triggerer_well

    away = [] if is_triggerer_well() else ["no triggerer is healthy"]
    engine = runner.engine
    if _to_host() and engine is not None:
        ours, found = served(work.store.uri, work.plan.installation, engine.id), follower_here()
        if found is None:
            away.append("the follower of this host is not there")
        elif found != ours:
            away.append("the follower of this host has another store, engine or installation")
    return away


def left_to(work: "Work", runner: "Runner", attempt: str, states: Any) -> tuple[str, dict[str, Any]]:
    """Leave the container of an attempt. Who follows it, in words, and what its trigger is made of.

    states: Airflow's state of the task, which keeps where it was left until a try takes it back.
    """
    from ratchet.runs.left_elsewhere import leave, new_place

    asked, engine = work.request.model_copy(update={"attempt": attempt}), runner.engine
    request, left = asked.model_dump_json(by_alias=True), None
    if _to_host() and engine is not None:
        left = new_place(work.plan, asked, engine)
        if states is not None:
            states.set(_LEFT_KEY, left)
        leave(work.store, left, asked)
    who = "the triggerer" if left is None else "the follower of this host"
    return who, {"store": work.plan.store, "request": request, "left": left}


def take_back_left(
    store: "Store", ours: str, runner: "Runner", states: Any, on_event: "OnEvent", *, ends: bool = False
) -> None:
    """Take back what an earlier process of the task has left to a follower, however that ended.

    Else a follower that begins later would take the lease from this one. On another host the follower keeps it: it
    alone sees that the container ends or is past its time, and gives it new keys. ours: the installation. ends: it is
    to end the container then, as a try on its host would. on_event: gets lines that nobody has read.
    """
    from ratchet.runners.following import PATIENCE_S, retry_unavailable
    from ratchet.runs.left_elsewhere import take_back

    if states is None or (left := states.get(_LEFT_KEY)) is None:
        return
    engine = retry_unavailable(lambda: runner.engine, PATIENCE_S)
    if engine is not None and not left_paths.is_of(str(left), ours, engine.id):
        if ends:
            store.create(left_paths.end(str(left)), b"")
        return
    take_back(store, str(left), on_event)
    states.delete(_LEFT_KEY)


def served(store: str, installation: str, engine: str) -> str:
    """What the file of a follower says: what it follows."""
    return f"{store}\n{left_paths.host(installation, engine)}\n"


def follower_here() -> str | None:
    """What the follower of this host follows, if it has looked a moment ago."""
    try:
        file = alive_file("follower")
        # Its clock may have been set back since.
        return file.read_text(encoding="utf-8") if abs(time.time() - file.stat().st_mtime) < _WELL_S else None
    except (OSError, UnicodeDecodeError):
        return None


def _to_host() -> bool:
    return environment().follower == "host"
