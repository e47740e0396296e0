import pytest

from ratchet.contracts.errors import ConfigurationError
from team.engine_filter.policy import Policy


def _load(**given: str) -> Policy:
    return Policy.load({"PATH": "/bin", **{f"ENGINE_FILTER_{name.upper()}": value for name, value in given.items()}})


def test_an_installation_is_all_that_has_to_be_named() -> None:
    settings = _load(installation="here")
    assert (settings.host, settings.port, settings.socket) == ("0.0.0.0", 2375, "/var/run/docker.sock")
    assert (settings.images, settings.networks, settings.cache_volume) == (("ratchet-stage",), (), None)


def test_lists_and_amounts_are_read() -> None:
    settings = _load(
        installation="here", images="ratchet-stage, reg.example:5000/a/stage", networks="stages,x", cache_volume="", max_memory="8g"
    )  # fmt: skip
    assert settings.images == ("ratchet-stage", "reg.example:5000/a/stage")
    assert settings.networks == ("stages", "x")
    assert (settings.cache_volume, settings.max_memory) == (None, 8 << 30)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("installation", "a b", "ENGINE_FILTER_INSTALLATION = 'a b'"),
        ("images", "", "ENGINE_FILTER_IMAGES = ''"),
        ("images", "ratchet-stage:cpu:x", "ENGINE_FILTER_IMAGES = "),
        ("images", "*", "ENGINE_FILTER_IMAGES = "),
        ("networks", "host", "'host' cannot be listed"),
        ("networks", "container:x", "ENGINE_FILTER_NETWORKS = "),
        ("listen", "2375", "write it like 0.0.0.0:2375"),
        ("listen", "0.0.0.0:99999", "write it like 0.0.0.0:2375"),
        ("socket", "docker.sock", "by its full path"),
        ("cache_volume", "/etc", "ENGINE_FILTER_CACHE_VOLUME = '/etc'"),
        ("max_memory", "8", "write it like 512m or 4g"),
        ("max_cpus", "many", "ENGINE_FILTER_MAX_CPUS = 'many'"),
        ("max_cpus", "nan", "ENGINE_FILTER_MAX_CPUS = 'nan'"),
        ("max_pids", "0", "ENGINE_FILTER_MAX_PIDS = '0'"),
        ("image", "x", "did you mean ENGINE_FILTER_IMAGES?"),
        ("zzz", "x", "ENGINE_FILTER_ZZZ is not a setting"),
    ],
)
def test_a_setting_that_cannot_be_is_named_in_one_line(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        _load(**{"installation": "here", name: value})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_without_an_installation_it_says_so() -> None:
    with pytest.raises(ConfigurationError, match="ENGINE_FILTER_INSTALLATION"):
        _load()
