"""Arrays of the store: verified, and never unpickled."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.result import Artifact
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store


def read_array(store: Store, artifact: Artifact, scratch: Path, *, mapped: bool = False) -> NDArray[Any]:
    """The array of a .npy file. mapped: read from the file as needed, not into memory. scratch: as in `fetch`.

    Raises CorruptArtifact if the file is missing, cut or changed, or is no plain array: a pickle is not loaded,
    whatever its digest is.
    """
    path = fetch(store, artifact, scratch)
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise CorruptArtifact(
            f"{store.uri}/{artifact.key} is no plain array: {error}", remedy="run again with --rebuild"
        ) from error
    return found
