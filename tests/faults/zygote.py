"""Forks a child for each act, so that a tracer can be attached to it before it begins: `python zygote.py`.

Read from standard input: `act folder`; the child's pid is answered. Then `go`; the child's wait status is answered.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.faults.acts import ACTS


def main() -> None:
    for line in sys.stdin:
        act, folder = line.split()
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
