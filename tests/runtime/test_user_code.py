"""A pipeline's modules find each other by plain names, and nobody else does."""

import builtins
import pickle
import py_compile
import re
import subprocess
import sys
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.runtime.user_code import blame, load_module

ROOT = Path(__file__).resolve().parents[2]
HELPERS = {
    "mapping.py": "VALUE = 'mapping of {which}'\n",
    "helpers/__init__.py": "from . import text\nfrom .numbers import TWO\nimport mapping\nVALUE = mapping.VALUE\n",
    "helpers/text.py": "import helpers.numbers\nVALUE = 'text of {which}'\nTWO = helpers.numbers.TWO\n",
    "helpers/numbers.py": "TWO = 2\n",
    "plain/words.py": "VALUE = 'words of {which}'\n",
}
FORMS = {
    "import mapping": "mapping.VALUE",
    "import mapping as m": "m.VALUE",
    "from mapping import VALUE as v": "v",
    "from mapping import *": "VALUE",
    "from . import mapping": "mapping.VALUE",
    "import helpers": "helpers.VALUE",
    "import helpers.text": "helpers.text.VALUE.replace('text', 'mapping')",
    "import helpers.text as t": "t.VALUE.replace('text', 'mapping')",
    "from helpers import text": "text.VALUE.replace('text', 'mapping')",
    "from helpers.text import VALUE as v": "v.replace('text', 'mapping')",
    "from plain import words": "words.VALUE.replace('words', 'mapping')",
    "m = __import__('mapping')": "m.VALUE",
    "from importlib import import_module; m = import_module('.mapping', __package__)": "m.VALUE",
}


def bundle(folder: Path, which: str, features: str) -> Path:
    for name, text in {**HELPERS, "features.py": features}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("{which}", which), encoding="utf-8")
    return folder


def features(folder: Path) -> ModuleType:
    module = load_module(folder, "features.py")
    assert module is not None
    return module


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The process has a `mapping` that it has imported, and a file `helpers.py` that it has not."""
    (tmp_path / "process").mkdir()
    (tmp_path / "process" / "helpers.py").write_text("raise AssertionError('this is the process's own')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "process"))
    mapping = ModuleType("mapping")
    monkeypatch.setitem(sys.modules, "mapping", mapping)
    return mapping


AT_THE_TOP = [f"{form}\ndef value():\n    return {value}\n" for form, value in FORMS.items()]
INSIDE = [f"def value():\n    {form}\n    return {value}\n" for form, value in FORMS.items() if "*" not in form]


@pytest.mark.parametrize("text", [*AT_THE_TOP, *INSIDE])
def test_of_two_folders_each_finds_its_own_helpers_however_they_are_imported(
    tmp_path: Path, own_modules: ModuleType, text: str
) -> None:
    before = dict(sys.modules), list(sys.path)
    first, second = (features(bundle(tmp_path / which, which, text)) for which in ("first", "second"))
    for _ in range(2):
        assert (first.value(), second.value()) == ("mapping of first", "mapping of second")
    assert list(sys.path) == before[1]
    assert sys.modules["mapping"] is own_modules
    added = {name.partition(".")[0] for name in set(sys.modules) - set(before[0])}
    assert added == {first.__package__, second.__package__}


def test_what_the_folder_has_no_file_for_comes_from_outside(tmp_path: Path, own_modules: ModuleType) -> None:
    text = "import json, os.path, xml.etree.ElementTree as tree\nfrom email import message\n"
    folder = bundle(tmp_path / "first", "first", text)
    (folder / "json").mkdir()  # data alone is no package
    (folder / "json" / "rows.json").write_text("{}")
    module = features(folder)
    import email.message
    import json
    import os
    import xml.etree.ElementTree as ET

    assert (module.json, module.os, module.tree, module.message) == (json, os, ET, email.message)


def test_many_threads_load_and_call_two_folders_at_once(tmp_path: Path, own_modules: ModuleType) -> None:
    text = "from helpers import text\n\ndef value():\n    import mapping\n    return mapping.VALUE, text.VALUE\n"
    folders = {which: bundle(tmp_path / which, which, text) for which in ("first", "second")}
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda which: (which, features(folders[which])), [*folders] * 100))
        values = list(pool.map(lambda one: (one[0], one[1].value()), found))
    assert values == [(which, (f"mapping of {which}", f"text of {which}")) for which in [*folders] * 100]
    assert len({id(module) for _, module in found}) == 2


def test_modules_of_one_folder_are_the_same_module_to_each_other(tmp_path: Path) -> None:
    folder = bundle(tmp_path, "first", "import mapping\n")
    (folder / "model.py").write_text("import features\nimport mapping\n")
    model = load_module(folder, "model.py")
    assert model is not None
    assert model.features is features(folder)
    assert model.features.mapping is model.mapping


def test_a_file_that_was_changed_is_loaded_as_it_is_now(tmp_path: Path) -> None:
    assert features(bundle(tmp_path, "first", "from mapping import VALUE\n")).VALUE == "mapping of first"
    assert features(bundle(tmp_path, "again", "from mapping import VALUE\n")).VALUE == "mapping of again"
    assert not list(tmp_path.rglob("__pycache__"))


CLASSES = """
from __future__ import annotations
from dataclasses import dataclass, field
from typing import NamedTuple
import mapping

