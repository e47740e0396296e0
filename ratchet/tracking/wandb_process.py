"""The process that writes a training's metrics to Weights & Biases, with its library: `python -m` this module.

It is a process of its own: the library takes seconds and much memory, and at the end of a process it may wait for its
server for minutes. Each line on its standard input is a request in JSON, and each gets an answer: `{}`, or
`{"error": text}`. The first request is the settings of the run, then rows of metrics, and at last an exit code.
"""

import json
import os
import sys
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, TextIO

_INIT_S, _END_S = 30.0, 60.0
"""Seconds for the first contact with the server, and for what is left once nobody listens."""


def main() -> None:
    """Answer until the input ends, or until the library fails, which is the last answer."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the library prints is no answer

    def fail(kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
        _answer(answers, {"error": f"{kind.__name__}: {str(error).partition(chr(10))[0]:.200}"})

    sys.excepthook = fail
    try:
        _serve(sys.stdin, answers)
    finally:
        timer = threading.Timer(_END_S, os._exit, [1])
        timer.daemon = True
        timer.start()


def _serve(requests: Iterable[str], answers: TextIO) -> None:
    run: Any = None
    for line in requests:
        asked = json.loads(line)
        if "settings" in asked:
            run = _begin(asked["settings"])
        for row in asked.get("rows", ()):
            run.log(row)
        if "exit_code" in asked:
            run.finish(exit_code=asked["exit_code"])
        _answer(answers, {})


def _answer(answers: TextIO, answer: dict[str, str]) -> None:
    answers.write(f"{json.dumps(answer)}\n")
    answers.flush()


def _begin(given: dict[str, Any]) -> Any:
    import wandb

    settings = wandb.Settings(
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        disable_job_creation=True,
        init_timeout=_INIT_S,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )
    run = wandb.init(**given, resume="allow", settings=settings)
    run.define_metric("*", step_metric="step")  # so the steps of a later try may begin before those of an earlier one
    return run


if __name__ == "__main__":
    main()
