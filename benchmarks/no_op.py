"""The program of a container that computes nothing: it publishes the result of a template under its request's name.

It runs in the stage image in the place of `ratchet`, with nothing but Python's own library, in some 30 ms. A pipeline
whose name begins with WAITS waits first until the file GO is in the store.
`benchmarks/night200.py` makes the image. Whoever reads the result verifies the digest that is written here.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

TEMPLATES = "/opt/ratchet/templates.json"
"""The results of the template by stage, as the store has them, and what the file of a result is called."""
FILE = "file"
WAITS, GO = "waits-", "go"


def main() -> None:
    """Publish, in one step."""
    request: dict[str, Any] = json.loads(Path(sys.argv[-1]).read_bytes())
    store, name = Path(request["store"].removeprefix("file://")), request["spec"]["name"]
    while name.startswith(WAITS) and not (store / GO).exists():
        time.sleep(0.5)
    templates: dict[str, Any] = json.loads(Path(TEMPLATES).read_bytes())
    document = templates[request["stage"]]
    document |= {name: request[name] for name in ("fingerprint", "parts", "attempt")}
    plain = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    sealed = {"sha256": hashlib.sha256(plain.encode()).hexdigest(), "document": document}
    folder = store.joinpath("published", name, request["stage"], request["fingerprint"])
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"new-{os.getpid()}"
    new.write_text(json.dumps(sealed, indent=1, ensure_ascii=False), encoding="utf-8")
    new.rename(folder / templates[FILE])


if __name__ == "__main__":
    main()
