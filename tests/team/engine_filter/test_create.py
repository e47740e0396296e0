import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from team.engine_filter.create import Container, read
from team.engine_filter.create import body as engine_body
from team.engine_filter.refusal import Refusal
from tests.team.engine_filter.bodies import GONE, SETTINGS, bent, body


def _read(wanted: object) -> Container:
    return read(json.dumps(wanted).encode(), SETTINGS)


@pytest.mark.parametrize("made", [body(), body(gpus=("0", "GPU-2a")), body(cache="cache")])
def test_what_the_runner_makes_reaches_the_engine_but_for_image_and_label(made: dict[str, Any]) -> None:
    sent = engine_body(_read(made), "sha256:x", SETTINGS)
    labels = {**made["Labels"], "ratchet.installation": "here"}
    expected = bent(bent(made, ("Image",), "sha256:x"), ("Labels",), labels)
    assert sent == bent(expected, ("HostConfig", "Mounts", 0, "VolumeOptions", "Labels"), labels)


OWN = body()["HostConfig"]["Mounts"][0]
BIND = {"Type": "bind", "Source": "/", "Target": "/host"}
SOCKET = {"Type": "bind", "Source": "/var/run/docker.sock", "Target": "/var/run/docker.sock"}
DRIVER = {"Name": "local", "Options": {"type": "none", "device": "/", "o": "bind"}}
CACHE = {"Type": "volume", "Source": "cache", "Target": "/var/cache/ratchet"}
H = "HostConfig"

HOST_KEYS: list[tuple[str, object]] = [
    ("Privileged", True), ("Privileged", False), ("Binds", ["/:/host"]), ("Binds", ["/var/run/docker.sock:/s"]), ("Binds", []),
    ("CapAdd", ["SYS_ADMIN"]), ("CapAdd", None), ("Capabilities", ["ALL"]), ("PidMode", "host"), ("PidMode", "container:x"),
    ("UTSMode", "host"), ("UsernsMode", "host"), ("CgroupnsMode", "host"), ("CgroupParent", "/"), ("Cgroup", "container:x"),
    ("Devices", [{"PathOnHost": "/dev/sda", "PathInContainer": "/dev/sda", "CgroupPermissions": "rwm"}]),
    ("DeviceCgroupRules", ["a *:* rwm"]), ("Sysctls", {"kernel.shm_rmid_forced": "1"}), ("RestartPolicy", {"Name": "always"}),
    ("PortBindings", {"1/tcp": [{"HostPort": "1"}]}), ("PublishAllPorts", True), ("Links", ["db:db"]), ("VolumesFrom", ["db"]),
    ("VolumeDriver", "x"), ("AutoRemove", True), ("GroupAdd", ["0"]), ("ExtraHosts", ["s3:1.2.3.4"]), ("Dns", ["1.2.3.4"]),
    ("Runtime", "nvidia"), ("OomKillDisable", True), ("OomScoreAdj", -1000), ("MaskedPaths", []), ("ReadonlyPaths", []),
    ("StorageOpt", {"size": "1t"}), ("ContainerIDFile", "/x"), ("NanoCpus", 10**12), ("CpusetCpus", "0"), ("Isolation", "x"),
    ("CpuRealtimeRuntime", 1), ("BlkioWeight", 1000), ("KernelMemory", 1), ("privileged", True), ("PRIVILEGED", True),
]  # fmt: skip
TOP_KEYS: list[tuple[str, object]] = [
    ("Hostname", "s3"), ("Domainname", "x"), ("Tty", True), ("OpenStdin", True), ("AttachStdin", True), ("Volumes", {"/x": {}}),
    ("ExposedPorts", {"1/tcp": {}}), ("NetworkingConfig", {"EndpointsConfig": {"stages": {"Aliases": ["s3"]}}}), ("Shell", ["sh"]),
    ("Healthcheck", {"Test": ["CMD", "x"]}), ("MacAddress", "02:42:ac:11:00:02"), ("OnBuild", []), ("ArgsEscaped", True),
    ("NetworkDisabled", False), ("image", "debian"), ("user", "0"), ("Memory", 1),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), HOST_KEYS)
def test_no_other_key_of_the_hosts_part_is_known(key: str, value: object) -> None:
    with pytest.raises(
        Refusal, match=rf"HostConfig\.{key} is refused; allowed: only the keys that Ratchet's runner sets"
    ):
        _read(bent(body(), (H, key), value))


