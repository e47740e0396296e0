"""An error as `--json` prints it."""

from typing import Any

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.exits import MEANINGS


def error_object(error: RatchetError) -> dict[str, Any]:
    """code: the exit code; cause; remedy: never empty."""
    return {
        "code": int(error.code),
        "cause": error.cause,
        "remedy": error.remedy or MEANINGS[error.code].remedy,
    }
