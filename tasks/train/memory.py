"""Out-of-memory errors of torch, of a GPU or of the host, as the error that the retry policy knows."""

from collections.abc import Iterator
from contextlib import contextmanager

from ratchet.contracts.errors import ConfigurationError, OutOfMemory
from ratchet.runtime.user_code import lacks_memory


@contextmanager
def convert_memory_errors(batch_size: int, accumulation: int) -> Iterator[None]:
    """Raise OutOfMemory, with the rows and micro-batches of a step, where the block runs out of memory."""
    try:
        yield
    except Exception as error:
        if not lacks_memory(error):
            raise
        raise out_of_memory(error, batch_size, accumulation) from error


def out_of_memory(error: Exception, batch_size: int, accumulation: int) -> OutOfMemory:
    """The error for one of torch's. batch_size: rows of a step. accumulation: its micro-batches."""
    return OutOfMemory(
        _cause(error, batch_size, accumulation),
        remedy="wait for the next try, which computes the step in twice as many micro-batches; to avoid the error, "
        "raise resources.train.memory or take a larger GPU, lower train.batch_size, or make train.model smaller",
    )


def does_not_fit(error: Exception, batch_size: int, accumulation: int) -> ConfigurationError:
    """The error where no smaller micro-batch can help."""
    return ConfigurationError(
        f"{_cause(error, batch_size, accumulation)}; they cannot be smaller",
        remedy="raise resources.train.memory or take a larger GPU, or make train.model smaller",
    )


def _cause(error: Exception, batch_size: int, accumulation: int) -> str:
    split = f", in {accumulation} micro-batches" if accumulation > 1 else ""
    cause = str(error).partition("\n")[0].partition(". See ")[0] or type(error).__name__
    return f"train ran out of memory in a step of {batch_size:,} rows{split}: {cause:.200}"
