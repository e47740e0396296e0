"""Stage images of a real engine: which are there, which are in use, and that only the others can go."""

from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest
from docker.utils import kwargs_from_env

from ratchet.collection.beside import collect_images
from ratchet.contracts.labels import Label
from ratchet.runners.stage_images import StageImages
from tests.runners.small_images import built_name, small_images

pytestmark = pytest.mark.docker


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    with docker.APIClient(**kwargs_from_env()) as client:
        yield client


@pytest.fixture
def build(api: docker.APIClient) -> Iterator[Callable[..., str]]:
    with small_images(api) as make:
        yield make


def test_an_image_that_only_gone_runs_name_goes_and_the_others_stay_each_with_why(
    build: Callable[..., str], api: docker.APIClient, stage_image: str
) -> None:
    gone, named, other, run = (
        build(built_name()),
        build(built_name(), "kept-for:ever"),
        build(built_name()),
        build(built_name()),
    )
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
    digest = build(built_name())
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
