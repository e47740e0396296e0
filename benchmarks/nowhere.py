"""A checkpoint folder that keeps nothing."""


class Nowhere:
    """What a training writes to whose state nobody needs."""

    def put(self, name: str, data: bytes) -> None:
        """Keep nothing."""

    def get(self, name: str) -> bytes:
        """Raise FileNotFoundError."""
        raise FileNotFoundError(name)

    def names(self) -> tuple[str, ...]:
        """None."""
        return ()

    def remove(self, name: str) -> None:
        """Do nothing."""

    def others(self) -> "tuple[Nowhere, ...]":
        """None."""
        return ()
