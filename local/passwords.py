"""The users of the embedded set-up: a person, and the watch, who may only read. Their passwords are made once."""

import json
import secrets
from pathlib import Path

ADMIN, WATCH = "admin", "ratchet-watch"
USERS = f"{ADMIN}:admin,{WATCH}:viewer"
"""The users with their roles, as Airflow's simple auth manager reads them."""


def prepare(file: Path) -> None:
    """Make the file with the passwords, or add those that a release before this one did not have."""
    before = _read(file) if file.is_file() else {}
    missing = {name: secrets.token_urlsafe(12) for name in (ADMIN, WATCH) if name not in before}
    if missing:
        file.parent.mkdir(parents=True, exist_ok=True)
        made = file.with_name(f".{file.name}-{secrets.token_hex(4)}")  # in one step, whatever is killed
        made.touch(mode=0o600)
        made.write_text(json.dumps({**before, **missing}), encoding="utf-8")
        made.replace(file)


def password(file: Path, user: str) -> str:
    """That of a user."""
    return _read(file)[user]


def _read(file: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found
