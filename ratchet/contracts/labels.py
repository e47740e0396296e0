"""The labels of containers, by which a process that did not start a container finds it, and what stages run as."""

from collections.abc import Mapping
from typing import Final


class Label:
    """The names of the labels."""

    RATCHET: Final = "ratchet"
    """On every container and volume that a runner makes. See MARK."""
    INSTALLATION: Final = "ratchet.installation"
    """The installation of the team set-up that a container belongs to. The engine filter sets it."""
    STORE: Final = "ratchet.store"
    """A digest of the store's URI: the containers of one store belong together."""
    PIPELINE: Final = "ratchet.pipeline"
    STAGE: Final = "ratchet.stage"
    RUN: Final = "ratchet.run"
    """The run's id in the store."""
    ATTEMPT: Final = "ratchet.attempt"
    """The name of the attempt that started the container."""
    FINGERPRINT: Final = "ratchet.fingerprint"
    """What the container computes."""
    GRACE: Final = "ratchet.grace"
    """Whole seconds from the notice to stop to the kill."""
    GPUS: Final = "ratchet.gpus"
    """The host's GPUs that the container has, by index or UUID, with commas."""
    TEST: Final = "ratchet.test"
    """On every container of a test or a benchmark, so that a person finds what one has left behind."""
    TEST_ID: Final = "ratchet.test.id"
    """The one test that made it."""


MARK: Final[Mapping[str, str]] = {Label.RATCHET: "1"}
"""What every container and volume of a runner carries."""
STAGE_USER: Final = 10001
"""Number of the user and of the group that stages run as, unless the store's folder has another owner.

docker/stage.Dockerfile names the same number.
"""
