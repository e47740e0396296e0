"""The fenced blocks of a document, and running them as a reader would."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_FENCE = re.compile(r"^```(\w*)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MEASURED = re.compile(r"[+-]?\d+\.\d+")
_OURS = ("RATCHET_", "MLFLOW_", "PYTHONPATH", "PYTHONSAFEPATH")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block. heading: the nearest heading above it. language, file: the words after the fence, if any."""

    heading: str
    language: str
    file: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command or a program of a document, and the output that is shown below it; empty where none is shown."""

    heading: str
    language: str
    text: str
    shown: str


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a command ended. printed: standard output and standard error together, as in a terminal."""

    code: int
    printed: str


def blocks(document: str) -> tuple[Block, ...]:
    """All fenced blocks of a file in docs/, in order."""
    text = (DOCS / document).read_text(encoding="utf-8")
    return tuple(
        Block(heading=_heading(text[: found.start()]), language=found[1], file=found[2] or "", text=found[3])
        for found in _FENCE.finditer(text)
    )


def _heading(above: str) -> str:
    prose = _FENCE.sub("", above)  # a comment in a program is no heading
    return re.findall(r"^#+ (.*)$", prose, re.MULTILINE)[-1]


def files(document: str) -> dict[str, str]:
    """The blocks that name a file, by that name."""
    return {one.file: one.text for one in blocks(document) if one.file}


def commands(document: str, where: str = "") -> tuple[Command, ...]:
    """The `sh` and `python` blocks that name no file, each with the `text` block that follows it.

    where: the word behind `sh` instead, in a document whose commands are typed in several places.
    """
    found = blocks(document)
    following = [*found[1:], Block(heading="", language="", file="", text="")]
    return tuple(
        Command(
            heading=one.heading,
            language=one.language,
            text=one.text,
            shown=after.text if after.language == "text" else "",
        )
        for one, after in zip(found, following, strict=True)
        if one.language in {"sh", "python"} and one.file == where
    )


def environment() -> dict[str, str]:
    """What a reader's shell has: this environment's programs first, and no setting of Ratchet's or MLflow's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}


def run(command: Command, folder: Path) -> Done:
    """Run a command in a folder, exactly as it is written; a program by the Python of this environment."""
    return _run("python" if command.language == "python" else "bash", command.text, folder)


def python(program: str, folder: Path) -> Done:
    """Run a program that is no part of a document."""
    return _run("python", program, folder)


def shell(command: str, folder: Path) -> Done:
    """Run a command that is no part of a document."""
    return _run("bash", command, folder)


def _run(interpreter: str, text: str, folder: Path) -> Done:
    done = subprocess.run(
        [interpreter, "-c", text],
        cwd=folder,
        env=environment(),
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    return Done(code=done.returncode, printed=done.stdout)


def shows(shown: str, printed: str) -> bool:
    """Whether a document shows what was printed. `...` matches anything, and measured numbers may differ.

    Words and whole numbers have to be the same; of a number with a decimal point only that it is there. A line that is
    `...` alone is any number of lines, or none.
    """
    pattern = "".join(_pattern(line) for line in _comparable(shown).split("\n"))
    return re.fullmatch(pattern, f"{_comparable(printed)}\n", re.DOTALL) is not None


def _pattern(line: str) -> str:
    return r"(?:.*\n)?" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + r"\n"


def _comparable(text: str) -> str:
    lines = (re.sub(r" +", " ", line).strip() for line in text.strip().splitlines())
    return _MEASURED.sub("<measured>", "\n".join(lines))
