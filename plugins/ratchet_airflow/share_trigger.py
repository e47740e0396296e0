"""The trigger of a share: it follows its container as that of a stage, and ends it once the stage has ended.

A change here violates the promise of the project when a share goes on for a stage that has ended, or is ended because
Airflow is away.
"""

import asyncio
from typing import Any

from ratchet.contracts.masking import masked_logger
from ratchet_airflow.container_trigger import ContainerTrigger, in_thread
from ratchet_airflow.task_states import is_over

_log = masked_logger("ratchet.share")
_LOOK_S = 10.0
"""Seconds between two looks at whether the stage has ended."""
_AGAIN_S = 60.0
"""Until the notice to stop is sent again."""


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
        """Look at the stage, and end the container once that has ended. A look that fails is no last one."""
        while True:
            await asyncio.sleep(_LOOK_S)
            looking = in_thread(self._look)
            await asyncio.wait([looking])
            error = looking.exception()
            if error is not None:
                _log.warning("it is asked again whether %s has ended: %s", self.stage, error)
            elif looking.result():
                await asyncio.sleep(_AGAIN_S)

    def _look(self) -> bool:
        """Whether the stage has ended. Then the container gets a notice to stop."""
        task: Any = self.task_instance
        over = is_over(task.dag_id, task.run_id, self.stage)
        if over:
            self.end()
        return over
