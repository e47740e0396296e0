"""The weekly collection, with nothing between it and the engine but the filter: it sees and deletes stage images alone."""

import uuid
from collections.abc import Callable, Iterator

import docker
import pytest

from ratchet.collection.beside import collect_images
from ratchet.contracts.labels import Label
from ratchet.runners.stage_images import StageImages
from tests.runners.small_images import built_name, small_images
from tests.team.engine_filter.running import Running, ask
from tests.waiting import until

pytestmark = pytest.mark.docker


@pytest.fixture
def build(api: docker.APIClient) -> Iterator[Callable[..., str]]:
    with small_images(api) as make:
        yield make


def ids(api: docker.APIClient) -> set[str]:
    return {image["Id"] for image in api.images()}


def test_old_stage_images_go_and_no_other(
    running: Running, build: Callable[..., str], api: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, of_others = built_name(), built_name("other-stage")
    gone, other = build(name), build(of_others)
    used, kept = build(built_name()), build(built_name(), f"ratchet-stage:mine-{uuid.uuid4().hex[:8]}")
    monkeypatch.setenv("DOCKER_HOST", running.docker_host)
    container = api.create_container(used, labels={Label.TEST: "1"})  # of another installation: not shown
    try:
        images = {image.digest: image for image in StageImages().known()}
        assert {gone, used, kept} <= {*images}
        assert other not in images
        did = collect_images({gone, other, used, kept}, apply=True)
        assert did.unchecked == ""
        assert ("stage images", "a container uses it") in did.stays
        assert gone not in ids(api)
        assert {other, used, kept} <= ids(api)
    finally:
        api.remove_container(container["Id"], force=True)
    until(lambda: [line for line in running.logged("delete image") if line["image"] == name])
    assert images[gone].remove() == ""  # another collection was first
    assert ask(running, "DELETE", f"/v1.41/images/{of_others}")[0] == 403
    assert other in ids(api)


@pytest.mark.parametrize("query", ["?force=1", "?force=true", "?noprune=1", "?platforms=x"])
def test_none_is_deleted_by_force(
    running: Running, build: Callable[..., str], api: docker.APIClient, query: str
) -> None:
    name = built_name()
    image = build(name)
    assert ask(running, "DELETE", f"/v1.41/images/{name}{query}")[0] == 403
    for other in (image, image.removeprefix("sha256:"), "ratchet-stage", f"{name}0"):
        assert ask(running, "DELETE", f"/v1.41/images/{other}")[0] == 403
    assert image in ids(api)
