"""The folder with the pipelines of a git repository, which a service beside Airflow keeps like a branch."""

from pathlib import Path


def asked(pipelines: Path) -> Path:
    """The file whose time says when git has answered last. pipelines: the link to the newest commit."""
    return pipelines.with_name(".asked")
