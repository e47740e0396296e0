"""Checks that the Python files beside a pipeline file define what it names. Reads the files, never runs them."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from ratchet.cli.definitions import Function, defined_names, definition, parse, required, takes
from ratchet.cli.own_imports import import_misfits, not_python
from ratchet.contracts import own_module
from ratchet.contracts.gate import own_metric
from ratchet.contracts.misfits import Misfit, Rule
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.yaml_lines import KeyPath

_FEATURES = "features.py"
_MODEL = "model.py"
_METRIC = "metric.py"
FILES = (_FEATURES, _MODEL, _METRIC)
"""What a person may write beside a pipeline file."""
_Check = Callable[[Path, str, Sequence[ast.stmt]], Iterator[Misfit]]


def rules(folder: Path) -> tuple[Rule, ...]:
    """The rules for a pipeline whose code is in a folder."""

    def model_fits(spec: PipelineSpec) -> Iterator[Misfit]:
        name, separator, made_by = spec.train.model.kind.partition(":")
        if separator:
            file = folder / name
            fits = partial(_model_misfits, grouped=_has(spec, "group"))
            yield from _misfits(file, made_by, ("train", "model", "kind"), fits)

    def derive_fits(spec: PipelineSpec) -> Iterator[Misfit]:
        columns = {name: column for name, column in spec.columns.items() if getattr(column, "make", None) is None}
        derived = [name for name, column in columns.items() if getattr(column, "derived", False)]
        key: KeyPath = ("columns", derived[0], "derived") if derived else ()
        if derived or (folder / _FEATURES).is_file():
            yield from _misfits(folder / _FEATURES, "derive", key, _derive_misfits)

    def metrics_fit(spec: PipelineSpec) -> Iterator[Misfit]:
        weighted = _has(spec, "weight") and spec.train.objective != "ranking"
        for key, metric in _named_metrics(spec):
            if found := own_metric(metric):
                fits = partial(_metric_misfits, weighted=weighted)
                yield from _misfits(folder / found.file, found.function, key, fits)

    return model_fits, derive_fits, metrics_fit


def _has(spec: PipelineSpec, role: str) -> bool:
    return any(getattr(column, "role", None) == role for column in spec.columns.values())


def _named_metrics(spec: PipelineSpec) -> Iterator[tuple[KeyPath, str]]:
    """Each metric that the file names, with its key; of a function that is named twice the first one."""
    found: dict[str, KeyPath] = {}
    if isinstance(spec.evaluate.metric, str):
        found[spec.evaluate.metric] = ("evaluate", "metric")
    for section in ("guards", "floors"):
        for metric in getattr(spec.gate, section):
            found.setdefault(metric, ("gate", section, metric))
    return ((key, metric) for metric, key in found.items())


def _misfits(file: Path, name: str, key: KeyPath, fits: _Check) -> Iterator[Misfit]:
    """The problems of a file that has to define a name."""
    if not file.is_file():
        yield Misfit(key, f"no {file.name} exists beside the pipeline file", remedy=f"add {file.name}")
        return
    try:
        body = parse(file)
    except (SyntaxError, ValueError) as error:
        yield not_python(file, error)
        return
    defined = set(defined_names(body))
    if name not in defined and "*" not in defined:
        yield _undefined(file, name, key, sorted(defined))
    yield from fits(file, name, body)
    yield from import_misfits(file)


def _undefined(file: Path, name: str, key: KeyPath, known: Sequence[str]) -> Misfit:
    near = get_close_matches(name, known, n=1)
    allowed = ", ".join(known) or "nothing, as it is empty"
    remedy = f"define {name} in {file.name}" + (", or correct the name" if key[-1:] in {("kind",), ("metric",)} else "")
    return Misfit(key, f"{file.name} does not define {name}", allowed, next(iter(near), ""), remedy)


def _derive_misfits(file: Path, name: str, body: Sequence[ast.stmt]) -> Iterator[Misfit]:
    found = definition(body, name)
    if found is not None:
        yield from _call_misfits(file, found, "derive(df)", 1)


def _model_misfits(file: Path, name: str, body: Sequence[ast.stmt], *, grouped: bool) -> Iterator[Misfit]:
    found = definition(body, name)
    if isinstance(found, ast.ClassDef):
        yield from _class_misfits(file, found, grouped=grouped)
    elif found is not None:
        yield from _asked_misfits(file, found, own_module.CONSTRUCTOR)
    loss = definition(body, "loss") if file.name == _MODEL else None
    if loss is not None:
        yield from _call_misfits(file, loss, "loss(scores, labels, weights, groups)", 4)


def _metric_misfits(file: Path, name: str, body: Sequence[ast.stmt], *, weighted: bool) -> Iterator[Misfit]:
    found = definition(body, name)
    if found is not None:
        allowed = f"{name}(y, score, group{', weight' if weighted else ''})"
        yield from _call_misfits(file, found, allowed, 4 if weighted else 3)


def _class_misfits(file: Path, found: ast.ClassDef, *, grouped: bool) -> Iterator[Misfit]:
    constructor, forward = definition(found.body, "__init__"), definition(found.body, "forward")
    if constructor is not None:
        yield from _asked_misfits(file, constructor, own_module.CONSTRUCTOR, bound=1)
    if forward is not None:
        yield from _asked_misfits(file, forward, own_module.FORWARD, bound=1)
        yield from _group_misfits(file, forward, grouped=grouped)
    elif [ast.unparse(base).rpartition(".")[2] for base in found.bases] == ["Module"] and not any(
        name == "forward" for name in defined_names(found.body)
    ):
        message = f"the class {found.name} has no method forward"
        yield Misfit((), message, "forward(self, x)", remedy="define it", where=f"{file}:{found.lineno}")


def _asked_misfits(
    file: Path, found: Function | ast.ClassDef, allowed: Mapping[str, str], *, bound: int = 0
) -> Iterator[Misfit]:
    """The problem of a function that asks for what Ratchet does not have."""
    if isinstance(found, ast.ClassDef):
        return
    where, given, names = f"{file}:{found.lineno}", _shown(found), required(found, bound=bound)
    if isinstance(found, ast.AsyncFunctionDef):
        yield Misfit((), f"{given} is async", remedy="remove async", where=where)
    elif not own_module.by_name(names, allowed) and not takes(found, 1, bound=bound):
        wrong, remedy = own_module.refusal(names, allowed)
        yield Misfit((), f"{given} {wrong}", ", ".join(allowed), remedy=remedy, where=where)


def _group_misfits(file: Path, forward: Function | ast.ClassDef, *, grouped: bool) -> Iterator[Misfit]:
    if isinstance(forward, ast.ClassDef) or grouped:
        return
    if asked := own_module.OF_GROUPS.intersection(required(forward, bound=1)):
        message = f"{_shown(forward)} asks for {', '.join(sorted(asked))}, and no column has the role group"
        remedy = "give a column the role group, or take it out of forward"
        yield Misfit((), message, remedy=remedy, where=f"{file}:{forward.lineno}")


def _call_misfits(
    file: Path, found: Function | ast.ClassDef, allowed: str, count: int, *, bound: int = 0
) -> Iterator[Misfit]:
    """The problem of a function that cannot be called as Ratchet calls it."""
    if isinstance(found, ast.ClassDef):
        return
    where = f"{file}:{found.lineno}"
    given = _shown(found)
    if isinstance(found, ast.AsyncFunctionDef):
        yield Misfit((), f"{given} is async", allowed, remedy="remove async", where=where)
    elif not takes(found, count, bound=bound):
        message = f"{given} has the wrong parameters"
        yield Misfit((), message, allowed, remedy=f"define it as {allowed}", where=where)


def _shown(found: Function) -> str:
    return f"{found.name}({ast.unparse(found.args)})"