@pytest.mark.parametrize(("key", "value"), TOP_KEYS)
def test_no_other_key_is_known(key: str, value: object) -> None:
    with pytest.raises(Refusal, match=rf"create: {key} is refused; allowed: only the keys"):
        _read(bent(body(), (key,), value))


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (("User",), ["0:0", "0", "root", "", "10001", "10001:0", "0:10001", "010:1", "1:01", "+1:1", "-1:1", "1:1:1", "4294967296:1", "1:4294967296", "root:1", "1:docker", " 1:1", "1:1\n", None, 1]),
        (("Image",), ["", None, 1, "x" * 301]),
        (("Entrypoint",), [[], ["a", "b"], "sh", None, ["a\0b"]]),
        (("Cmd",), [None, "sh", [1], ["x"] * 257, ["x" * 5000]]),
        (("WorkingDir",), ["/", "", None]),
        (("StopSignal",), ["SIGKILL", None]),
        (("StopTimeout",), [-1, 10**9, "1", 1.0, True, None]),
        (("Env",), [["PATH=/x"], ["LD_PRELOAD=/x"], ["PYTHONPATH=/x"], ["NVIDIA_VISIBLE_DEVICES=all"], ["BASH_ENV=x"], ["A=1", "A=2"], ["A"], ["=x"], ["A B=x"], ["A=\0"], ["LD_\nX=1"], None, {"A": "1"}]),
        (("Labels",), [{}, {"ratchet": "2"}, {"ratchet": "1", "ratchet.installation": "there"}, {"ratchet": "1", "com.docker.compose.project": "x"}, {"ratchet": "1", "traefik.enable": "true"}, {"ratchet": "1", "ratchet.A": "x"}, {"ratchet": "1", "ratchet.a": "x\ny"}, {"ratchet": "1", "ratchet.a": 1}, {"ratchet": 1}, None]),
        ((H, "Init"), [False, None, 0, "true", GONE]),
        ((H, "ReadonlyRootfs"), [False, None, GONE]),
        ((H, "CapDrop"), [[], None, ["NET_RAW"], ["ALL", "ALL"], "ALL", GONE]),
        ((H, "SecurityOpt"), [[], None, ["seccomp=unconfined"], ["no-new-privileges", "apparmor=unconfined"], ["no-new-privileges:false"], ["label=disable"], GONE]),
        ((H, "IpcMode"), ["host", "shareable", "container:x", "", None, GONE]),
        ((H, "NetworkMode"), ["host", "bridge", "default", "", "container:x", "other", "stages ", None, GONE]),
        ((H, "Memory"), [0, -1, 1 << 40, 10**30, "4g", 1.5, None, True, GONE]),
        ((H, "MemorySwap"), [-1, 0, 1 << 40, None, GONE]),
        ((H, "CpuPeriod"), [0, 1000, None, GONE]),
        ((H, "CpuQuota"), [0, -1, 999, 800_001, None, GONE]),
        ((H, "PidsLimit"), [0, -1, 1001, None, GONE]),
        ((H, "ShmSize"), [0, -1, (1 << 30) + 1, None, GONE]),
        ((H, "Ulimits"), [[], None, [{"Name": "core", "Soft": -1, "Hard": -1}], [{"Name": "nofile", "Soft": 0, "Hard": 0}], [{"Name": "core", "Soft": 0, "Hard": 0}] * 2, GONE]),
        ((H, "Tmpfs"), [{}, None, {"/etc": "size=1"}, {"/tmp": ""}, {"/tmp": "rw,nosuid,nodev,noexec,mode=1777"}, {"/tmp": "rw,nosuid,nodev,noexec,mode=1777,size=0"}, {"/tmp": f"rw,nosuid,nodev,noexec,mode=1777,size={1 << 40}"}, {"/tmp": "rw,exec,size=1"}, {"/tmp": "rw,nosuid,nodev,noexec,mode=1777,size=1,dev"}, GONE]),
        ((H, "Mounts"), [[], None, [BIND], [OWN, BIND], [OWN, SOCKET], [OWN, OWN], [CACHE], [CACHE, OWN], [OWN, CACHE, CACHE], [OWN, {**CACHE, "Source": "other"}], [OWN, {**CACHE, "Source": ""}], [OWN, {**CACHE, "Source": "/"}], [OWN, {**CACHE, "Target": "/etc"}], [OWN, {**CACHE, "Type": "bind"}], [OWN, {**CACHE, "VolumeOptions": {"DriverConfig": DRIVER}}], [{**OWN, "Target": "/"}], [{**OWN, "Source": "other"}], [{**OWN, "Type": "npipe"}], [{**OWN, "VolumeOptions": {**OWN["VolumeOptions"], "DriverConfig": DRIVER}}], [{**OWN, "BindOptions": {"Propagation": "shared"}}], [{**OWN, "VolumeOptions": {**OWN["VolumeOptions"], "NoCopy": False}}], [{**OWN, "VolumeOptions": {"NoCopy": True, "Labels": {"ratchet": "1"}}}], [{"Type": "tmpfs", "Target": "/x"}], GONE]),
        ((H, "DeviceRequests"), [None, [{"Count": -1, "Capabilities": [["gpu"]]}], [{"DeviceIDs": ["0"], "Capabilities": [["gpu", "utility"]]}], [{"DeviceIDs": [], "Capabilities": [["gpu"]]}], [{"DeviceIDs": ["0"], "Capabilities": []}], [{"DeviceIDs": ["0"], "Capabilities": [["gpu"]], "Driver": "cdi"}], [{"DeviceIDs": ["0"], "Capabilities": [["gpu"]], "Options": {}}], [{"DeviceIDs": ["/dev/sda"], "Capabilities": [["gpu"]]}], [{"DeviceIDs": ["0"], "Capabilities": [["cdi"]]}], GONE]),
        ((H, "LogConfig"), [None, {}, {"Type": "json-file"}, {"Type": "syslog", "Config": {"syslog-address": "tcp://1.2.3.4"}}, {"Type": "json-file", "Config": {}}, {"Type": "json-file", "Config": {"max-size": "2g", "max-file": "1"}}, {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "9"}}, {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1", "tag": "x"}}, GONE]),
    ],
)  # fmt: skip
def test_a_value_that_the_runner_never_sets_is_refused(path: tuple[str, ...], values: list[object]) -> None:
    for value in values:
        with pytest.raises(Refusal, match=r"^engine filter: create: .* is refused; allowed: \S"):
            _read(bent(body(), path, value))


