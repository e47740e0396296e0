"""A supervisor to test, as a separate process: `HOME PORT`."""

import sys
from pathlib import Path

from local.supervision.service import RestartPolicy, Service
from local.supervision.supervisor import supervise

home, port = Path(sys.argv[1]), int(sys.argv[2])
server = str(Path(__file__).with_name("server.py"))
url = f"http://127.0.0.1:{port}"
services = (
    Service(name="prepare", command=(sys.executable, "-c", "open('prepared', 'x')"), once=True),
    Service(
        name="answers",
        command=(sys.executable, server, str(port), "deaf"),
        address=url,
        health=url,
        after="prepare",
        silent_s=8,  # a busy machine may miss one look, of which there is one each five seconds
    ),
    Service(
        name="stubborn",
        command=("sh", "-c", "trap '' TERM; touch stubborn-$$; while :; do sleep 0.1; done"),
        after="answers",
    ),
    Service(name="broken", command=("sh", "-c", "test -e mended && exec sleep 3600; exit 3")),
    Service(name="missing", command=("./no-such-program",)),
)
sys.exit(0 if supervise(services, home, policy=RestartPolicy(first_s=0.05), stop_s=1) else 7)
