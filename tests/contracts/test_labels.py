import re

from ratchet.checkout import ROOT
from ratchet.contracts.labels import STAGE_USER


def test_the_stage_image_runs_as_the_stage_user_and_gives_it_the_cache() -> None:
    dockerfile = (ROOT / "docker" / "stage.Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^USER (.*)$", dockerfile, re.MULTILINE) == [f"{STAGE_USER}:{STAGE_USER}"]
    assert f"-o {STAGE_USER} -g {STAGE_USER} /var/cache/ratchet" in dockerfile
