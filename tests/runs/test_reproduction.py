"""`ratchet reproduce`: both examples from their records alone, and what it names where that cannot be done."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.version_record import VersionRecord
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet.store.sealed import seal
from ratchet.store.version_records import read_record
from tests.runs.nights import CallResult, ratchet, run, sample

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("reproduction")]
EXAMPLES = ("search-ranking", "payments-fraud")
NOBODY = {"RATCHET_DATA": "/nowhere"}
"""The settings of a process that cannot see the source."""


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a registered version of each example, after its source and this machine's cache were deleted."""
    folder = tmp_path_factory.mktemp("reproduction")
    data, store, cache = sample(folder / "data"), folder / "store", folder / "cache"
    for example in EXAMPLES:
        ended = run(example, str(data), str(store), environment={"RATCHET_CACHE": str(cache)})
        assert ended.code == 0, ended.err
        assert ended.json["model"] == {"name": example, "version": "1"}
    shutil.rmtree(data)
    shutil.rmtree(cache, ignore_errors=True)
    return store


@pytest.fixture
def store(nights: Path, tmp_path: Path) -> Store:
    """A copy of it."""
    shutil.copytree(nights, tmp_path / "store", symlinks=True, copy_function=os.link)
    return open_store(str(tmp_path / "store"))


def reproduce(store: Store, example: str = "search-ranking", *more: str) -> CallResult:
    asked = ("reproduce", f"{example}@1", "--store", store.uri, "--runner", "process", *more)
    return ratchet(*asked, environment=NOBODY)


def rewrite(store: Store, change: Callable[[VersionRecord], dict[str, Any]]) -> None:
    """Put another record in the place of that of the version: one that was written in other circumstances."""
    record = read_record(store, "search-ranking", "1")
    key = paths.version_record(record.model, record.version, record.digest)
    entry = store.head(key)
    assert entry
    assert store.replace(key, seal(record.model_copy(update=change(record))), expected=entry.etag)


def contents(store: Store) -> dict[str, str]:
    """The etag of each file of the store but those of the rebuild's own run."""
    return {entry.key: entry.etag for entry in store.list() if "/reproduction-" not in entry.key}


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_bit_equal_from_its_record_alone_and_nothing_else_is_touched(store: Store, example: str) -> None:
    for part in ("features", paths.day_part("features"), "train", "validate", "ingest"):
        for entry in list(store.list(f"published/{example}/{part}")):
            store.delete(entry.key)
    for entry in list(store.list(f"checkpoints/{example}")):
        store.delete(entry.key)
    before = contents(store)
    ended = reproduce(store, example, "--json")
    assert ended.code == 0, ended.out + ended.err
    said = ended.json
    assert (said["likeness"], said["gone"], said["differs"]) == ("bit-equal", [], [])
    assert (said["weights_differ"], said["scores_differ"], said["metric_differs"]) == (0, 0, 0)
    assert "train     done" in ended.err
    leases = {key for key in contents(store) if key.startswith("leases/")}
    assert {key: etag for key, etag in contents(store).items() if key not in leases} == {
        key: etag for key, etag in before.items() if key not in leases
    }


def test_it_names_each_ingredient_that_is_gone_or_damaged(store: Store) -> None:
    record = read_record(store, "search-ranking", "1")
    first, second, *_ = record.snapshot.days
    store.delete(first.file.key)
    store.delete(record.bundle.key)
    entry = store.head(second.file.key)
    assert entry
    assert store.replace(second.file.key, store.read(second.file.key)[:-1] + b"?", expected=entry.etag)
    ended = reproduce(store)
    assert ended.code == 66
    assert ended.out.splitlines() == [
        "not rebuilt: an ingredient of search-ranking version 1 is gone",
        f"gone: the pipeline's folder ({record.bundle.key}) is gone",
        f"gone: the snapshot's rows of {first.day} ({first.file.key}) is gone",
        f"gone: the snapshot's rows of {second.day} ({second.file.key}) is damaged",
    ]
    assert "train" not in ended.err


def test_a_gpu_that_this_machine_does_not_have_is_an_ingredient(store: Store) -> None:
    rewrite(store, lambda record: {"spec": _with_training(record, gpus=1)})
    ended = reproduce(store)
    assert (ended.code, "gone: a device: " in ended.out) == (66, True)


def test_a_training_that_parts_a_little_is_within_tolerance_and_the_step_is_named(store: Store) -> None:
    """A rate that is a millionth off stands for what another device rounds in another way; its threads differ too.

    How far that takes single weights apart in 165 steps depends on the processor: 1.1 was seen.
    """

    def apart(record: VersionRecord) -> dict[str, Any]:
        environment = record.stages["train"].environment
        assert environment is not None
        assert environment.threads == 2
        older = environment.model_copy(update={"libraries": {**environment.libraries, "torch": "2.12.1+cpu"}})
        train = record.stages["train"].model_copy(update={"environment": older, "parts": {"code.tasks.train.old": "0"}})
        rate = record.spec.train.learning_rate * (1 + 1e-6)
        spec = _with_training(record.model_copy(update={"spec": _with(record, "train", learning_rate=rate)}), cpus=1.0)
        trained = record.trained.model_copy(update={"segments": ()})  # as a release of before that had none
        return {"spec": spec, "stages": {**record.stages, "train": train}, "trained": trained}

    rewrite(store, apart)
    ended = reproduce(store, "search-ranking", "--json", "--tolerance", "4")
    said = ended.json
    assert (ended.code, said["likeness"], said["arrays_differ"]) == (1, "within-tolerance", "")
    assert 0 < said["weights_differ"] <= 4
    assert (said["training"], 1 <= said["first_step"] <= said["steps"]) == ("train", True)
    assert any("torch is 2.13.0+cpu here and was 2.12.1+cpu then" in line for line in said["differs"])
    assert any(line.startswith("train: threads is 1 here and was 2 then") for line in said["differs"])
    assert any(line.startswith("our code of train differs in") for line in said["differs"])


def test_another_seed_diverges_at_the_first_step_and_what_was_rebuilt_is_kept(store: Store) -> None:
    rewrite(store, lambda record: {"spec": _with(record, "train", seed=7)})
    before = contents(store)
    ended = reproduce(store)
    assert ended.code == 3
    assert ended.out.startswith("diverged: search-ranking version 1: weights differ by ")
    assert "train diverged at step 1 of " in ended.out
    assert any(key.startswith("published/search-ranking/train/") for key in {*contents(store)} - {*before})


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("search-ranking@9", "has no record of search-ranking version 9; to do: name one of its recorded versions: 1"),
        ("search-ranking", "'search-ranking' is not MODEL@VERSION; to do: write it like search-ranking@3"),
        ("nobody@1", "has no record of nobody version 1; to do: check --store and the name of the model"),
    ],
)
def test_a_version_that_is_not_recorded_is_named_with_those_that_are(nights: Path, asked: str, said: str) -> None:
    ended = ratchet("reproduce", asked, "--store", str(nights), "--runner", "process")
    assert ended.code == 64
    assert said in ended.err


def _with(record: VersionRecord, section: str, **changes: Any) -> Any:
    changed = getattr(record.spec, section).model_copy(update=changes)
    return record.spec.model_copy(update={section: changed})


def _with_training(record: VersionRecord, **changes: Any) -> Any:
    resources = record.spec.resources
    return record.spec.model_copy(
        update={"resources": {**resources, "train": resources["train"].model_copy(update=changes)}}
    )
