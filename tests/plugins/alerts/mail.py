"""A real SMTP server on loopback that keeps the messages that are given to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session


class Mailbox:
    """url: whom to write to, as Apprise writes it. received: the messages so far."""

    def __init__(self) -> None:
        self.received: list[EmailMessage] = []
        self.url = ""

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's
        """Called by the server for each message."""
        content = envelope.content
        assert isinstance(content, bytes)
        message = message_from_bytes(content, policy=default)
        assert isinstance(message, EmailMessage)
        self.received.append(message)
        return "250 Message accepted for delivery"

    @contextmanager
    def listening(self) -> Iterator["Mailbox"]:
        """Serve until the block ends."""
        server = _AnyPort(self, hostname="127.0.0.1", port=0)
        server.start()
        try:
            people = "from=ratchet@example.org&to=mlops@example.org"
            self.url = f"mailto://127.0.0.1:{server.port}?{people}&mode=insecure"
            yield self
        finally:
            server.stop()


class _AnyPort(Controller):
    """Takes a free port, so that tests can run beside each other."""

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()
