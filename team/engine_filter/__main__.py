"""`python -m team.engine_filter` serves; `python -m team.engine_filter healthy` asks the one that serves here."""

import argparse
import http.client
import os
import sys

from ratchet.contracts.errors import RatchetError, Unavailable
from team.engine_filter.settings import Settings

_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with
_OK = 200


def main(arguments: list[str] | None = None) -> int:
    """The exit code: of the table in ratchet/contracts/exits.py."""
    parser = argparse.ArgumentParser(prog="python -m team.engine_filter", description=__doc__)
    parser.add_argument("verb", nargs="?", choices=("serve", "healthy"), default="serve")
    options = parser.parse_args(arguments)
    try:
        settings = Settings.load(os.environ)
        if options.verb == "healthy":
            check(settings)
        else:
            from team.engine_filter.serving import serve

            serve(settings)
    except RatchetError as error:
        sys.stderr.write(f"engine filter: {error}\n")
        return int(error.code)
    return 0


def check(settings: Settings) -> None:
    """Raises Unavailable unless the filter answers, and the engine behind it."""
    host = "127.0.0.1" if settings.host == _EVERY_ADDRESS else settings.host
    connection = http.client.HTTPConnection(host, settings.port, timeout=5)
    try:
        connection.request("GET", "/_ping")
        response = connection.getresponse()
        said = response.read(1000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(
            f"nothing answers at {host}:{settings.port}: {error}", remedy="see the filter's log"
        ) from error
    finally:
        connection.close()
    if response.status != _OK:
        raise Unavailable(f"it answers {response.status}: {said.strip()}", remedy="see whether the engine runs")


if __name__ == "__main__":
    sys.exit(main())
