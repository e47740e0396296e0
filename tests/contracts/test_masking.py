"""Secrets are masked in each form in which they are written, what is none stays readable, and no text takes long."""

import json
import logging
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.contracts.errors import Unavailable
from ratchet.contracts.masking import MASK, Mask, mask, mask_error, masked_logger

SECRET = "hunter2-S3cr3t"
FORMS = (
    '{"password": "§"}', '{"password":"§","user":"bob"}', '{"a": {"sessionToken": "§"}}',
    '{"password":\n  "§"}', '{"passwords": ["§", "x"]}', '{\\"password\\": \\"§\\"}',
    "{'token': '§'}", "{'api_key': b'§'}", "environ({'DB_PASSWORD': '§'})", "('PASSWORD', '§')",
    "Authorization: Bearer §", "Authorization: Basic §", "{'Authorization': 'Bearer §'}",
    'curl -H "Authorization: token §" https://host/x', "sent the header bearer §",
    "Authorization: AWS4-HMAC-SHA256 Credential=AKIA/x, Signature=§", "X-Api-Key: §", "x-auth-token: §",
    "Cookie: session=§; a=b", "pwd=§", "Server=x;UID=sa;PWD=§;Database=y", "DB_PASS=§",
    "export DB_PASSWORD=§", "AWS_SECRET_ACCESS_KEY=§", "AIRFLOW__CORE__FERNET_KEY=§",
    "client_secret=§&grant_type=x", "token=§", "refresh_token: §", "Password=a,§;User=x",
    "my password=a&§", "--password §", "--password=§", "['mysql', '--password', '§', 'db']",
    "password: §", '  secret_key: "§"', "password: |\n  §\nuser: x", 'password = "two § words"',
    "password='cut §", 'connect(user="x", password="§")', 'password=SecretStr("§")',
    "ALTER USER x PASSWORD '§'", "<db:password>§</db:password>",
    "https://b.s3.amazonaws.com/x?X-Amz-Credential=§&X-Amz-Date=2026", "https://b/x?X-Amz-Signature=§",
    "https://b/x?a=1&X-Amz-Security-Token=§&b=2", "https://a.blob.core.windows.net/c?sv=2022&sig=§&se=x",
    "AccountName=x;AccountKey=§==;EndpointSuffix=core", "postgresql://user:§@db/x", "redis://:§@host/0",
    "mssql+pyodbc://user:p%40§@db/x", "ftp://bob:§@word@host/path", "ftp://bob:p/§@host",
    "postgresql%3A%2F%2Fuser%3A§%40host", "https://§-of-a-user@github.com/x.git",
    "slack://§/B/C", "discord://123/§", "https://hooks.slack.com/services/T0/B0/§",
    "https://discord.com/api/webhooks/123/§", "https://api.telegram.org/bot123:§/sendMessage",
    "https://hc-ping.com/§", "-----BEGIN RSA PRIVATE KEY-----\n§\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\n§\\nxyz", '{"name": "DB_PASSWORD", "value": "§"}',
    '[{"name":"DB_PASSWORD","value":"§"},{"name":"X","value":"y"}]', '{"value": "§", "name": "DB_PASSWORD"}',
    '{\\"name\\": \\"DB_PASSWORD\\", \\"value\\": \\"§\\"}', "{'Key': 'x/API_KEY', 'Type': 'y', 'Value': '§'}",
    "- name: DB_PASSWORD\n  value: §", '- name: "DB_PASSWORD"\n  value: "§"', "UID=sa;PWD={§};Database=y",
    "UID=sa;PWD={a;b}}§", "Password:\n§", "  password:\n    §\n", "['mysql', '-uroot', '-p§', 'db']",
    "mysqldump -uroot -p§ db", "sshpass -p § ssh host", "docker login -u bob -p § host", "curl -u bob:§ https://host",
    "['curl', '--user', 'bob:§', 'x']", "bob:§@tcp(host:3306)/db", "routing_key=§", '{"integration_key": "§"}',
    "https://x.azurewebsites.net/api/f?code=§==&a=b", "x?next=%2Fy%3Fpassword%3D§%26a%3Db", "%22api_key%22%3A%20%22§%22",
    "os.environ['DB_PASSWORD'] = '§'", 'config["secret"]="§"', "spark.hadoop.fs.s3a.secret.key=§",
    "Ocp-Apim-Subscription-Key: §", "x-functions-key: §", "https://outlook.office.com/webhook/§/IncomingWebhook/x",
)  # fmt: skip
TOKENS = (
    "ghp_" + "a1B2" * 9, "github_pat_" + "a1B2" * 9, "glpat-abcdefghij0123456789", "xoxb-1234567890-abcdef",
    "sk-proj-abcdEFGH1234ijklMNOP", "hf_abcdefghijABCDEFGHIJ12", "123456789:AAaaBBbbCCccDDddEEeeFFffGGggHHhh-_1",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123", "AKIAIOSFODNN7EXAMPLE",
    "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "ASIAIOSFODNN7EXAMPLE",
    "IQoJb3JpZ2luX2VjEGEaCXVz+LWVh/c3QtMSJIMEYCIQ==", "IQoJb3JpZ2luX2VjEOT%2F%2F%2F%2FwEaCXVz%2BLXdlc3Qt%3D%3D",
    "FwoGZXIvYXdzENH//////////wEaDLtcNupZ", "FQoGZXIvYXdzEBYaDK7MDENGbPxRfiCY", "AQoDYXdzEJr1K7MDENGbPxRfiCY=",
)  # fmt: skip
READABLE = (
    "ExpiredToken: The provided token has expired", "InvalidToken: malformed", "max_tokens=512", "token_count: 3",
    "tokenizer=bpe", "n_tokens: 5", "token_dim=64", "eos_token: </s>", "unexpected token: '}'", "the token is text",
    "https://host/x?next_token=3", "vocabulary token 'abc'", "password_file=/run/secrets/x", "secret_name: shop",
    "password: ${SHOP_PASSWORD}", "password=None", "the password is wrong", "KeyError: 'password'",
    'password authentication failed for user "bob"', "PWD=/home/me", "pass 3 of 4", "first pass: 3", "bypass=1",
    "passed=12 failed=1", "primary_key=id", "key: train.epochs", "monkey=3", "the signature: (a, b)",
    "http://host:8080/path/user@example.org", "s3://bucket/key@v1", "abfss://box@account.dfs.core.windows.net/x",
    "ssh://git@github.com/x", "mailto:x@example.org", "basic authentication required", "bearer of news",
    "task-scheduler-version-2026-11", "sha256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "12:30:45 epoch 3 loss=0.5",
    "http://127.0.0.1:8080/dags/x/runs/scheduled__2026-11-27T02:00:00+00:00", "missing credentials",
    '{"name": "DB_PASSWORD", "valueFrom": {"file": "x"}}', '{"name": "DB_PASSWORD", "value": "${SHOP_PASSWORD}"}',
    '{"name": "DB_USER", "value": "bob"}', "- name: DB_USER\n  value: bob", "DB_PASSWORD=\nDB_USER=bob",
    "secrets:\n  - shop", "secret:\n  name: shop", "mysql --protocol=tcp -P3306 -p", "curl -u bob https://host",
    "https://host/x?code=404", "exit code=64", "password={}", "os.environ['DB_PASSWORD']", "if config['secret'] == 'x':", "a:b@host", "docker run --user 1000:1000 x",
    "FwoGZXIvYXdz...", "origin: b3JpZ2lu",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_masked_in_each_form(form: str) -> None:
    shown = mask(form.replace("§", SECRET))
    assert MASK in shown
    assert SECRET not in shown
    assert mask(shown) == shown


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_known_by_how_it_begins(token: str) -> None:
    for text in (
        token,
        f"with {token}, refused",
        json.dumps({"message": token}),
        json.dumps({"message": f"\n{token}"}),
    ):
        assert token not in mask(text)
        assert token.rpartition(":")[2] not in mask(text)


def test_the_lines_of_a_private_key_are_masked_one_by_one() -> None:
    line = "MIIEpAIBAAKCAQEA7v2vq1oU8+0Qm9zUqYh0rT3bXk5n6cP1dW4sLx8yZa2eJgHf"
    assert mask(line) == MASK


@pytest.mark.parametrize("text", READABLE)
def test_what_is_no_secret_stays_readable(text: str) -> None:
    assert mask(text) == text


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*FORMS, *TOKENS, *READABLE]), max_size=4), st.sampled_from([" ", "\n", ", "]))
def test_a_text_that_is_masked_does_not_change_again(parts: list[str], between: str) -> None:
    once = mask(between.join(parts))
    assert mask(once) == once


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "-",
        "--a",
        "://a:",
        "password=",
        "secret_",
        "token=\\",
        "authorization: ",
        "<a",
        "eyJ",
        "IQoJb3JpZ2lu",
        "1234567890:",
        "curl -u a:",
        'key", "value": "',
        "mysql ",
        "password:\n",
        "a:@tcp(",
        "pwd={",
    ],
)
def test_the_time_grows_with_the_length_and_no_faster(unit: str) -> None:
    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        began = time.process_time()
        mask(text)
        return time.process_time() - began

    seconds(1000)  # the patterns are compiled
    assert seconds(100_000) < 6.0  # at a million letters, what grows with the square would take an hour


