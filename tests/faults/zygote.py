"""Forks a child for each act, so that a tracer can be attached to it before it begins: `python zygote.py`.

Read from standard input: `act folder`; the child's pid is answered. Then `go`; the child's wait status is answered.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.acts import ACTS, BEGIN, OF_TRAININGS


def main() -> None:
    warm = set[str]()
    for line in sys.stdin:
        act, folder = line.split()
        if act in OF_TRAININGS and act not in warm:
            warm.add(act)
            _warm_up(act)
        begin, go = os.pipe()
        child = os.fork()
        if not child:
            _act(ACTS[act], Path(folder), begin)
        _say(child)
        sys.stdin.readline()
        os.write(go, b"go")
        _, status = os.waitpid(child, 0)
        os.close(begin)
        os.close(go)
        _say(status)


def _warm_up(act: str) -> None:
    """Do an act here, so that a child has imported what torch imports late: each import is hundreds of calls."""
    with TemporaryDirectory() as folder:
        BEGIN[act](Path(folder))
        with suppress(AssertionError):  # an act that expects a fault
            ACTS[act](Path(folder))


def _act(act: Callable[[Path], None], folder: Path, begin: int) -> None:
    code = 1
    try:
        os.read(begin, 2)
        act(folder)
        code = 0
    finally:
        os._exit(code)


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
