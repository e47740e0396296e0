"""The person at the command line, for records."""

import getpass
import os
import socket


def user_at_host() -> str:
    """`user@host` of this process; a user without a name is its number."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"