def test_a_number_that_means_yes_is_sent_as_yes() -> None:
    sent = engine_body(_read(bent(body(), (H, "Init"), 1)), "sha256:x", SETTINGS)
    assert sent["HostConfig"]["Init"] is True


@pytest.mark.parametrize("value", [None, 1, "x", [], [{}], {}])
def test_a_body_that_is_no_container_is_refused(value: object) -> None:
    with pytest.raises(Refusal, match="create:"):
        _read(value)


def test_a_refusal_names_no_value_of_the_environment() -> None:
    with pytest.raises(Refusal) as refused:
        _read(bent(body(), ("Env",), ["LD_PRELOAD=hunter2", "KEY=hunter2"]))
    assert "LD_PRELOAD" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_without_a_cache_in_the_settings_there_is_none() -> None:
    with pytest.raises(Refusal, match="no named volume"):
        read(json.dumps(body(cache="cache")).encode(), SETTINGS.model_copy(update={"cache_volume": None}))


@pytest.mark.parametrize(
    "text",
    ['{"Image": "a", "Image": "b"}', '{"HostConfig": {"Privileged": false, "Privileged": true}}', '{"Memory": NaN}', "{", "", "{} {}", "\ufeff{}", "[" * 100_000, '{"a": 1' + "0" * 5000 + "}"],
)  # fmt: skip
def test_json_that_could_be_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="UTF-8 JSON, each key once"):
        read(text.encode(), SETTINGS)


def test_json_in_another_encoding_is_refused() -> None:
    with pytest.raises(Refusal, match="UTF-8 JSON"):
        read(json.dumps(body()).encode("utf-16"), SETTINGS)


def _places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where in a body a key could be added, but for maps whose keys are names: Labels and Tmpfs have tests of their own."""
    found: list[tuple[str | int, ...]] = []
    if isinstance(value, dict):
        if path[-1:] not in {("Labels",), ("Tmpfs",)}:
            found.append(path)
        for key, inner in value.items():
            found += _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += _places(inner, (*path, index))
    return found


FULL = body(gpus=("0",), cache="cache")
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2), max_leaves=4)  # fmt: skip


@given(place=st.sampled_from(_places(FULL)), key=st.text(min_size=1, max_size=20), value=JSON)
def test_a_body_with_any_unknown_key_anywhere_is_refused(place: tuple[str | int, ...], key: str, value: object) -> None:
    at: Any = FULL
    for part in place:
        at = at[part]
    if key in at:
        return
    with pytest.raises(Refusal):
        _read(bent(FULL, (*place, key), value))


@given(place=st.sampled_from([path for path in _places(FULL) if path]), value=JSON)
def test_any_part_replaced_by_something_else_is_refused(place: tuple[str | int, ...], value: object) -> None:
    changed = bent(FULL, place, value)
    if changed == FULL:
        return
    with pytest.raises(Refusal):
        _read(changed)


@given(label=st.text(max_size=30), value=st.text(max_size=30))
def test_what_is_sent_to_the_engine_always_carries_the_mark_and_the_installation(label: str, value: str) -> None:
    made = body()
    for labels in (made["Labels"], made["HostConfig"]["Mounts"][0]["VolumeOptions"]["Labels"]):
        labels[label] = value
    try:
        sent = engine_body(_read(made), "sha256:x", SETTINGS)
    except Refusal:
        return
    for labels in (sent["Labels"], sent["HostConfig"]["Mounts"][0]["VolumeOptions"]["Labels"]):
        assert labels["ratchet"] == "1"
        assert labels["ratchet.installation"] == "here"
        assert all(name == "ratchet" or name.startswith("ratchet.") for name in labels)
