"""The values that settings may have: each function returns a value, or raises ValueError that says what is allowed."""

import hashlib
import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

_DIGEST = 8


def names(value: object) -> object:
    """`gpu, big` -> (`gpu`, `big`)."""
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value


def variable_names(given: tuple[str, ...]) -> tuple[str, ...]:
    """Names of variables, or beginnings of names."""
    for name in given:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*\*?", name):
            raise ValueError(f"{name!r} is not the name of a variable, nor the beginning of names, as in SHOP_*")
    return given


def places(given: tuple[str, ...]) -> tuple[str, ...]:
    """Whole paths and URIs."""
    for place in given:
        if not place.startswith(("/", "file:///", "s3://", "mem://")):
            raise ValueError(f"{place!r} is neither a whole path nor a URI, as in /data or s3://bucket/prefix")
    return given


def installation_name(given: str | None) -> str | None:
    """The name of an installation."""
    if given is not None and not re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?", given):
        raise ValueError(f"{given!r} is not 1 to 32 small letters, digits and dashes, as in production")
    return given


def installation_of(secret: str) -> str:
    """The name of an Airflow whose installation has no other one: a part of a digest of its [api_auth] jwt_secret."""
    return hashlib.sha256(f"ratchet installation {secret}".encode()).hexdigest()[:_DIGEST]


def web_address(given: str | None) -> str | None:
    """An address that a browser opens, without a login; it may have a base path. The error does not repeat it."""
    if given is not None and not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", given):
        raise ValueError("it is not an address such as https://airflow.example.org/base, without a login")
    return given.rstrip("/") if given is not None else None


def secret_address(given: str | None) -> str | None:
    """An address that is a secret: the error does not repeat it."""
    if given is not None and not re.fullmatch(r"https?://\S+", given):
        raise ValueError("it is not an address that begins with https:// or http://")
    return given


Names = Annotated[tuple[str, ...], BeforeValidator(names)]
VariableNames = Annotated[Names, AfterValidator(variable_names)]
Places = Annotated[Names, AfterValidator(places)]
InstallationName = Annotated[str | None, AfterValidator(installation_name)]
WebAddress = Annotated[str | None, AfterValidator(web_address)]
SecretAddress = Annotated[str | None, AfterValidator(secret_address)]
