"""`python -m tests.stores.make_store NAME`: keeps a small store, made by the `ratchet` of this checkout, as NAME/.

Three nights: a first model after little training, a better one that replaces it, a poisoned day that is refused. A
fourth, with all of its training, is promoted too; it runs on a copy elsewhere, and only what it was measured against is
recorded.

Run it in a clone at a neutral place, such as /tmp/ratchet-NAME: MLflow writes the path of our code into each model.
"""

import json
import lzma
import shutil
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.stores import parcels
from tests.stores.corpus import HERE, Corpus, unpack

PIPELINE = "parcel-delay"
NIGHTS = (
    ("2026-03-04", ("--set", "train.epochs=2", "--set", "train.learning_rate=0.005"), 0),
    ("2026-03-05", ("--set", "train.epochs=2"), 0),
    ("2026-03-06", (), 65),
)
NEXT = "2026-03-07"
DAYS = 8
POISONED = 5
_MTIME = 1_772_323_200  # 2026-03-01; each later file is a second younger, as the order of runs is read from it


def make(made_at: Path) -> Corpus:
    """Run the nights. Raises SystemExit if one does not end as it should."""
    shutil.rmtree(made_at, ignore_errors=True)
    shutil.copytree(HERE / "pipeline", made_at / "pipeline")
    parcels.write(made_at / "data", days=DAYS, poisoned=POISONED)
    corpus = Corpus(root=made_at)
    for day, more, code in NIGHTS:
        done = corpus.run(day, *more)
        if done.returncode != code:
            raise SystemExit(f"{day}: exit code {done.returncode}, not {code}: {done.stderr}")
    return corpus


def pack(corpus: Corpus, archive: Path) -> None:
    """Everything into a tar.xz: sorted names, no owner, times that say only which file is younger."""
    paths = [path for name in ("data", "pipeline", "store") for path in (corpus.root / name).rglob("*")]
    younger = sorted((path.stat().st_mtime_ns, path.as_posix()) for path in paths)
    age = {name: index for index, (_, name) in enumerate(younger)}

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = _MTIME + age[f"{corpus.root}/{info.name}"]
        return info

    with tarfile.open(archive, "w:xz", preset=9 | lzma.PRESET_EXTREME) as packed:
        for path in sorted(paths):
            packed.add(path, path.relative_to(corpus.root).as_posix(), recursive=False, filter=plain)


def expected(corpus: Corpus) -> dict[str, Any]:
    """What any later release has to read from it."""
    rows = json.loads(parcels.rows(parcels.FIRST).drop(columns="late").head(20).to_json(orient="records"))
    rows[0]["country"], rows[1]["weight_kg"] = "ZZ", None
    ledger = [json.loads(text)["document"] for text in corpus.ledger(PIPELINE).values()]
    nights = corpus.nights(PIPELINE)
    fields = ("number", "version", "model_digest", "data_date", "baseline")
    return {
        "made_at": str(corpus.root),
        "pipeline": PIPELINE,
        "nights": nights,
        "runs": corpus.why(PIPELINE),
        "why": {night["run_id"]: corpus.why(f"{PIPELINE}/{night['run_id']}") for night in nights},
        "verdicts": {night["run_id"]: _verdict(corpus, night) for night in nights},
        "ledger": [{name: record[name] for name in fields} for record in ledger],
        "rows": rows,
        "scores": {each["version"]: corpus.score(f"models:/{PIPELINE}/{each['version']}", rows) for each in ledger},
    }


def _verdict(corpus: Corpus, night: dict[str, Any]) -> dict[str, Any] | None:
    if night["standing"] == "failed":
        return None
    judged = corpus.summary(PIPELINE, night["run_id"], "evaluate")
    return {name: judged[name] for name in ("verdict", "reason", "baseline_kind", "candidate_metrics")}


def go_on(archive: Path, made_at: str) -> dict[str, Any]:
    """The night after, on a copy elsewhere: what its candidate was measured against."""
    with TemporaryDirectory() as root:
        corpus = unpack(archive, Path(root), made_at=made_at)
        done = corpus.run(NEXT)
        if done.returncode:
            raise SystemExit(f"{NEXT}: exit code {done.returncode}: {done.stderr}")
        newest = corpus.nights(PIPELINE)[-1]
        judged = corpus.summary(PIPELINE, newest["run_id"], "evaluate")
    if not newest["promoted"]:
        raise SystemExit(f"{NEXT}: not promoted, so no test sees production move: {newest['cause']}")
    kept = ("baseline_kind", "baseline", "baseline_metrics", "holdout", "rows")
    return {"date": NEXT, "judged": {name: judged[name] for name in kept}}


def main() -> None:
    """Make, pack, and write down what it says."""
    (name,) = sys.argv[1:]
    corpus = make(Path(f"/tmp/ratchet-store-{name}"))  # neutral, since a store remembers its place
    archive = corpus.root / "store.tar.xz"
    pack(corpus, archive)
    said = {**expected(corpus), "next": go_on(archive, str(corpus.root))}
    target = HERE / name
    target.mkdir(exist_ok=True)
    shutil.copyfile(archive, target / archive.name)
    (target / "expected.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
