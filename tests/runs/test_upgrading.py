"""A new release in the middle of a run: the run goes on with its own code, or is planned again; it never fails."""

import json
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import OtherCode, Unavailable
from ratchet.contracts.fingerprint import digest, digest_of
from ratchet.contracts.loading import load
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import Stage
from ratchet.runners import process
from ratchet.runners.docker import DockerRunner
from ratchet.runners.process import ProcessRunner
from ratchet.runs.code_of_plan import code_of, installed_code
from ratchet.runs.events import Event
from ratchet.runs.history import plan_of
from ratchet.runs.local_run import attempt_stage, run_stages
from ratchet.runs.planning import make_plan
from ratchet.runs.requests import compose
from ratchet.runs.stage_record import StageRecord
from ratchet.runs.upgrading import settle_here
from ratchet.runs.work import Work
from ratchet.runtime import code
from ratchet.runtime.release import stage_code, stage_libraries
from ratchet.store.memory import MemoryStore
from ratchet.store.opening import open_store
from tests.runs.recorded import keep, keep_plan
from tests.runs.test_boosted_night import DAY, PIPELINE, day_rows
from tests.runs.test_requests import OUTCOMES, plan

ROOT = Path(__file__).resolve().parents[2]
MODULE = "ratchet/contracts/result.py"
"""Every stage needs it."""
Upgrade = Callable[[], None]


@pytest.fixture
def upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Upgrade:
    """A copy of the code, which stages run from here, and what installs the next release of it."""
    tree = tmp_path / "tree"
    for package in ("ratchet", "tasks"):
        shutil.copytree(ROOT / package, tree / package)
    for module in (code, process):
        monkeypatch.setattr(module, "ROOT", tree)

    def install() -> None:
        with (tree / MODULE).open("a", encoding="utf-8") as file:
            file.write("# the next release\n")

    return install


def planned(folder: Path, image: str | None = None) -> RunPlan:
    for back in range(5):
        day = DAY - timedelta(days=back)
        (folder / "data" / f"date={day}").mkdir(parents=True)
        day_rows(day, 300).to_parquet(folder / "data" / f"date={day}" / "rows.parquet")
    (folder / "boosted").mkdir()
    written = PIPELINE.format(data=folder / "data").replace("refit: true, ", "")
    (folder / "boosted" / "pipeline.yaml").write_text(written, encoding="utf-8")
    spec = load(folder / "boosted")
    uri = (folder / "store").as_uri()
    return make_plan(
        folder=folder / "boosted", spec=spec, data_date=DAY, run_id="r", kind="local", store_uri=uri, image=image
    )


def stored(made: RunPlan) -> RunPlan:
    found = plan_of(open_store(made.store), made.spec.name, made.run_id)
    assert found is not None
    return found


@pytest.mark.heavy
def test_a_release_in_the_middle_of_each_stage_lets_the_rest_of_the_run_be_planned_again(
    tmp_path: Path, upgrade: Upgrade
) -> None:
    made, seen, begun = planned(tmp_path), [], set()
    assert made.code == installed_code(None)

    def on_event(stage: Stage, event: Event) -> None:
        seen.append((stage, event))
        if stage not in begun and event.name not in {"attempt", "replanned"}:
            begun.add(stage)
            upgrade()

    run = run_stages(made, ProcessRunner(), on_stage=lambda *_: None, on_event=on_event)
    assert run.error is None
    assert {outcome.state for outcome in run.outcomes.values()} == {"done"}
    assert begun == set(made.spec.sequence)
    again = stored(made).upgrades
    assert [one.stage for one in again] == list(made.spec.sequence[1:])
    assert {one.because for one in again} == {"the code that is installed here is another one"}
    assert [event.message for _, event in seen if event.name == "replanned"] == [
        f"upgrade: {one.line}" for one in again
    ]
    codes = {result.parts["code.ratchet.contracts.result"] for o in run.outcomes.values() if (result := o.result)}
    assert len(codes) == len(made.spec.sequence)
    assert run.report is not None
    page = Path(run.report).read_text(encoding="utf-8")
    assert "planned again from train on" in page
    assert again[-1].after == f"code {digest_of(stored(made).code)[:12]}"


@pytest.fixture
def image_of(stage_image: str) -> Iterator[Callable[[str], str]]:
    """Builds the stage image of a release from the present one; its digest. They are removed at the end."""
    built: list[str] = []

    def build(lines: str) -> str:
        tag = f"ratchet-stage:test-{uuid.uuid4().hex[:12]}"
        text = f"FROM {stage_image}\n{lines}\nLABEL ratchet.test={tag}\n"
        subprocess.run(
            ["docker", "build", "-q", "-t", tag, "-"], input=text, text=True, check=True, capture_output=True
        )
        built.append(tag)
        return tag

    yield build
    for tag in built:
        subprocess.run(["docker", "rmi", tag], check=False, capture_output=True)


