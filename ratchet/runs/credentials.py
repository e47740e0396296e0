"""The keys of a stage: its own where it has some, and only where it needs any.

A stage gets them as files. They never go into an environment, a label or a log.
"""

import configparser
from collections.abc import Sequence

from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.stages import Stage
from ratchet.store.bucket_service import service_of
from ratchet.store.rewritten_files import whole

MLFLOW_SETTING = variable("mlflow_credentials")
_SECTION, _KEYS = "mlflow", ("mlflow_tracking_username", "mlflow_tracking_password")


def s3_credentials(stage: Stage, buckets: Sequence[str]) -> bytes:
    """A shared credentials file for these buckets: the keys of the profile `ratchet-<stage>` where there is one.

    Otherwise the keys of the usual AWS settings. A bucket with a profile of its own has its keys and its address there,
    and no others are given if every bucket has one. Raises Unavailable where there are no keys at the moment, since a
    role or a file of another program may give them later, and ConfigurationError for settings that cannot be read.
    """
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    from ratchet.store.s3_client import loading_errors

    where = f"S3 credentials for {stage}"

    def read() -> bytes:
        services = [service_of(bucket) for bucket in buckets]
        lines: list[str] = []
        with loading_errors(where):
            if any(service.profile is None for service in services):
                own = f"ratchet-{stage}" in Session().available_profiles
                lines += _section("default", f"ratchet-{stage}" if own else None)
            for service in dict.fromkeys(services):
                if service.profile is not None:
                    lines += _section(service.profile, service.profile)
                    lines += [f"endpoint_url = {service.endpoint}"] if service.endpoint else []
                    lines += [f"region = {service.region}"] if service.region else []
        return "\n".join(lines).encode()

    try:
        return whole(read, BotoCoreError)
    except BotoCoreError as error:
        raise ConfigurationError(f"{where}: {error}", remedy="correct the AWS settings") from None


def _section(name: str, profile: str | None) -> list[str]:
    """The keys of a profile, or of the usual settings, as a profile of this name."""
    from botocore.session import Session

    from ratchet.store.s3_client import GIVE_KEYS

    # A profile that is asked for by name comes before keys in the environment.
    found = Session(profile=profile).get_credentials()
    frozen = found.get_frozen_credentials() if found else None
    if frozen is None:
        what = f"the profile {profile} has no keys" if profile else "S3 needs credentials"
        raise Unavailable(what, remedy=GIVE_KEYS)
    lines = [f"[{name}]", f"aws_access_key_id = {frozen.access_key}", f"aws_secret_access_key = {frozen.secret_key}"]
    return [*lines, f"aws_session_token = {frozen.token}"] if frozen.token else lines


def mlflow_credentials() -> bytes | None:
    """The file that RATCHET_MLFLOW_CREDENTIALS names, in the format of `~/.mlflow/credentials`; None where it is unset.

    Raises Unavailable for a file that cannot be read, since it may be about to be replaced, and ConfigurationError for
    one that lacks a key; its content is never quoted.
    """
    place = environment().mlflow_credentials
    if not place:
        return None
    remedy = f"write [{_SECTION}] with {' and '.join(_KEYS)} into it"

    def read() -> list[str]:
        parser = configparser.ConfigParser()
        parser.read_string(place.read_text(encoding="utf-8"))
        return [parser.get(_SECTION, key) for key in _KEYS]

    try:
        values = whole(read, configparser.Error)
    except OSError as error:
        raise Unavailable(f"{MLFLOW_SETTING}: {place}: {error.strerror}", remedy=remedy) from None
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{MLFLOW_SETTING}: {place} is no credentials file of MLflow's: {type(error).__name__}", remedy=remedy
        ) from None
    written = (f"{key} = {value.replace('%', '%%')}" for key, value in zip(_KEYS, values, strict=True))
    return "\n".join([f"[{_SECTION}]", *written, ""]).encode()
