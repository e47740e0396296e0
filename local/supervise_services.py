"""`python -m local.supervise_services ROOT HOME`: keeps the servers of a home running. `Services.start` starts it."""

import os
import sys
from pathlib import Path

from local.services import Services
from local.supervision.supervisor import supervise


def main(arguments: list[str]) -> int:
    """Supervise until SIGTERM."""
    root, home = map(Path, arguments)
    settings = {name: os.environ[name] for name in ("RATCHET_DATA", "RATCHET_STORE")}
    supervise(Services(root, home, settings=settings).definitions(), home)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
