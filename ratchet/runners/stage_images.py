"""The stage images of a Docker engine, which scripts/images.sh builds: one for each state of the code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from docker.errors import APIError

from ratchet.runners.choice import stage_image
from ratchet.runners.engine import answers, connect

_LABEL = "ratchet.variant"
_BUILT = re.compile(r"ratchet-stage:(cpu|gpu)-[0-9a-f]{12}")
"""The name that a build gives its image. Any other name was given by a person, or is that of the newest build."""


@dataclass(frozen=True, kw_only=True)
class StageImage:
    """One image. bytes: that no other image shares. in_use: why it has to stay; empty if nothing here needs it."""

    digest: str
    names: tuple[str, ...]
    bytes: int
    in_use: str

    def remove(self) -> str:
        """Remove it. Returns why the engine refuses; empty if it is gone."""
        api = connect()
        with answers():
            try:
                for name in self.names or (self.digest,):
                    api.remove_image(name)
            except APIError as error:
                if error.status_code == HTTPStatus.CONFLICT:
                    return "a container uses it"
                if error.status_code != HTTPStatus.NOT_FOUND:
                    raise
        return ""


class StageImages:
    """Those of the engine that the environment names. Raises Unavailable if it does not answer."""

    def known(self) -> Iterator[StageImage]:
        """All of them."""
        api = connect()
        with answers():
            used = {one["ImageID"] for one in api.containers(all=True)}
            found = [one for one in api.df()["Images"] if _LABEL in (one["Labels"] or {})]
        here = {stage_image(gpu=gpu) for gpu in (False, True)}
        for one in found:
            names = tuple(one["RepoTags"] or ())
            why = ""
            if one["Id"] in used:
                why = "there is a container of it"
            elif given := sorted({name for name in names if name in here or not _BUILT.fullmatch(name)}):
                why = f"{given[0]} names it"
            yield StageImage(digest=one["Id"], names=names, bytes=one["Size"] - max(one["SharedSize"], 0), in_use=why)
