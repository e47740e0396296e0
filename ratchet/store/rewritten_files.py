"""Files of settings that other programs rewrite: those of AWS, and of MLflow's log-in."""

import time
from collections.abc import Callable
from typing import TypeVar

_LOOKS, _PAUSE_S = 5, 0.25
_Found = TypeVar("_Found")


def whole(read: Callable[[], _Found], broken: type[Exception]) -> _Found:
    """What a file of settings says. Another program may be writing it in place: it is read again for a second.

    It sleeps between two looks, since nothing says when that program has ended its write.
    """
    for _ in range(_LOOKS - 1):
        try:
            return read()
        except broken:
            time.sleep(_PAUSE_S)
    return read()
