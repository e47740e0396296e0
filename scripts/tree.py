"""Write the tree at the end of README.md: one line per file, taken from the file's own first line of description."""

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START = "## The house\n"
_WIDTH = 116
_SAYS = {
    ".ci/run": "what CI runs: make test and make test-stack, in a fresh clone",
    ".gitignore": "what is made, not written",
    "Makefile": "demo, test, check, bench, serve, stop; up, down, backup and restore of the team set-up; lock, clean",
    "pyproject.toml": "the tools' settings: lint, types, layers, tests, coverage",
    "requirements.in": "what Ratchet runs on",
    "requirements.txt": "the same, every version pinned",
    "requirements-dev.in": "what tests and checks need on top",
    "requirements-dev.txt": "the same, pinned",
    "docker/stage.in": "what a stage's image needs",
    "docker/stage.txt": "the same, at the versions of requirements.txt",
    "docker/airflow.txt": "the same, pinned",
    "docker-compose.yaml": "the team set-up",
    "docker/compose-hosts.yaml": "laid over docker-compose.yaml where other hosts take part",
    "docker/compose-worker.yaml": "laid over it on a host that only works",
    "docker/ratchet": "the console script inside the images",
    "dags/.airflowignore": "what Airflow does not take for DAG files",
    "plugins/.airflowignore": "what Airflow does not load as a plugin: the library below",
    "tasks/report/report.css": "the report's looks",
    "tasks/report/report.html": "the report's template",
    "tasks/validate/validation.html": "the validation page's template",
    "docs/report.png": "what a report looks like",
}


def tree() -> str:
    """The tree as a Markdown code block. Tests mirror the folders and are one line."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]  # what is to be committed, too
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    lines: list[str] = []
    folder = "."
    for name in sorted(listed, key=lambda name: (name.rpartition("/")[0], name)):
        path = ROOT / name
        if name.startswith("tests/") or path.name in {"__init__.py", "README.md"} or not path.is_file():
            continue
        if (parent := str(Path(name).parent)) != folder:
            folder = parent
            lines.append(f"{parent}/")
        indent = "  " if "/" in name else ""
        lines.append(f"{indent}{path.name:<24} {_line(name, path)}".rstrip())
    lines.append(
        "tests/                     a folder for each of the above; faults/ by number; airflow/ and real/ whole"
    )
    return "```\n" + "\n".join(lines) + "\n```\n"


def _line(name: str, path: Path) -> str:
    if name in _SAYS:
        return _SAYS[name]
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        said = ast.get_docstring(ast.parse(text)) or ""
    elif path.suffix == ".yaml":
        said = next((line.partition(": ")[2] for line in text.splitlines() if line.startswith("description: ")), "")
    elif path.suffix == ".md":
        said = text.splitlines()[0].lstrip("# 0123456789.")
    else:
        said = next((line.lstrip("# ") for line in text.splitlines() if line.startswith("# ")), "")
    first = said.split("\n\n")[0].replace("\n", " ")
    sentence = first.partition(". ")[0].rstrip(".")
    return sentence if len(sentence) <= _WIDTH else sentence[:_WIDTH].rsplit(" ", 1)[0] + " ..."


def written() -> str:
    """README.md as it should be."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition(START)[0] + START + "\n" + tree()


if __name__ == "__main__":
    (ROOT / "README.md").write_text(written(), encoding="utf-8")
