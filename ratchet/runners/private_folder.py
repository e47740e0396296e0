"""Folders of this user alone below the machine's temporary folder, where anybody may write."""

import os
import stat
import tempfile
from pathlib import Path

from ratchet.contracts.errors import ConfigurationError

_OWNER_ONLY = 0o700


def private_folder(what: str) -> Path:
    """The folder of this user for some purpose. Raises ConfigurationError if another user made it."""
    folder = Path(tempfile.gettempdir()) / f"ratchet-{what}-{os.getuid()}"
    folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigurationError(
            f"{folder} is not a private folder of this user", remedy="remove it; another user may have made it"
        )
    return folder
