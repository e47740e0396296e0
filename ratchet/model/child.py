"""The processes of models, as a program: each loads one model by the code that came with it, and answers questions.

It is started by `ratchet.model.zygote`. It loads libraries once, and none of our code or of a pipeline's; then it forks
for each model. Like `pyfunc`, by which a service loads a registered version, the fork imports nothing of ours but the
package that came with the model. Questions and answers are lines of JSON; rows are files of Arrow, scores files of
NumPy; nothing is unpickled.

A change here violates the promise of the project when a model is scored by other code than the one that came with it.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

_PDEATHSIG = 1  # prctl(2): the signal that a process gets when its parent has ended
_TRIES = 5
_LARGEST = 65_536


def main(number: int, parent: int, libraries: list[str]) -> None:
    """Fork for each model that is asked for, until the socket is closed. parent: the process that asks.

    libraries: to load first. None of them may start threads when it is imported: a fork has one thread.
    """
    _end_with(parent)
    for notice in (signal.SIGTERM, signal.SIGINT):  # who asks decides when these processes end
        signal.signal(notice, signal.SIG_IGN)
    for library in libraries:
        with contextlib.suppress(ImportError):  # the package says what is missing
            import_module(library)
    with socket.socket(fileno=number) as orders:
        while True:
            data, files, *_ = socket.recv_fds(orders, _LARGEST, 1)
            if not data:
                return
            order = json.loads(data)
            if "wait" in order:
                found = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
            else:
                found = _fork(orders, files[0], Path(order["package"]), Path(order["model"]), order["folder"])
            orders.sendall(json.dumps(found).encode())


def _fork(orders: socket.socket, link: int, package: Path, model: Path, folder: str) -> int:
    """Start the process of a model; its number."""
    zygote = os.getpid()
    if number := os.fork():
        os.close(link)
        return number
    try:
        orders.close()
        _end_with(zygote)
        os.chdir(folder)
        _serve(link, package, model)
    finally:
        os._exit(0)  # the fork never goes back to wait for orders


def _serve(number: int, package: Path, model: Path) -> None:
    """Load the model and answer until the socket is closed."""
    with socket.socket(fileno=number) as link, link.makefile("r") as questions:
        answer = _Answers(package.name)
        try:
            loaded = _Registered(model) if package == model else _scoring(package).load(model)
        except BaseException as error:  # noqa: BLE001 - own code may fail in any way, also by sys.exit, and is named
            _send(link, answer.of(error))
            return
        _send(link, {"digest": loaded.digest, "memory": _memory()})
        for line in questions:
            _send(link, answer.to(loaded, json.loads(line)))


class _Registered:
    """A model as register uploads it, loaded as a service loads a version: by MLflow alone."""

    def __init__(self, folder: Path) -> None:
        from mlflow import pyfunc

        self._model = pyfunc.load_model(str(folder))
        self.digest = str(self._model.metadata.metadata["ratchet.model_digest"])

    def score(self, rows: Any) -> Any:
        """Scores of raw rows."""
        return self._model.predict(rows)


class _Answers:
    """Answers to questions, and errors as data."""

    def __init__(self, package: str) -> None:
        self._errors = f"{package}.contracts.errors"

    def to(self, model: Any, question: dict[str, Any]) -> dict[str, Any]:
        """Answer one question."""
        try:
            found = _QUESTIONS[question.pop("do")](model, **question)
        except BaseException as error:  # noqa: BLE001 - the same
            return self.of(error)
        return {**found, "memory": _memory()}

    def of(self, error: BaseException) -> dict[str, Any]:
        """An error and what it was raised from, the outermost first."""
        return {"error": [self._plain(cause) for cause in _causes(error)]}

    def _plain(self, error: BaseException) -> dict[str, Any]:
        kinds = type(error).__mro__
        ours = [kind.__name__ for kind in kinds if kind.__module__ == self._errors]
        return {
            "ours": ours,
            "kinds": [kind.__name__ for kind in kinds],
            "message": str(getattr(error, "cause", error) if ours else error),
            "remedy": getattr(error, "remedy", None) if ours else None,
            "errno": error.errno if isinstance(error, OSError) else None,
            "place": None if isinstance(error, Exception) else _place(error),
        }


def _place(error: BaseException) -> str:
    """`file:line` of what raised an error."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else "a model's code"


def _score(model: Any, rows: str, out: str) -> dict[str, Any]:
    """All rows at once."""
    _save(out, model.score(_frame(rows)))
    return {}


def _each(model: Any, rows: str, out: str, bounds: list[int], rounds: int) -> dict[str, Any]:
    """Some rows after another: those between two bounds at once. milliseconds: of each ask, by round."""
    frame = _frame(rows)
    pieces = [frame.iloc[begin:end] for begin, end in pairwise(bounds)]
    found: list[Any] = []
    taken: list[list[float]] = []
    for _ in range(rounds):
        found, times = [], []
        for piece in pieces:
            start = time.perf_counter()
            found.append(model.score(piece))
            times.append(1000 * (time.perf_counter() - start))
        taken.append(times)
    import numpy as np

    _save(out, np.concatenate(found))
    return {"milliseconds": taken}


def _latency(model: Any, rows: str) -> dict[str, Any]:
    """Milliseconds in which rows are scored at once, the best of a few tries."""
    frame = _frame(rows)
    taken = []
    for _ in range(_TRIES):
        start = time.perf_counter()
        model.score(frame)
        taken.append(1000 * (time.perf_counter() - start))
    return {"milliseconds": min(taken)}


def _derive(model: Any, rows: str, out: str, columns: list[str]) -> dict[str, Any]:
    """The columns that the model's own code makes of rows."""
    import pyarrow as pa

    table = pa.Table.from_pandas(model.derive(_frame(rows))[columns], preserve_index=False)
    with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return {}


_QUESTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "score": _score,
    "each": _each,
    "latency": _latency,
    "derive": _derive,
}


def _frame(path: str) -> Any:
    """Rows as a data frame, with the types that its metadata has."""
    import pyarrow as pa

    with pa.OSFile(path) as file, pa.ipc.open_file(file) as reader:
        return reader.read_all().to_pandas()


def _save(path: str, scores: Any) -> None:
    import numpy as np

    with Path(path).open("wb") as file:
        np.save(file, np.asarray(scores, np.float64), allow_pickle=False)


def _scoring(package: Path) -> Any:
    """The package's module that scores, under the package's own name."""
    spec = ModuleSpec(package.name, None, is_package=True)
    spec.submodule_search_locations = [str(package)]
    sys.modules[package.name] = module_from_spec(spec)
    return import_module(f"{package.name}.model.scoring")


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _send(link: socket.socket, answer: dict[str, Any]) -> None:
    link.sendall(json.dumps(answer).encode() + b"\n")


def _memory() -> dict[str, int]:
    """Bytes of main memory that this process holds now, and held at most; without Linux's /proc the most for both."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return {"now": most, "most": most}
    values = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return {name: 1024 * int(values[key][0]) for name, key in (("now", "VmRSS"), ("most", "VmHWM"))}


def _end_with(parent: int) -> None:
    """End when the parent ends, also one that is killed while this process computes."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
