"""What the engine tells about containers, as soon as each has begun: some are there for a second."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import docker
from docker.errors import NotFound
from docker.utils import kwargs_from_env


@contextmanager
def inspected(label: str, since: float) -> Iterator[list[str]]:
    """All about each container with a label that has begun since then, in seconds since 1970; the list grows."""
    seen: list[str] = []
    with docker.APIClient(**kwargs_from_env()) as api:
        events = api.events(decode=True, filters={"label": [label], "event": ["start"]}, since=int(since))

        def look() -> None:
            for event in events:
                with suppress(NotFound):
                    seen.append(json.dumps(api.inspect_container(event["Actor"]["ID"])))

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield seen
        finally:
            events.close()
            looking.join(10)