@pytest.mark.heavy
def test_a_run_keeps_its_image_after_an_upgrade_until_the_image_is_gone(
    tmp_path: Path, upgrade: Upgrade, image_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"/opt/ratchet/lib/python3.11/site-packages/{MODULE}"
    old = image_of("")
    new = image_of(f"USER root\nRUN echo '# the next release' >> {module}\nUSER 10001:10001")
    runner, events = DockerRunner(), []
    monkeypatch.setenv("RATCHET_STAGE_IMAGE", old)
    made = planned(tmp_path, runner.image_id(old))
    run = partial(attempt_stage, made, runner=runner, on_event=events.append)
    assert run("ingest", name=uuid.uuid4().hex).state == "done"
    upgrade()
    monkeypatch.setenv("RATCHET_STAGE_IMAGE", new)
    kept = run("validate", name=uuid.uuid4().hex).result
    assert kept is not None
    assert kept.parts["code.ratchet.contracts.result"] != stage_code("validate")["code.ratchet.contracts.result"]
    assert stored(made).upgrades == ()
    subprocess.run(["docker", "rmi", old], check=True, capture_output=True)
    again = run("features", name=uuid.uuid4().hex).result
    assert again is not None
    assert again.parts["code.ratchet.contracts.result"] == stage_code("features")["code.ratchet.contracts.result"]
    now = stored(made)
    assert now.pins.image == runner.image_id(new)
    assert f"the image {made.pins.image[7:19]} of the plan is gone" in now.upgrades[0].line
    monkeypatch.setenv("RATCHET_STAGE_IMAGE", "ratchet-stage:gone")
    subprocess.run(["docker", "rmi", new], check=True, capture_output=True)
    with pytest.raises(Unavailable, match=r"is gone, and image ratchet-stage:gone is not in the engine"):
        run("train", name=uuid.uuid4().hex)


def of_release(store: MemoryStore, **changes: Any) -> RunPlan:
    """A stored plan of the release that is installed, with the outcomes of the stages before its training."""
    made = plan(code=installed_code(store), **changes)
    keep_plan(store, made)
    keep(store, made, *(OUTCOMES[stage] for stage in ("ingest", "validate", "features")))
    found = plan_of(store, made.spec.name, made.run_id)
    assert found is not None
    return found


def test_a_stage_has_the_fingerprint_that_it_had_before_the_upgrade(upgrade: Upgrade) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    made = of_release(store)
    before = compose(store, made, "train", OUTCOMES, "a")
    key = paths.plan(made.spec.name, made.run_id)
    entry, written = store.head(key), json.loads(store.read(key))
    del written["spec"]["train"]["weight_decay"], written["spec"]["columns"]["x"]["transform"]
    assert entry is not None
    store.replace(key, json.dumps(written).encode(), expected=entry.etag)
    upgrade()
    older = plan_of(store, made.spec.name, made.run_id)
    assert older is not None
    assert code_of(store, older, "train") != stage_code("train")
    after = compose(store, older, "train", OUTCOMES, "a")
    gone = set(before.parts) - set(after.parts)
    assert gone == {"config.train.weight_decay", "config.columns.x.transform"}
    assert after.parts == {name: value for name, value in before.parts.items() if name not in gone}
    assert compose(store, made, "train", OUTCOMES, "a").fingerprint == before.fingerprint


@pytest.mark.parametrize(("cleared", "other_code"), [(False, False), (True, False), (False, True)])
def test_a_failed_task_that_is_cleared_takes_what_is_installed_and_a_retry_keeps_the_plan(
    upgrade: Upgrade, *, cleared: bool, other_code: bool
) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    image = plan().pins.model_copy(update={"image": digest(b"an image"), "libraries": stage_libraries()})
    made = of_release(store, pins=image)
    keep(store, made, Outcome(stage="train", state="failed", because="a bug", other_code=other_code))
    upgrade()
    events: list[Event] = []
    settled = settle_here(store, made, "train", "a", ProcessRunner(), on_event=events.append, cleared=lambda: cleared)
    assert isinstance(settled, Work)
    ours = (
        settled.request.parts["code.ratchet.contracts.result"] == stage_code("train")["code.ratchet.contracts.result"]
    )
    because = (
        "the task was cleared after a failure" if cleared else "the image of the plan has other code than the plan"
    )
    assert [one.because for one in settled.plan.upgrades] == ([because] if cleared or other_code else [])
    assert ours == (cleared or other_code) == bool(events)


def test_a_failure_after_an_upgrade_says_that_the_code_has_changed(upgrade: Upgrade) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    made = of_release(store)
    upgrade()
    assert isinstance(settle_here(store, made, "train", "a", ProcessRunner(), on_event=print), Work)
    said = r"^the disk is full \(the run was planned again from train on, as the code that is installed here is another"
    with pytest.raises(Unavailable, match=said), StageRecord(store, made, "train"):
        raise Unavailable("the disk is full")


def test_a_plan_whose_code_is_gone_is_planned_again(upgrade: Upgrade) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    made = of_release(store, pins=plan().pins.model_copy(update={"image": digest(b"an image")}))
    upgrade()
    store.delete(paths.release(digest_of(made.code)))
    with pytest.raises(OtherCode, match="is gone or damaged"):
        code_of(store, made, "train")
    settled = settle_here(store, made, "train", "a", ProcessRunner(), on_event=print)
    assert isinstance(settled, Work)
    assert "is gone or damaged" in settled.plan.upgrades[0].because
