"""The keys of a stage: its own where it has some, and only where it needs any.

A stage gets them as files. They never go into an environment, a label or a log.
"""

import configparser
import os
from pathlib import Path

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import Stage

MLFLOW_SETTING = "RATCHET_MLFLOW_CREDENTIALS"
_SECTION, _KEYS = "mlflow", ("mlflow_tracking_username", "mlflow_tracking_password")


def s3_credentials(stage: Stage) -> bytes:
    """A shared credentials file with one profile: the keys of the profile `ratchet-<stage>` where there is one.

    Otherwise the keys of the usual AWS settings. Raises ConfigurationError where there are none.
    """
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    profile = f"ratchet-{stage}"
    try:
        own = profile in Session().available_profiles
        # A profile that is asked for by name comes before keys in the environment.
        found = Session(profile=profile).get_credentials() if own else Session().get_credentials()
        frozen = found.get_frozen_credentials() if found else None
    except BotoCoreError as error:
        raise ConfigurationError(f"S3 credentials for {stage}: {error}", remedy="correct the AWS settings") from None
    if frozen is None:
        what = f"the profile {profile} has no keys" if own else "S3 needs credentials"
        raise ConfigurationError(what, remedy="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a shared file")
    lines = ["[default]", f"aws_access_key_id = {frozen.access_key}", f"aws_secret_access_key = {frozen.secret_key}"]
    if frozen.token:
        lines.append(f"aws_session_token = {frozen.token}")
    return "\n".join(lines).encode()


def mlflow_credentials() -> bytes | None:
    """The file that RATCHET_MLFLOW_CREDENTIALS names, in the format of `~/.mlflow/credentials`; None where it is unset.

    Raises ConfigurationError for a file that cannot be read or lacks a key; its content is never quoted.
    """
    place = os.environ.get(MLFLOW_SETTING)
    if not place:
        return None
    remedy = f"write [{_SECTION}] with {' and '.join(_KEYS)} into it"
    parser = configparser.ConfigParser()
    try:
        parser.read_string(Path(place).read_text(encoding="utf-8"))
        values = [parser.get(_SECTION, key) for key in _KEYS]
    except OSError as error:
        raise ConfigurationError(f"{MLFLOW_SETTING}: {place}: {error.strerror}", remedy=remedy) from None
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{MLFLOW_SETTING}: {place} is no credentials file of MLflow's: {type(error).__name__}", remedy=remedy
        ) from None
    written = (f"{key} = {value.replace('%', '%%')}" for key, value in zip(_KEYS, values, strict=True))
    return "\n".join([f"[{_SECTION}]", *written, ""]).encode()
