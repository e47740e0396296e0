"""The part of the build that pyproject.toml cannot say: a wheel holds what planning has to know of the stages."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class BuildWithRecord(build_py):
    """Copies the packages, and writes ratchet/release.json beside them."""

    def run(self) -> None:
        """Run the step; an editable install needs no record, as it reads the checkout."""
        super().run()
        if not self.editable_mode:
            sys.path.insert(0, str(ROOT))
            from ratchet.runtime.release import write_record

            write_record(Path(self.build_lib) / "ratchet")


setup(cmdclass={"build_py": BuildWithRecord})
