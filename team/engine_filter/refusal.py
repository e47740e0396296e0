"""The errors of the filter, and their answers to the client."""


class Refusal(Exception):
    """A request that is not passed on: what is refused and what is allowed, in one line without any value of a secret.

    It is no RatchetError: nobody here ends with it, the client gets it as status 403.
    """

    status = 403

    def __init__(self, what: str, allowed: str) -> None:
        self.what = what
        self.allowed = allowed
        super().__init__(f"engine filter: {what} is refused; allowed: {allowed}")


class EngineAway(Exception):
    """The engine does not answer, or stopped in the middle of its answer's head. status: 503 or 502."""

    def __init__(self, reason: str, status: int) -> None:
        self.status = status
        super().__init__(f"the Docker engine does not answer: {reason}")


class EngineSaid(Exception):
    """An error of the engine's own, met while a request was looked into; it goes to the client as it is."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)
