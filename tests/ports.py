"""Ports of loopback that are kept for a server which a test starts later."""

import socket


def hold(port: int = 0) -> socket.socket:
    """Hold a port, or any free one, until the socket is closed: nobody gets it by chance, and connections are refused.

    A server that sets SO_REUSEADDR, as most do, may listen there meanwhile, and again after its end. A port that was
    free a moment ago another process may have taken before the server listens.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    return held


def number(held: socket.socket) -> int:
    """The number of a port that is held."""
    found: int = held.getsockname()[1]
    return found
