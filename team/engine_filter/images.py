"""The images that a client sees, starts containers of, and deletes: those of the allowed repositories alone.

A change here violates the promise of the team set-up when a client sees or deletes an image of another repository, or
deletes one by a name that a build did not give it, such as that of the newest.
"""

import re
from collections.abc import Mapping
from typing import Any

from team.engine_filter.engine_client import EngineClient, Question
from team.engine_filter.policy import Policy
from team.engine_filter.refusal import Refusal

BUILT = r"[a-z0-9][a-z0-9._/-]{0,199}:(?:cpu|gpu)-[0-9a-f]{12}"
"""The names that scripts/images.sh gives, one for each state of the code."""


class Images:
    """Those of one engine."""

    def __init__(self, policy: Policy, engine: EngineClient) -> None:
        self._allowed = policy.images
        self._engine = engine

    async def inspect(self, version: str, name: str) -> Mapping[str, Any]:
        """What the engine knows of an image, by tag, digest or id. Raises Refusal for one of another repository."""
        by_id = re.fullmatch(r"sha256:[0-9a-f]{64}", name) is not None
        if not by_id and not any(
            re.fullmatch(re.escape(one) + r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?", name) for one in self._allowed
        ):
            raise self._refused(name)
        image: Mapping[str, Any] = await self._engine.value(f"{version}/images/{name}/json")
        if not self._is_allowed(image):
            raise self._refused(name)
        return image

    async def sizes(self, version: str) -> Mapping[str, Any]:
        """The engine's usage of its disk, of nothing but these images."""
        found = await self._engine.value(f"{version}/system/df", {"type": "image"})  # before 1.42 of all, which is slow
        return {"Images": [image for image in found.get("Images") or [] if self._is_allowed(image)]}

    def deletion(self, version: str, name: str) -> Question:
        """Of a name that matches BUILT. The engine refuses it while there is a container of the image."""
        if name.rpartition(":")[0] not in self._allowed:
            raise self._refused(name)
        return Question(method="DELETE", path=f"{version}/images/{name}", params={"force": "0"})

    def _is_allowed(self, image: Mapping[str, Any]) -> bool:
        names = [tag.rpartition(":")[0] for tag in image.get("RepoTags") or []]
        names += [digest.partition("@")[0] for digest in image.get("RepoDigests") or []]
        return not set(names).isdisjoint(self._allowed)

    def _refused(self, name: str) -> Refusal:
        return Refusal(f"image {name[:120]}", f"images of {', '.join(self._allowed)}")
