"""`python -m local.keeping ROOT HOME`: keeps the servers of a home running. `Services.start` starts it."""

import os
import sys
from pathlib import Path

from local.services import Services
from local.supervision.supervisor import supervise


def main(arguments: list[str]) -> int:
    """Supervise until told to stop."""
    root, home = map(Path, arguments)
    settings = {name: os.environ[name] for name in ("RATCHET_DATA", "RATCHET_STORE")}
    supervise(Services(root, home, settings=settings).services(), home)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