@dataclass
class Point:
    x: int
    others: list[Point] = field(default_factory=list)

class Pair(NamedTuple):
    left: Point
"""


def test_dataclasses_type_hints_and_pickle_find_the_module_again(tmp_path: Path) -> None:
    module = features(bundle(tmp_path, "first", CLASSES))
    pair = module.Pair(left=module.Point(1, [module.Point(2)]))
    assert pickle.loads(pickle.dumps(pair)) == pair
    assert typing.get_type_hints(module.Point)["others"] == list[module.Point]


@pytest.mark.parametrize(
    ("text", "mapping", "message"),
    [
        ("import mapping\n1 / 0\n", "", r"^features\.py:2: ZeroDivisionError: division by zero"),
        ("X = 1\nX = = 2\n", "", r"^features\.py:2: SyntaxError"),
        ("X = 1\nimport mapping\n", "\n\n\n1 / 0\n", r"^features\.py:2: ZeroDivisionError"),
        ("X = 1\nimport mapping\n", "\n\n\nX = = 2\n", r"^features\.py:2: SyntaxError"),
        ("\n\nimport nowhere_at_all\n", "", r"^features\.py:3: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        (
            "import helpers.none\n",
            "VALUE = 1\n",
            r"^features\.py:1: ModuleNotFoundError: No module named 'helpers\.none'",
        ),
        ("from mapping import none\n", "", r"^features\.py:1: ImportError: cannot import name 'none' from 'mapping'"),
    ],
)
def test_an_error_names_the_line_of_the_file_and_plain_names(
    tmp_path: Path, text: str, mapping: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = bundle(tmp_path, "first", text)
    (folder / "mapping.py").write_text(mapping)
    with pytest.raises(ConfigurationError, match=message):
        features(folder)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=message):
        features(Path())


def test_an_error_in_a_helper_that_is_called_names_the_line_of_the_call(tmp_path: Path) -> None:
    folder = bundle(tmp_path, "first", "def derive():\n    import mapping\n    return mapping.fail()\n")
    (folder / "mapping.py").write_text("def fail():\n    raise KeyError('price')\n")
    module = features(folder)
    with pytest.raises(KeyError) as caught:
        module.derive()
    assert blame(caught.value, folder, "features.py") == "features.py:3: KeyError: 'price'"


def test_a_folder_without_the_file_has_no_module(tmp_path: Path) -> None:
    assert load_module(tmp_path, "features.py") is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("importlib.import_module('mapping')", r"import_module\('mapping'\) does not look into this folder; write: import mapping"),
        ("importlib.import_module('helpers.text', None)", r"write: import helpers\.text"),
        ("multiprocessing.get_context('spawn')", r"a process that get_context\('spawn'\) starts cannot import the files of"),
        ("multiprocessing.set_start_method('forkserver')", r"a process that set_start_method\('forkserver'\) starts cannot"),
    ],
)  # fmt: skip
def test_a_call_that_would_look_elsewhere_for_the_folder_s_modules_is_refused_with_its_line(
    tmp_path: Path, own_modules: ModuleType, call: str, message: str
) -> None:
    text = f"import importlib, multiprocessing\n\n\ndef value():\n    return {call}\n"
    with pytest.raises(
        ConfigurationError, match=rf"^features\.py: ImportError: .*{message}.* \(features\.py, line 5\)"
    ):
        features(bundle(tmp_path / "first", "first", text))
    folder = bundle(tmp_path / "second", "second", "X = 1\nimport mapping\n")
    (folder / "mapping.py").write_text(text)
    with pytest.raises(
        ConfigurationError, match=rf"^features\.py:2: ImportError: .*{message}.* \(mapping\.py, line 5\)"
    ):
        features(folder)


def test_the_same_calls_for_other_modules_and_forks_are_not_refused(tmp_path: Path) -> None:
    text = (
        "import importlib, multiprocessing\njson = importlib.import_module('json')\nname = 'mapping'\n"
        "mapping = importlib.import_module(f'.{name}', __package__)\nfork = multiprocessing.get_context('fork')\n"
    )
    module = features(bundle(tmp_path, "first", text))
    assert (module.json.__name__, module.mapping.VALUE) == ("json", "mapping of first")


def test_a_pickle_by_plain_names_takes_the_process_s_own_module(tmp_path: Path, own_modules: ModuleType) -> None:
    own_modules.VALUE = "of the process"  # type: ignore[attr-defined] # a module may have anything
    text = "import pickle\n\ndef value():\n    return pickle.loads(b'cmapping\\nVALUE\\n.')\n"
    assert features(bundle(tmp_path / "first", "first", text)).value() == "of the process"


PROCESSES = """
import multiprocessing, pickle, sys
from pathlib import Path
from ratchet.runtime.user_code import load_module

