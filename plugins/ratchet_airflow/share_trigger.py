"""The trigger of a share: it follows its container as that of a stage, and ends it once the stage has ended.

A change here violates the promise of the project when a share goes on for a stage that has ended, or is ended because
Airflow is away.
"""

import asyncio
from contextlib import suppress
from typing import Any

from ratchet.contracts.errors import RatchetError
from ratchet_airflow.container_trigger import ContainerTrigger, in_thread
from ratchet_airflow.task_states import is_over

_LOOK_S = 10.0
"""Seconds between two looks at whether the stage has ended."""
_AGAIN_S = 60.0
"""Until the notice to stop is sent again: the engine may have been silent."""


class ShareTrigger(ContainerTrigger):
    """stage: the one that the share helps."""

    def __init__(self, *, stage: str, **left: Any) -> None:
        super().__init__(**left)
        self.stage = stage

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """As that of a stage."""
        _, given = super().serialize()
        return f"{__name__}.{type(self).__name__}", {**given, "stage": self.stage}

    async def watch(self) -> None:
        """Look at the stage, and end the container once that has ended."""
        task: Any = self.task_instance
        while True:
            await asyncio.sleep(_LOOK_S)
            if await in_thread(lambda: is_over(task.dag_id, task.run_id, self.stage)):
                with suppress(RatchetError):
                    await in_thread(self.end)
                await asyncio.sleep(_AGAIN_S)
