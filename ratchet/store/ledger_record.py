"""One record of a ledger, and the head that names the newest one."""

from datetime import date, datetime
from typing import Literal

from pydantic import Field

from ratchet.contracts.authority import Approval
from ratchet.contracts.day_record import DayRecord
from ratchet.contracts.document import Document
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.gate import Gate
from ratchet.contracts.judgements import Interval
from ratchet.contracts.result import Sha256

Action = Literal["promote", "rollback", "hold", "release"]
GENESIS = digest(b"")
"""What the first record has as `previous`: the digest of nothing."""


class Ban(Document):
    """A model that was taken out of production. It does not return, under this digest or trained by this recipe."""

    version: str
    digest: Sha256
    recipe: str = Field("", description="The digest of the training's parts; empty where they are not known.")


class Change(Document):
    """A change to record. After `promote` and `rollback` its version is the champion; the others repeat the champion.

    `hold` stops every promotion until a `release` without versions; a `release` of a version ends its ban.
    """

    model: str
    action: Action
    version: str = Field(description="The version in the registry.")
    fingerprint: Sha256 = Field(description="The fingerprint of the training.")
    model_digest: Sha256 = Field(description="The identity of the model, see TrainedModel.digest.")
    manifests: dict[str, str] = Field(description="Keys of the manifests of the run that trained it, by stage.")
    data_date: date = Field(description="The newest day of the model's data.")
    window_start: date = Field(description="The oldest day of the model's data.")
    pipeline: str
    run_id: str
    reason: str = Field(description="The verdict with its figures; of a change by hand, why.")
    baseline: int | None = Field(description="The number of the record of the baseline in evaluate.")
    let_in: tuple[DayRecord, ...] = Field(
        (), description="The days of its data that their own run had refused and a person let in, with who and why."
    )
    recorded: datetime
    gate: Gate | None = Field(
        None, description="The gate that it passed; None in records of before, and in a change by hand."
    )
    overrides: dict[str, str] = Field(default_factory=dict, description="The keys that the run changed, dotted.")
    started_by: str = Field("", description="Who started the run or gave the command; empty for a schedule.")
    by_hand: bool = Field(default=False, description="Whether a person's command made this change, and no run.")
    verdict: str = Field("", description="The code of the verdict, as `better` or `first-model`; empty by hand.")
    gain: Interval | None = Field(None, description="The relative gain over the baseline in evaluate.")
    approvals: tuple[Approval, ...] = Field((), description="Who said yes to it.")
    recipe: str = Field("", description="The digest of the training's parts, see ratchet.production.recipe.")
    scoring: str = Field("", description="The name of the package that the version is scored by.")
    bans: tuple[Ban, ...] = Field((), description="Of a rollback: the models that it takes out of production.")
    released: tuple[Sha256, ...] = Field((), description="Of a release: the digests whose ban ends.")
    refit_of: Sha256 | None = Field(
        None, description="The digest of the model that was measured, if `model_digest` is a refit of it on more days."
    )
    after: date | None = Field(
        None,
        description="The champion of this record is in office for data dates after this one. No record of later "
        "changes who was in office on an earlier date. None in records of before: then it is the data date.",
    )

    holds: bool = Field(
        default=False,
        description="Whether promotions are held from here on, as after a hold: of a promote by hand that began a "
        "ledger in the place of a lost one.",
    )

    @property
    def measured(self) -> str:
        """The digest of the model that the verdict is about."""
        return self.refit_of or self.model_digest

    @property
    def moves_production(self) -> bool:
        """Whether the version is the champion from this record on."""
        return self.action in {"promote", "rollback"}


class Record(Change):
    """A change in the ledger; numbers start at 1 and have no gap."""

    number: int = Field(ge=1)
    previous: str = Field("", description="The sha256 of the bytes of the record before; empty in records of before.")


class Head(Document):
    """The newest record of a ledger. number is 0 before the first."""

    number: int = Field(ge=0)
    sha256: Sha256
