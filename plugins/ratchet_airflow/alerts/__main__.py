"""`python -m ratchet_airflow.alerts NAME`: send a test message to each address of a receiver, and say which took it.

For people who have set an address, or mended one. Where the addresses are connections of Airflow, it needs
RATCHET_AIRFLOW_API, as the watch does. It prints no address.
"""

import argparse
import logging
import os
import re
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

from ratchet.contracts.alerts import RECEIVER
from ratchet.contracts.environment import alert_variable, environment
from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable
from ratchet.contracts.masking import Mask
from ratchet_airflow.alerts import delivery
from ratchet_airflow.watch.airflow_server import named_server

_TITLE, _BODY = "A test message of Ratchet", "Somebody checks this address. There is nothing to do."


def main(arguments: Sequence[str] | None = None) -> int:
    """Send them. Returns the exit code: 0 if each address has taken its message."""
    parser = argparse.ArgumentParser(prog="alerts", description=(__doc__ or "").partition("\n")[0].partition(": ")[2])
    parser.add_argument("receiver", metavar="NAME", help="a name of alerts.to, such as mlops")
    name = str(parser.parse_args(arguments).receiver)
    logging.getLogger("ratchet.alerts").setLevel(logging.ERROR)  # what is wrong is said below
    try:
        if not re.fullmatch(RECEIVER, name):
            raise ConfigurationError(f"{name!r} is no name of a receiver", remedy="name one of alerts.to of a pipeline")
        if environment().airflow_api is not None:
            delivery.ask_airflow(named_server("test message").receiver)
        addresses = delivery.addresses(name)
        if not addresses:
            raise ConfigurationError(
                f"{name} has no address",
                remedy=f"set {alert_variable(name)}, or create the Airflow connection ratchet_alerts_{name}",
            )
        refused = 0
        for number, address in enumerate(addresses, 1):
            why = refusal(address)
            refused += bool(why)
            said = f"did not take the test message: {why}" if why else "has taken the test message"
            sys.stdout.write(f"{name}: address {number} of {len(addresses)} ({urlsplit(address).scheme}) {said}\n")
    except RatchetError as error:
        sys.stderr.write(f"alerts: {error}\n")
        return int(error.code)
    return int(Unavailable.code) if refused else 0


def refusal(address: str) -> str:
    """Send a test message to an Apprise URL; why it was not taken, without the address; empty if it was."""
    from apprise import Apprise, LogCapture

    sender = Apprise()
    if not sender.add(address):
        return "it is no address that Apprise knows (https://github.com/caronc/apprise)"
    with LogCapture(level=logging.WARNING, fmt="%(message)s") as log:
        taken = sender.notify(title=_TITLE, body=_BODY, notify_type="info")
        said = " ".join(log.getvalue().split())
    if taken:
        return ""
    parts = [part for part in re.split(r"[/:@?&=,]+", address.partition("://")[2]) if part]
    return Mask([address, *parts]).text(said) or "Apprise does not say why"


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a thread of Apprise's may still wait for an address that does not end its answer
