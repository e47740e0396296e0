"""Images of a real engine that are as good as empty, and count as images of stages."""

import io
import tarfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import docker

from ratchet.contracts.labels import Label


@contextmanager
def small_images(api: docker.APIClient) -> Iterator[Callable[..., str]]:
    """Builds a small image with names; returns its digest. In the end none is left."""
    mark, made = uuid.uuid4().hex, list[str]()

    def make(*names: str) -> str:
        text = f'FROM scratch\nLABEL ratchet.variant=cpu {Label.TEST_ID}={mark} number={len(made)}\nCMD ["/none"]\n'
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            member = tarfile.TarInfo("Dockerfile")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
        packed.seek(0)
        list(api.build(fileobj=packed, custom_context=True, tag=names[0], rm=True))
        for name in names[1:]:
            api.tag(names[0], *name.split(":"))
        made.append(str(api.inspect_image(names[0])["Id"]))
        return made[-1]

    try:
        yield make
    finally:
        for image in api.images(filters={"label": f"{Label.TEST_ID}={mark}"}):
            api.remove_image(image["Id"], force=True)


def built_name(repository: str = "ratchet-stage") -> str:
    """As scripts/images.sh names what it builds."""
    return f"{repository}:cpu-{uuid.uuid4().hex[:12]}"