if __name__ == "__main__":
    module = load_module(Path(sys.argv[1]), "features.py")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print("fork:", pool.map(module.double, [module.Number(4)]))
    child = multiprocessing.get_context("spawn").Process(target=module.double, args=(module.Number(4),))
    child.start()
    child.join()
    print("spawn:", child.exitcode)
    Path(sys.argv[2]).write_bytes(pickle.dumps(module.Number(4)))
"""
NUMBER = """
import dataclasses, mapping

@dataclasses.dataclass
class Number:
    value: int

def double(number):
    return 2 * number.value, mapping.VALUE
"""


def test_a_forked_process_knows_the_folder_and_a_spawned_one_and_another_one_do_not(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "first", "first", NUMBER)
    (tmp_path / "program.py").write_text(PROCESSES)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", folder, tmp_path / "number.pkl"],
        check=True, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["fork: [(8, 'mapping of first')]", "spawn: 1"]
    unknown = r"No module named 'ratchet_pipeline_[0-9a-f]{16}'"
    assert re.search(f"ModuleNotFoundError: {unknown}", done.stderr), done.stderr
    with pytest.raises(ModuleNotFoundError, match=unknown):
        pickle.loads((tmp_path / "number.pkl").read_bytes())


def test_the_folder_s_own_init_is_not_run_and_that_of_a_package_in_it_is(tmp_path: Path) -> None:
    folder = bundle(tmp_path, "first", "import helpers\nfrom . import mapping\n")
    (folder / "__init__.py").write_text("raise AssertionError('run')\n")
    module = features(folder)
    assert (module.helpers.VALUE, module.mapping.VALUE) == ("mapping of first", "mapping of first")


def test_a_folder_without_init_hides_all_of_a_package_of_its_name_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside" / "plain"
    outside.mkdir(parents=True)
    (outside / "other.py").write_text("VALUE = 'outside'\n")
    monkeypatch.syspath_prepend(str(outside.parent))
    with pytest.raises(
        ConfigurationError, match=r"features\.py:1: ModuleNotFoundError: No module named 'plain\.other'"
    ):
        features(bundle(tmp_path / "first", "first", "import plain.other\n"))


def test_byte_code_without_its_source_is_not_a_module_of_the_folder(tmp_path: Path) -> None:
    folder = bundle(tmp_path, "first", "from . import left\n")
    (tmp_path / "left.py").write_text("VALUE = 1\n")
    py_compile.compile(str(tmp_path / "left.py"), cfile=str(folder / "left.pyc"))
    (tmp_path / "left.py").unlink()
    with pytest.raises(ConfigurationError, match=r"features\.py:1: ImportError: cannot import name 'left'"):
        features(folder)


def test_a_module_has_the_built_in_names_of_the_moment_when_it_was_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = features(bundle(tmp_path, "first", "def value():\n    return len([1])\n"))
    monkeypatch.setattr(builtins, "len", lambda _: -1)
    found = module.value()
    monkeypatch.undo()
    assert found == 1