def test_an_event_is_masked_by_the_names_of_its_fields_too() -> None:
    line = json.dumps({"event": "info", "message": "x", "api_key": SECRET, "inside": [{"password": SECRET, "n": 1}]})
    shown = json.loads(Mask().line(line))
    assert shown == {"event": "info", "message": "x", "api_key": MASK, "inside": [{"password": MASK, "n": 1}]}
    variables = [{"Name": "DB_PASSWORD", "Value": SECRET}, {"name": "DB_USER", "value": "bob"}]
    shown = json.loads(Mask().line(json.dumps({"event": "info", "variables": variables})))
    assert shown["variables"] == [{"Name": "DB_PASSWORD", "Value": MASK}, variables[1]]
    assert Mask().line("{broken token=x") == "{broken token=***"


def test_an_error_is_masked_with_its_remedy_and_its_last_lines() -> None:
    error = Unavailable(f"no answer from redis://:{SECRET}@cache", remedy=f"set password={SECRET}")
    error.last_lines = (f"token={SECRET}",)
    mask_error(error)
    assert SECRET not in f"{error} {error.last_lines}"
    mask_error(KeyError(SECRET))  # it has no texts of ours


def test_a_masked_logger_shows_no_secret_nor_in_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    log = masked_logger("ratchet.test-masking")
    assert masked_logger("ratchet.test-masking").filters == log.filters
    with caplog.at_level(logging.WARNING):
        log.warning("refused: %s", f"password={SECRET}")
        try:
            int(f"token={SECRET}")
        except ValueError:
            log.exception("it failed")
    assert SECRET not in caplog.text
    assert caplog.text.count(MASK) == 2
