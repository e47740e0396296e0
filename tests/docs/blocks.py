"""The fenced blocks of a document, and running them as a reader would."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MEASURED = re.compile(r"[+-]?\d+\.\d+")
_OURS = ("RATCHET_", "MLFLOW_", "PYTHONPATH", "PYTHONSAFEPATH")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block. heading: the nearest heading above it. language: the word after the fence."""

    heading: str
    language: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of a document, and the output that the document shows below it; empty where it shows none."""

    heading: str
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
        Block(heading=_heading(text[: found.start()]), language=found[1], text=found[2])
        for found in _FENCE.finditer(text)
    )


def _heading(above: str) -> str:
    return re.findall(r"^#+ (.*)$", above, re.MULTILINE)[-1]


def block(document: str, heading: str, language: str) -> str:
    """The text of the one block of a language below a heading."""
    (found,) = (one.text for one in blocks(document) if (one.heading, one.language) == (heading, language))
    return found


def commands(document: str) -> tuple[Command, ...]:
    """The `sh` blocks, each with the `text` block that follows it."""
    found = blocks(document)
    following = [*found[1:], Block(heading="", language="", text="")]
    return tuple(
        Command(heading=one.heading, text=one.text, shown=after.text if after.language == "text" else "")
        for one, after in zip(found, following, strict=True)
        if one.language == "sh"
    )


def environment() -> dict[str, str]:
    """What a reader's shell has: this environment's programs first, and no setting of Ratchet's or MLflow's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}


def run(command: str, folder: Path) -> Done:
    """Run a command in a folder, exactly as it is written."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(),
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )
    return Done(code=done.returncode, printed=done.stdout)


def python(program: str, folder: Path) -> Done:
    """Run a program in a folder, with the Python of this environment."""
    return run(f"python - <<'END_OF_PROGRAM'\n{program}\nEND_OF_PROGRAM\n", folder)


def shows(shown: str, printed: str) -> bool:
    """Whether a document shows what was printed. `...` stands for anything, and measured numbers may differ.

    Words and whole numbers have to be the same; of a number with a decimal point only that it is there.
    """
    pattern = re.escape(_MEASURED.sub("<measured>", shown.strip()))
    pattern = re.sub(r"(?:\\ )+", r"\\s+", pattern.replace(re.escape("..."), ".*"))
    return re.fullmatch(pattern, _MEASURED.sub("<measured>", printed.strip()), re.DOTALL) is not None
