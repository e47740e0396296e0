"""`python -m local.supervise_services ROOT HOME`: keeps the servers of a home running. `Services.start` starts it."""

import sys
from pathlib import Path

from local.definitions import definitions
from local.services import Services
from local.supervision.supervisor import supervise
from ratchet.contracts.environment import environment


def main(arguments: list[str]) -> int:
    """Supervise until SIGTERM."""
    root, home = map(Path, arguments)
    here = environment()
    supervise(definitions(Services(root, home, data=here.data, store=here.store)), home)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
