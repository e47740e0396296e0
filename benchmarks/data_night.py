"""Nights of ingest and validate alone, in this process: what a pipeline says of the rows of a day."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from ratchet.contracts import bundle, dates, paths, summaries
from ratchet.contracts.day_record import DayRecord, DayStates
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.fingerprint import digest, fingerprint
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import Input, Pins, Promotion, StageRequest
from ratchet.contracts.result import Artifact, PublishedResult
from ratchet.contracts.stages import Stage, stage_module
from ratchet.contracts.summaries import Check, Validation
from ratchet.runtime.context import StageContext
from ratchet.runtime.logs import StageLog
from ratchet.runtime.release import stage_libraries
from ratchet.runtime.sources import list_days
from ratchet.store.opening import open_store


@dataclass(frozen=True, slots=True)
class Night:
    """What a night said: an error in words, and its checks of the data date, if it came to them."""

    error: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that refuse, or warn of, the data date."""
        return tuple(check for check in self.checks if not check.passed)


@dataclass(kw_only=True)
class DataNights:
    """A pipeline whose nights are played. folder: for its store. source: `{date}` stands for a day in its address."""

    folder: Path
    document: Mapping[str, Any]
    refused: list[DayRecord] = field(default_factory=list)
    _number: int = 0

    def __post_init__(self) -> None:
        self.spec = PipelineSpec.model_validate(self.document)
        self._store = open_store((self.folder / "store").as_uri())
        self._store.prepare()
        empty = self.folder / "pipeline"
        empty.mkdir(parents=True, exist_ok=True)
        packed = bundle.pack(empty)
        self._bundle = Artifact(key=paths.bundle(digest(packed)), sha256=digest(packed), bytes=len(packed))
        self._store.create(self._bundle.key, packed)
        image = f"sha256:{digest(b'none')}"
        self._pins = Pins(commit="c0ffee", image=image, python="3.11", libraries=stage_libraries())

    def play(self, day: date, *, records: bool = False) -> Night:
        """Ingest and validate the window of a day. records: whether later nights leave it out if it is refused."""
        self._number += 1
        try:
            ingested = self._run("ingest", day, {})
        except RatchetError as error:
            return Night(str(error), ())
        try:
            validated = self._run("validate", day, {"ingest": ingested})
        except RatchetError as error:
            if records:
                self._refuse(day, ingested)
            key = paths.kept(self.spec.name, self._run_id, "validate", paths.CHECKS)
            return Night(str(error), self._of(day, Validation.model_validate_json(self._store.read(key))))
        return Night("", self._of(day, summaries.validation(validated.result)))

    @property
    def _run_id(self) -> str:
        return f"run-{self._number}"

    def _of(self, day: date, found: Validation) -> tuple[Check, ...]:
        return tuple(check for check in found.checks if check.day == day)

    def _refuse(self, day: date, ingested: PublishedResult) -> None:
        (part,) = (part for part in summaries.snapshot(ingested.result).days if part.day == day)
        self.refused.append(
            DayRecord(
                day=day,
                action="refuse",
                source=part.source,
                reason="benchmark",
                run_id=self._run_id,
                recorded=datetime.now(UTC),
            )
        )

    def _run(self, stage: Stage, day: date, inputs: Mapping[Stage, PublishedResult]) -> PublishedResult:
        window = dates.window(day, self.spec.source.window_days)
        root, source = list_days(self.spec.source, window) if stage == "ingest" else ("/", ())
        parts = {"stage": stage, "run": str(self._number)}
        request = StageRequest(
            stage=stage,
            run_id=self._run_id,
            attempt=f"attempt-{self._number}",
            spec=self.spec,
            bundle=self._bundle,
            data_date=day,
            source_root=root,
            source=source,
            inputs={name: Input(manifest=one.key, content=one.result.content) for name, one in inputs.items()},
            champion=None,
            promotion=Promotion(mode="auto"),
            kind="manual",
            store=self._store.uri,
            tracking_uri=None,
            pins=self._pins,
            days=DayStates(refused=tuple(one for one in self.refused if one.day in window)),
            fingerprint=fingerprint(parts),
            parts=parts,
        )
        with StageContext.open(request, store=self._store, log=StageLog(stage, StringIO())) as ctx:
            return ctx.commit(import_module(stage_module(stage)).run(ctx))
