"""A git repository of git's own, for tests of pipelines that come from one."""

import subprocess
from pathlib import Path

from team.git_pipelines import Source


class Repository:
    """A repository of git's own, with a branch `main`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        """What git says."""
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *who, *words], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        """Write files; in a name, `__` is a slash and `_` a dot."""
        for name, content in files.items():
            file = self.folder / name.replace("__", "/").replace("_", ".")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "a change")
        return self.git("rev-parse", "HEAD")

    def source(self, **more: str) -> Source:
        """Where it is."""
        return Source(url=f"file://{self.folder}", **more)
