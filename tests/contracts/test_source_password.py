"""A password in a source's URI is refused when the file is loaded, without showing it; a variable is not one."""

import pytest

from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.loading import loads
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.source_password import shows_password

TEXT = """\
name: small
source: {{kind: {kind}, uri: '{uri}'{more}}}
columns:
  x: {{role: numeric, type: float64}}
  y: {{role: label, type: int64}}
train: {{objective: binary}}
"""
QUERY = ", query: 'SELECT * FROM t WHERE day = :date'"


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:hunter2@host/db",
        "postgresql+psycopg://${RATCHET_SOURCE_USER}:hunter2@host/db",
        "postgresql://me:${RATCHET_SOURCE_PASSWORD}hunter2@host/db",
        "postgresql://me:hun/ter2@host/db",
        "${RATCHET_SOURCE_KIND}://me:hunter2@host/db",
        "postgresql://host/db?user=me&password=hunter2",
        "postgresql://host/db?sslpassword=hunter2",
        "mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BUID%3Dme%3BPWD%3Dhunter2",
        "snowflake://host/db?user=me&token=hunter2",
        "mysql://host/db?passwd = hunter2",
        "bigquery://project/db?credentials_base64=hunter2",
        "snowflake://me@host/db?private_key=hunter2",
    ],
)
def test_a_password_in_the_address_of_a_database_is_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(PipelineInvalid, match=r"p\.yaml:2: source\.uri: has a password as plain text") as refused:
        loads(TEXT.format(kind="sql", uri=uri, more=QUERY), "p.yaml")
    assert "write ${RATCHET_SOURCE_PASSWORD} in its place" in str(refused.value)
    assert "ter2" not in str(refused.value)


@pytest.mark.parametrize("uri", ["s3://key:hunter2@bucket/{date}", "s3://bucket/{date}?secret_key=hunter2"])
def test_keys_in_the_address_of_files_are_refused(uri: str) -> None:
    with pytest.raises(PipelineInvalid, match="keys of S3 come from the usual AWS settings") as refused:
        loads(TEXT.format(kind="files", uri=uri, more=""))
    assert "hunter2" not in str(refused.value)


def test_a_password_given_by_a_flag_is_refused_too() -> None:
    text = TEXT.format(kind="sql", uri="sqlite:////shop.db", more=QUERY)
    with pytest.raises(PipelineInvalid, match=r"--set source\.uri: source\.uri: has a password") as refused:
        loads(text, overrides={"source.uri": "postgresql://me:hunter2@host/db"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://${RATCHET_SOURCE_USER}:${RATCHET_SOURCE_PASSWORD}@host:5432/db",
        "postgresql://me:${RATCHET_SOURCE_A}${RATCHET_SOURCE_B}@host/db",
        "postgresql://me@host:5432/db?sslmode=require",
        "postgresql://host/db?user=me&password=${RATCHET_SOURCE_PASSWORD}",
        "${RATCHET_SOURCE_URL}",
        "sqlite:////data/shop.db",
        "/data/passwords/{date}.csv",
        "s3://bucket/a:b@c/{date}/token=x/*.parquet",
        "s3://bucket/password/{date}",
        "/data/{date}T00:00@v1.csv",
        "bigquery://project/db?credentials_path=/keys/bigquery.json",
    ],
)
def test_an_address_without_one_is_none(uri: str) -> None:
    assert not shows_password(uri)


def test_a_document_that_was_stored_with_one_still_reads() -> None:
    text = TEXT.format(kind="sql", uri="sqlite:////shop.db", more=QUERY)
    stored = loads(text).model_dump(mode="json", by_alias=True, exclude_none=True)
    stored["source"]["uri"] = "postgresql://me:hunter2@host/db"
    assert PipelineSpec.model_validate(stored).source.uri.endswith("host/db")


def test_an_address_without_a_place_for_the_day_is_not_repeated() -> None:
    with pytest.raises(PipelineInvalid, match="has no place for the day") as refused:
        loads(TEXT.format(kind="files", uri="s3://key:hunter2@bucket/all", more=""))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["AIRFLOW__CORE__FERNET_KEY", "AWS_SECRET_ACCESS_KEY", "RATCHET_STORE", "MLFLOW_TRACKING_URI"]
)
@pytest.mark.parametrize("kind", ["files", "sql", "delta"])
def test_a_setting_of_the_installation_is_refused_with_the_file(kind: str, name: str) -> None:
    text = TEXT.format(kind=kind, uri=f"s3://${{{name}}}/{{date}}", more=QUERY if kind == "sql" else "")
    with pytest.raises(PipelineInvalid, match=rf"p\.yaml:2: source\.uri: \$\{{{name}\}} is a setting"):
        loads(text, "p.yaml")


def test_a_variable_of_an_address_is_an_address() -> None:
    with pytest.raises(PipelineInvalid) as refused:
        loads(TEXT.format(kind="files", uri="/x/${SHOP_PASSWORD}/{date}", more=""), "p.yaml")
    assert str(refused.value) == (
        "p.yaml:2: source.uri: ${SHOP_PASSWORD} is not an address, and plans and logs show the place of the files;"
        " allowed: RATCHET_DATA, RATCHET_DATA_*; to do: rename it to RATCHET_DATA_SHOP_PASSWORD, or write the place itself"
    )
    loads(TEXT.format(kind="files", uri="${RATCHET_DATA_SHOP}/{date}", more=""))
    loads(TEXT.format(kind="sql", uri="pg://${SHOP_PASSWORD}@host", more=QUERY))
