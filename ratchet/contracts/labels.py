"""The labels by which any process finds a container, and the user that stages run as."""

from collections.abc import Mapping
from typing import Final


class Label:
    """The names of the labels."""

    RATCHET: Final = "ratchet"
    """On every container and volume that a runner creates. See MARK."""
    INSTALLATION: Final = "ratchet.installation"
    """The installation of the team set-up that a container belongs to. The engine filter sets it."""
    STORE: Final = "ratchet.store"
    """A digest of the store's URI: the containers of a store have the same one."""
    PIPELINE: Final = "ratchet.pipeline"
    STAGE: Final = "ratchet.stage"
    RUN: Final = "ratchet.run"
    """The run's id in the store."""
    ATTEMPT: Final = "ratchet.attempt"
    """The name of the attempt that started the container."""
    FINGERPRINT: Final = "ratchet.fingerprint"
    """The fingerprint that the container computes."""
    GRACE: Final = "ratchet.grace"
    """Whole seconds from the notice to stop to the kill."""
    GPUS: Final = "ratchet.gpus"
    """The host's GPUs that the container has, by index or UUID, separated by commas."""
    TEST: Final = "ratchet.test"
    """On every container of a test or a benchmark, so that a person finds the containers that it left."""
    TEST_ID: Final = "ratchet.test.id"
    """The test that created the container."""


MARK: Final[Mapping[str, str]] = {Label.RATCHET: "1"}
"""The label that every container and volume of a runner has."""
STAGE_USER: Final = 10001
"""The number of the user and of the group that stages run as, unless the store's folder has another owner.

docker/stage.Dockerfile uses the same number.
"""
