"""One turn at a rebuild of a version: a process that goes on where an earlier one was, and may leave it to a later one.

A change here violates the promise of the project when two rebuilds have a run in common, or when a container is ended
that a turn would still come back for.
"""

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ratchet.contracts import paths
from ratchet.contracts.errors import JobGone
from ratchet.contracts.labels import Label
from ratchet.contracts.version_record import VersionRecord
from ratchet.runners import following
from ratchet.runners.following import Leave, retry_unavailable
from ratchet.runners.runner import Runner
from ratchet.runs.attempt import Attempt
from ratchet.runs.jobs import store_label
from ratchet.store.base import Store

_DIGEST = 8
_GRACE_S = 30.0
"""Of a container without that label."""


def new_name() -> str:
    """The name of a rebuild, which no other one has."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One process of a rebuild. name: of the rebuild; each turn of it has the same one.

    origin, installation: of the run of the orchestrator that makes it, if one does. leave: when the container of a
    stage is left; it is given whether a container may be left. left: what the turn before has left: `request`,
    `preemptions`, `log` and whether it may be left `again`. on_attempt: is given each attempt before it computes.
    goes_on: whether a later turn comes after an error; then nothing that was computed is deleted.
    """

    name: str = field(default_factory=new_name)
    origin: str = ""
    installation: str = ""
    leave: Callable[[bool], Leave] = lambda _: Leave()
    left: Mapping[str, Any] | None = None
    on_attempt: Callable[[Attempt], None] = lambda _: None
    goes_on: Callable[[BaseException], bool] = lambda _: False

    def run_id(self, record: VersionRecord) -> str:
        """The run of a version in this rebuild. Its end is the installation, as in the ids of other runs."""
        of = f"{_of(self.name)}{record.version}-{record.digest[:_DIGEST]}"
        return f"{of}.{self.installation}" if self.installation else of


def end_rebuild(store: Store, runner: Runner, name: str) -> list[str]:
    """End what runs here of a rebuild that no turn goes on with: each has its grace. Returns the stages."""
    return _end(store, runner, {}, lambda labels: labels[Label.RUN].startswith(_of(name)))


def end_others(store: Store, runner: Runner, run_id: str, stage: str, fingerprint: str) -> list[str]:
    """End containers of a stage that an earlier turn began with other code, as before an upgrade.

    fingerprint: of the work that they may do. Empty if its result is there: a turn that was killed before it removed
    the container has left it, and no one else looks at it while the rebuild goes on.
    """
    wanted = {Label.RUN: run_id, Label.STAGE: stage}
    return _end(store, runner, wanted, lambda labels: labels[Label.FINGERPRINT] != fingerprint)


def _of(name: str) -> str:
    return f"{paths.REPRODUCTION}-{name}-"


def _end(
    store: Store, runner: Runner, wanted: Mapping[str, str], is_over: Callable[[Mapping[str, str]], bool]
) -> list[str]:
    ended, ours = list[str](), {Label.STORE: store_label(store.uri), **wanted}
    for handle in retry_unavailable(lambda: runner.find(ours), following.PATIENCE_S):
        with suppress(JobGone):
            labels = runner.labels(handle)
            if is_over(labels):
                runner.stop(handle, float(labels.get(Label.GRACE, _GRACE_S)))
                runner.remove(handle)
                ended.append(labels[Label.STAGE])
    return ended
