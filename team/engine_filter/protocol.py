"""HTTP/1.1 as the filter reads it: by h11, written to the letter of the RFC, and with no header on two lines."""

import re
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_HEAD_LIMIT = 64 << 10
"""Bytes of a request before its body."""
_FOLDED = re.compile(rb"\n[ \t]")
_HEAD_ENDS = re.compile(rb"\n\r?\n")


class OneReading(H11Protocol):
    """A connection of a client. What is malformed is answered with 400, and the connection closed."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.conn = _UnfoldedConnection(h11.SERVER, _HEAD_LIMIT)


class _UnfoldedConnection(h11.Connection):
    """h11 joins the lines of a folded header, as it may (RFC 9112, 5.2); another program would see two headers."""

    def next_event(self) -> Any:
        """The next event. Raises RemoteProtocolError also for a header that goes on in its next line."""
        if self.their_state is h11.IDLE:
            head = _HEAD_ENDS.split(self.trailing_data[0], maxsplit=1)[0]
            if _FOLDED.search(head):
                raise h11.RemoteProtocolError("a header on two lines")
        return super().next_event()
