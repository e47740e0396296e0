"""Scoring code of another day: a package that is made as any other, of modules that differ."""

from pathlib import Path

from ratchet.contracts import bundle
from ratchet.model.package import pack, unpack


def other_scoring(folder: Path) -> bytes:
    """Scoring code that cuts numbers elsewhere."""
    package = unpack(pack(), folder / "place")
    preprocess = package / "model" / "preprocess.py"
    preprocess.chmod(0o644)
    text = preprocess.read_text()
    assert "_FAR = 10.0\n" in text
    preprocess.write_text(text.replace("_FAR = 10.0\n", "_FAR = 0.75\n"))
    return bundle.pack(package)
