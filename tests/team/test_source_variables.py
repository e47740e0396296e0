"""The variables of sources: from a file of the operator into the environment of the workers' programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.source import SqlSource
from ratchet.runtime.source_variables import expand
from team import secret_files
from team.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
ODD = "p@ss:w/or?d #%41$HOME`ls`\\&+ü"


def environment_of_a_program(secrets: Path) -> dict[str, str]:
    """What docker/with-secrets gives a program, with the secrets of a folder."""
    script = (ROOT / "docker" / "with-secrets").read_text(encoding="utf-8").replace("/run/secrets", str(secrets))
    show = "import os, sys; sys.stdout.write(chr(0).join(f'{k}={v}' for k, v in os.environ.items()))"
    done = subprocess.run(
        ["/bin/sh", "-c", script, "with-secrets", sys.executable, "-c", show],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        check=True,
    )
    return dict(each.split("=", 1) for each in done.stdout.decode().split("\0"))


def handed_over(folder: Path, text: str, **settings: str) -> dict[str, str]:
    given = folder / "credentials"
    given.write_text(text, encoding="utf-8")
    made = Settings.model_validate({"source_credentials": given, **settings})
    secret_files.write(folder / "secrets", made, os.getuid())
    workers = folder / "workers"
    workers.mkdir()
    (folder / "secrets" / "source-variables").rename(workers / "source-variables")
    return environment_of_a_program(workers)


def test_a_worker_can_read_the_password_of_a_database(tmp_path: Path) -> None:
    text = f"# of the shop\nRATCHET_SOURCE_PASSWORD='{ODD}'\nSHOP_USER=me\nRATCHET_DATA_CLICKS=s3://sources/clicks\n"
    found = handed_over(tmp_path, text, source_variables="SHOP_*")
    assert (found["RATCHET_SOURCE_PASSWORD"], found["SHOP_USER"]) == (ODD, "me")
    assert expand("${RATCHET_DATA_CLICKS}/{date}.csv", found) == "s3://sources/clicks/{date}.csv"
    source = SqlSource(kind="sql", uri="postgresql://me:${RATCHET_SOURCE_PASSWORD}@db/shop", query="select :date")
    assert expand(source.uri, found, secret=True) == f"postgresql://me:{ODD}@db/shop"


def test_without_a_file_a_worker_gets_none(tmp_path: Path) -> None:
    secret_files.write(tmp_path, Settings(), os.getuid())
    assert (tmp_path / "source-variables").read_text(encoding="utf-8") == ""
    found = {
        name for name, value in environment_of_a_program(tmp_path).items() if name.startswith("RATCHET_") and value
    }
    assert found == {"RATCHET_AIRFLOW_API", "RATCHET_INSTALLATION"}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("hidden", "line 2: not NAME=VALUE"),
        ("RATCHET_SOURCE_PASSWORD=", "line 2: not NAME=VALUE"),
        ("SHOP_PASSWORD=hidden", "line 2: no source may read SHOP_PASSWORD; allowed: RATCHET_SOURCE_*, RATCHET_DATA_*"),
        ("RATCHET_SOURCE_ROOTS=hidden", "line 2: no source may read RATCHET_SOURCE_ROOTS"),
        ("RATCHET_DATA=hidden", "line 2: no source may read RATCHET_DATA"),
        ("AIRFLOW__CORE__FERNET_KEY=hidden", "line 2: no source may read AIRFLOW__CORE__FERNET_KEY"),
        ("RATCHET_SOURCE_USER=hidden", "line 2: RATCHET_SOURCE_USER a second time"),
    ],
)
def test_a_line_that_no_source_could_use_is_refused_without_its_value(tmp_path: Path, line: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        handed_over(tmp_path, f"RATCHET_SOURCE_USER=me\n{line}\n")
    assert str(caught.value).startswith(f"RATCHET_SOURCE_CREDENTIALS: {wrong}")
    assert "hidden" not in str(caught.value)
