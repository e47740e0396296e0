"""The folder with the pipelines of a git repository, which a service beside Airflow keeps like a branch."""

import re
from pathlib import Path

VERSIONS = "versions"
"""The folder with a folder for each commit, `COMMIT` or `COMMIT-DIGEST`, which has the folders of the pipelines."""
_NAME = re.compile(r"([0-9a-f]{40})(-[0-9a-f]{8})?")


def asked(pipelines: Path) -> Path:
    """The file whose time says when git has answered last. pipelines: the link to the newest commit."""
    return pipelines.with_name(".asked")


def commit_of(pipeline: Path) -> str | None:
    """The commit that the folder of a pipeline is of, as a folder around it is named; None if it is not from there."""
    for around in pipeline.resolve().parents:
        if around.parent.name == VERSIONS and (named := _NAME.fullmatch(around.name)) is not None:
            return named[1]
    return None
