"""Stage images of a real engine: which are there, which are in use, and that only the others can go."""

import io
import tarfile
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest
from docker.utils import kwargs_from_env

from ratchet.collection.beside import collect_images
from ratchet.contracts.labels import Label
from ratchet.runners.stage_images import StageImages

pytestmark = pytest.mark.docker


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    with docker.APIClient(**kwargs_from_env()) as client:
        yield client


@pytest.fixture
def build(api: docker.APIClient) -> Iterator[Callable[..., str]]:
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

    yield make
    for image in api.images(filters={"label": f"{Label.TEST_ID}={mark}"}):
        api.remove_image(image["Id"], force=True)


def name() -> str:
    """As scripts/images.sh names what it builds."""
    return f"ratchet-stage:cpu-{uuid.uuid4().hex[:12]}"


def test_an_image_that_only_gone_runs_name_goes_and_the_others_stay_each_with_why(
    build: Callable[..., str], api: docker.APIClient, stage_image: str
) -> None:
    gone, named, other, run = build(name()), build(name(), "kept-for:ever"), build(name()), build(name())
    container = api.create_container(run, labels={Label.TEST: "1"})
    try:
        images = {image.digest: image for image in StageImages().known()}
        assert {gone, named, other, run} <= {*images}
        assert [images[one].in_use for one in (gone, named, run)] == [
            "",
            "kept-for:ever names it",
            "there is a container of it",
        ]
        unneeded = {gone, named, run}
        would: Any = collect_images(unneeded, apply=False)
        assert {*would.goes} == {("stage images", "only runs whose results are gone name it")}
        assert gone in _digests(api)
        did = collect_images(unneeded, apply=True)
        assert (did.goes, did.stays, did.unchecked) == (would.goes, would.stays, "")
        assert {named, other, run} <= _digests(api)
        assert gone not in _digests(api)
    finally:
        api.remove_container(container["Id"], force=True)


def test_the_image_of_the_next_run_stays(stage_image: str) -> None:
    (mine,) = (image for image in StageImages().known() if stage_image in image.names)
    assert mine.in_use.endswith((" names it", "a container of it"))  # of another test, at the same time


def test_an_image_that_got_a_container_since_it_was_seen_stays(
    build: Callable[..., str], api: docker.APIClient
) -> None:
    digest = build(name())
    (seen,) = (image for image in StageImages().known() if image.digest == digest)
    container = api.create_container(digest, labels={Label.TEST: "1"})
    try:
        assert seen.remove() == "a container uses it"
        assert digest in _digests(api)
    finally:
        api.remove_container(container["Id"], force=True)
    assert seen.remove() == ""
    assert seen.remove() == ""  # another collection was first


def test_an_engine_that_does_not_answer_is_named_and_nothing_counts_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    found = collect_images({"sha256:1"}, apply=True)
    assert "does not answer" in found.unchecked
    assert found.goes == {}


def _digests(api: docker.APIClient) -> set[str]:
    return {image["Id"] for image in api.images()}
