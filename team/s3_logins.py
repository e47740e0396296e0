"""The credentials files of S3 that services get: each has its own user, and a worker those of the stages, too."""

from collections.abc import Mapping
from configparser import ConfigParser, Error
from io import StringIO

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import STAGES

_USERS = {
    "s3-admin": "admin",
    "s3-orchestrator": "orchestrator",
    "s3-reader": "reader",
    "s3-mlflow": "mlflow",
    "s3-worker": "orchestrator",
}
_STAGES = tuple(f"ratchet-{stage}" for stage in STAGES)
_OF_A_BUCKET = "ratchet-bucket-"
"""So begins the profile of a bucket that has keys, or an address, of its own: of sources (docs/operations.md)."""


def of_the_stack(secrets: Mapping[str, str]) -> dict[str, str]:
    """The files for the stack's own S3. secrets: by user."""
    keys = {name: {"aws_access_key_id": name, "aws_secret_access_key": secret} for name, secret in secrets.items()}
    return _files(keys)


def of_elsewhere(given: str, where: str) -> dict[str, str]:
    """The files for an S3 elsewhere, from a credentials file with profiles of these users; `default` is who has none.

    Where a profile is built on another one, each file is the given one. where: the file, for errors.
    """
    parser = ConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(given)
    except Error as error:
        raise ConfigurationError(
            f"RATCHET_S3_CREDENTIALS: {where} is no credentials file: {str(error).splitlines()[0]}",
            remedy="write it like ~/.aws/credentials",
        ) from error
    profiles = {name: dict(parser[name]) for name in parser.sections()}
    if any("source_profile" in profile for profile in profiles.values()):
        return dict.fromkeys(_USERS, given)
    lacking = [user for user in ("admin", "orchestrator", "reader") if user not in profiles]
    if profiles and lacking and "default" not in profiles:  # without any, the role of the host may have the rights
        raise ConfigurationError(
            f"RATCHET_S3_CREDENTIALS: {where} has no profile {', '.join(lacking)}, and no default",
            remedy="add it; docs/team.md says who uses which",
        )
    return _files(profiles)


def _files(profiles: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for file, user in _USERS.items():
        mine = profiles.get(user, profiles.get("default"))
        taken = {"default": mine} if mine is not None else {}
        if user == "orchestrator":
            taken |= {name: keys for name, keys in profiles.items() if name.startswith(_OF_A_BUCKET)}
        if file == "s3-worker":
            taken |= {name: profiles[name] for name in _STAGES if name in profiles}
        parser = ConfigParser(interpolation=None, default_section="")
        parser.read_dict(taken)
        text = StringIO()
        parser.write(text)
        found[file] = text.getvalue()
    return found
