"""A pipeline's modules find each other by plain names, and nobody else does."""

import pickle
import sys
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.runtime.user_code import blame, load_module

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
