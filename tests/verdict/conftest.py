"""One thread for matrix products: two of them wait for each other on a machine that runs other tests beside."""

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with threadpool_limits(1, user_api="blas"):
        yield
