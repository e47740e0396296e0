"""`python -m team.engine_filter` serves; `python -m team.engine_filter healthy` asks the one that serves here."""

import argparse
import http.client
import os
import sys

from ratchet.contracts.errors import RatchetError, Unavailable
from team.engine_filter.policy import Policy

_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with
_OK = 200


def main(arguments: list[str] | None = None) -> int:
    """The exit code: of the table in ratchet/contracts/exits.py."""
    parser = argparse.ArgumentParser(prog="python -m team.engine_filter", description=__doc__)
    parser.add_argument("verb", nargs="?", choices=("serve", "healthy"), default="serve")
    options = parser.parse_args(arguments)
    try:
        policy = Policy.load(os.environ)
        if options.verb == "healthy":
            check(policy)
        else:
            from team.engine_filter.serving import serve

            serve(policy)
    except RatchetError as error:
        sys.stderr.write(f"engine filter: {error}\n")
        return int(error.code)
    return 0


def check(policy: Policy) -> None:
    """Raises Unavailable unless the filter answers, and the engine behind it."""
    host = "127.0.0.1" if policy.host == _EVERY_ADDRESS else policy.host
    connection = http.client.HTTPConnection(host, policy.port, timeout=5)
    try:
        connection.request("GET", "/_ping")
        response = connection.getresponse()
        said = response.read(1000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"nothing answers at {host}:{policy.port}: {error}", remedy="see the filter's log") from error
    finally:
        connection.close()
    if response.status != _OK:
        raise Unavailable(f"it answers {response.status}: {said.strip()}", remedy="see whether the engine runs")


if __name__ == "__main__":
    sys.exit(main())
