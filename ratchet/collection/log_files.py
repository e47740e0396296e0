"""Log files of Airflow that are older than somebody wants to read."""

import os
from contextlib import suppress
from pathlib import Path


def delete_old_logs(folder: Path, before: float) -> int:
    """Delete the logs (`.log`) below a folder to which nobody has written since, in seconds since 1970; the number.

    Folders that are empty and as old go, too. Raises the OSError of the first that cannot be deleted, once all others
    are.
    """
    gone, failed = 0, list[OSError]()
    for place, folders, files in os.walk(folder, topdown=False):
        for name in files:
            file = Path(place, name)
            try:
                if name.endswith(".log") and not file.is_symlink() and file.stat().st_mtime < before:
                    file.unlink()
                    gone += 1
            except FileNotFoundError:
                pass  # another service may delete it, too
            except OSError as error:
                failed.append(error)
        for name in folders:
            with suppress(OSError):  # it is not empty
                if Path(place, name).stat().st_mtime < before:
                    Path(place, name).rmdir()
    if failed:
        raise failed[0]
    return gone
