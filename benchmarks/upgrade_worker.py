"""A worker of the benchmark `upgrade`: it brings a run to its end, with the retries that Airflow would do.

    python upgrade_worker.py STORE PIPELINE RUN LAST

It prints a JSON object for each thing that happens. After a stage it ends if there is a file LAST. Its code is what
PYTHONPATH names, which another release may replace while it runs.
"""

import json
import sys
import uuid
from pathlib import Path

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.exits import decide
from ratchet.contracts.stages import Stage
from ratchet.runners.choice import planned_runner
from ratchet.runs.events import Event
from ratchet.runs.history import plan_of
from ratchet.runs.local_run import attempt_stage
from ratchet.runs.outcomes import outcomes
from ratchet.store.opening import open_store

_TRIES = 3


def main(uri: str, pipeline: str, run_id: str, last: str) -> int:
    """0 once all stages have ended well, or if it is to end after one of them; else the code of the last failure."""
    store = open_store(uri)
    plan = plan_of(store, pipeline, run_id)
    assert plan is not None
    ended = outcomes(store, pipeline, run_id)
    for stage in plan.spec.sequence:
        if stage in ended and ended[stage].state != "failed":
            continue
        code = _bring_to_end(uri, pipeline, run_id, stage)
        if code or Path(last).exists():
            return code
    return 0


def _bring_to_end(uri: str, pipeline: str, run_id: str, stage: Stage) -> int:
    plan = plan_of(open_store(uri), pipeline, run_id)
    assert plan is not None

    def on_event(event: Event) -> None:
        _say(stage=stage, event=event.name, text=event.message)

    for attempt in range(1, _TRIES + 1):
        runner, _ = planned_runner(plan.pins.image)
        try:
            attempt_stage(plan, stage, runner, name=uuid.uuid4().hex[:16], on_event=on_event)
        except RatchetError as error:
            _say(stage=stage, code=int(error.code), text=str(error))
            if not decide(error.code, attempt=attempt, attempts=_TRIES).retry:
                return int(error.code)
        else:
            return 0
    return 1


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
