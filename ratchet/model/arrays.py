"""Arrays of the store: verified, and never unpickled."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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


def map_arrays(store: Store, artifacts: Iterable[Artifact], scratch: Path, *, threads: int) -> Iterator[NDArray[Any]]:
    """The arrays of .npy files, in order, mapped: each is verified before it comes, some of them ahead, in threads.

    Raises what `read_array` raises.
    """
    waiting: deque[Future[NDArray[Any]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for artifact in artifacts:
                waiting.append(pool.submit(read_array, store, artifact, scratch, mapped=True))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
