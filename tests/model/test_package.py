"""The package that a model brings with it holds all that it imports, and its name says what it holds."""

import ast
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts import bundle
from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.model.package import pack, relocate, unpack
from ratchet.model.scorer import PackedModel
from ratchet.model.scoring import load
from tests.model.test_scoring import ROWS, written

THIRD_PARTY = {"numpy", "pandas", "pydantic", "safetensors", "torch", "yaml"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(pack(), tmp_path_factory.mktemp("package") / "place")


def imported(file: Path, package: Path) -> tuple[set[str], set[str]]:
    """(top-level names that a file imports absolutely, files or folders of the package that it imports relatively)."""
    outside: set[str] = set()
    inside: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            outside.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            outside.add(str(node.module).partition(".")[0])
        elif isinstance(node, ast.ImportFrom):
            inside.add("/".join([*file.relative_to(package).parts[: -node.level], *str(node.module).split(".")]))
    return outside, inside


def test_its_modules_import_each_other_and_libraries_and_nothing_else(package: Path) -> None:
    files = sorted(package.rglob("*.py"))
    assert {"model/scoring.py", "runtime/user_code.py"} <= {file.relative_to(package).as_posix() for file in files}
    assert not (package / "checkout.py").exists()
    for file in files:
        outside, inside = imported(file, package)
        trees = {"lightgbm"} if file.name == "boosted.py" else set()
        assert outside <= THIRD_PARTY | trees | sys.stdlib_module_names, file
        assert all((package / name).is_dir() or (package / f"{name}.py").is_file() for name in inside), file


def test_the_same_code_is_the_same_bytes_and_name_and_other_code_has_another_name(
    package: Path, tmp_path: Path
) -> None:
    assert pack() == pack()
    assert unpack(pack(), tmp_path / "again").name == package.name
    (tmp_path / "files").mkdir()
    bundle.unpack(pack(), tmp_path / "files")
    changed = tmp_path / "files" / "model" / "networks.py"
    changed.chmod(0o644)
    changed.write_text(f"{changed.read_text()}# more\n")
    assert unpack(bundle.pack(tmp_path / "files"), tmp_path / "other").name != package.name


ALONE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import {name}.model.scoring
print(json.dumps(sorted(name for name in sys.modules if name.partition(".")[0] in ("ratchet", "tasks", "{name}"))))
"""


def test_all_of_it_is_imported_at_once_and_nothing_of_this_checkout(package: Path) -> None:
    program = ALONE.format(name=package.name)
    environment = {**os.environ, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, package.parent], check=True, capture_output=True, env=environment, cwd="/"
    )
    files = [PurePosixPath(file.relative_to(package.parent)) for file in package.rglob("*.py")]
    dotted = {".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files}
    assert set(json.loads(done.stdout)) == dotted


NAMES = st.sampled_from(["model", "contracts", "m", "a_b", "importer"])


@given(
    st.lists(NAMES, max_size=2).map(lambda parts: ".".join(["ratchet", *parts])),
    st.sampled_from(["{}", "def late():\n    {}\n", "if True:\n  x = 'é'\n  {}  # from ratchet import y\n"]),
    st.sampled_from(["thing", "thing as other", "(\n    thing,  # why\n    more,\n)"]),
    st.integers(0, 3),
)
def test_an_import_is_moved_to_where_it_led(module: str, frame: str, taken: str, depth: int) -> None:
    name = PurePosixPath(*["folder"] * depth, "file.py")
    moved = ast.parse(relocate(frame.format(f"from {module} import {taken}"), name))
    (node,) = (node for node in ast.walk(moved) if isinstance(node, ast.ImportFrom))
    assert node.level == depth + 1
    assert (f"ratchet.{node.module}" if node.module else "ratchet") == module


@pytest.mark.parametrize(
    "source",
    [
        "import ratchet.model.scoring\n",
        "import ratchet\n",
        "import os, tasks.train.stage as train\n",
        "from tasks.train import stage\n",
        "import_module('ratchet.model.scoring')\n",
        "import_module(f'ratchet.{stage}')\n",
        "X = 1; from ratchet.model import scoring\n",
        "from ratchet.model \\\n    import scoring\n",
        "X = '''\nfrom ratchet.model import scoring\n'''\n",
        "from .. import scoring\n",
    ],
)
def test_what_cannot_be_moved_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"model/x\.py.*(cannot be moved|more than its imports)"):
        relocate(source, PurePosixPath("model/x.py"))


def test_a_packed_model_scores_to_the_bit_as_the_installed_code_does(package: Path, tmp_path: Path) -> None:
    folder = written(tmp_path / "m")
    packed, installed = PackedModel(package, folder), load(folder)
    assert packed.digest == installed.digest
    assert packed.score(ROWS).tolist() == installed.score(ROWS).tolist()


def test_errors_of_the_packed_code_are_errors_of_ours(package: Path, tmp_path: Path) -> None:
    packed = PackedModel(package, written(tmp_path / "m"))
    with pytest.raises(ConfigurationError, match="no column country; to do: the model reads price, country"):
        packed.score(ROWS.drop(columns="country"))
    with pytest.raises(DataRejected, match="holds int64 where strings"):
        packed.score(ROWS.assign(country=1))
    with pytest.raises(ConfigurationError, match=r"features\.py:1: NameError"):
        PackedModel(package, written(tmp_path / "n", features="nothing\n"))
    with pytest.raises(AttributeError):
        packed.score(None)  # type: ignore[arg-type] # what is no error of the tree stays as it is


Loader = Callable[[Path], ModuleType]


@pytest.fixture(params=["ratchet.model.scorer", "ratchet.model.pyfunc"])
def load_scoring(request: pytest.FixtureRequest) -> Loader:
    """As evaluate loads a package, and as a service does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # importing mlflow warns of its own type hints
        found: Loader = import_module(request.param)._scoring
    return found


def loaded(name: str) -> list[str]:
    return [module for module in sys.modules if module.partition(".")[0] == name]


@pytest.fixture
def cut(package: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the package that lacks a file, in a process that has not loaded the package yet."""
    had = {name: sys.modules.pop(name) for name in loaded(package.name)}
    cut = tmp_path / "cut" / package.name
    shutil.copytree(package, cut)
    (cut / "model" / "networks.py").unlink()
    yield cut
    for name in loaded(package.name):
        del sys.modules[name]
    sys.modules.update(had)


def test_a_load_that_fails_leaves_nothing_behind(cut: Path, package: Path, load_scoring: Loader) -> None:
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match=rf"^No module named '{package.name}\.model\.networks'"):
            load_scoring(cut)
        assert loaded(package.name) == []
    assert load_scoring(package).__file__ == str(package / "model" / "scoring.py")


def test_a_load_goes_on_from_its_own_folder_when_that_of_another_thread_is_broken(
    cut: Path, package: Path, load_scoring: Loader
) -> None:
    spec = ModuleSpec(package.name, None, is_package=True)
    spec.submodule_search_locations = [str(cut)]
    sys.modules[package.name] = module_from_spec(spec)  # as another thread leaves it before it begins
    assert load_scoring(package).__file__ == str(package / "model" / "scoring.py")


def test_of_threads_that_load_one_package_each_gets_what_its_own_folder_gives(
    cut: Path, package: Path, load_scoring: Loader
) -> None:
    def attempt(folder: Path) -> str:
        try:
            return str(load_scoring(folder).__file__)
        except ModuleNotFoundError as error:
            return str(error.name)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads meet at every line
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(attempt, [cut] * 4 + [package] * 4))
    finally:
        sys.setswitchinterval(before)
    whole = str(package / "model" / "scoring.py")
    assert set(found[:4]) <= {whole, f"{package.name}.model.networks"}
    assert found[4:] == [whole] * 4
