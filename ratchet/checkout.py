"""The checkout, or the folder of an image, that the library was loaded from, and the files it keeps there."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder that holds the packages `ratchet` and `tasks`."""
PIPELINES = ROOT / "dags" / "pipelines"
STAGE_LOCK = ROOT / "docker" / "stage.txt"
"""The pinned packages of the stage image."""
IMAGES = ROOT / ".ratchet" / "images"
"""A file by variant (cpu, gpu) with the tag of the stage image that scripts/images.sh built last."""
