"""The image of stages that compute nothing, and the results that they publish."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks import no_op
from benchmarks.airflow_run import DAY
from ratchet.checkout import ROOT
from ratchet.contracts import paths
from ratchet.contracts.labels import Label
from ratchet.contracts.stages import STAGES
from ratchet.runners.choice import stage_image
from ratchet.store.opening import open_store
from ratchet.store.publishing import find_result


def templates(folder: Path, environment: Mapping[str, str], store_uri: str) -> bytes:
    """Compute one night of a pipeline; what its stages publish, by stage, as JSON."""
    words = (str(Path(sys.executable).parent / "ratchet"), "run", str(folder), "--date", DAY.isoformat())
    ran = subprocess.run(
        (*words, "--runner", "process"), check=False, env=environment, capture_output=True, text=True, cwd=ROOT
    )
    if ran.returncode:
        raise RuntimeError(f"the template ended with {ran.returncode}: {ran.stderr[-2000:]}")
    store = open_store(store_uri)
    found = {}
    for stage in STAGES:
        for prefix in {paths.published_prefix(entry.key) for entry in store.list(paths.published(folder.name, stage))}:
            if (result := find_result(store, prefix)) is not None:
                found[stage] = result.result.model_dump(mode="json", by_alias=True)
    root = paths.published(folder.name, "train").partition("/")[0]
    return json.dumps({no_op.ROOT: root, no_op.FILE: paths.last(paths.manifest("")), **found}).encode()


@contextmanager
def no_op_image(name: str, published: bytes) -> Iterator[None]:
    """A stage image whose `ratchet` computes nothing, until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        program = Path(no_op.__file__).read_text(encoding="utf-8")
        (context / "ratchet").write_text(f"#!/opt/ratchet/bin/python -IS\n{program}", encoding="utf-8")
        (context / "templates.json").write_bytes(published)
        for file in context.iterdir():
            file.chmod(0o755)
        (context / "Dockerfile").write_text(
            f"FROM {stage_image(gpu=False)}\nLABEL {Label.TEST}=1\nCOPY ratchet /opt/ratchet/bin/\n"
            f"COPY templates.json {no_op.TEMPLATES}\n",
            encoding="utf-8",
        )
        _docker("build", "--quiet", "--network", "none", "--tag", name, folder)
    try:
        yield
    finally:
        _docker("rmi", "--force", name)


def _docker(*arguments: str) -> None:
    words = ("docker", *arguments)
    subprocess.run(words, check=True, capture_output=True)
