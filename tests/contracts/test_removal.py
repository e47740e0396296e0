"""What is removed for good: the digests of values stay what they are, and the limits of days are checked."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from ratchet.contracts.removal import Removal, common_form, value_digest
from ratchet.contracts.source import FilesSource


def test_the_digest_of_a_value_is_the_same_in_every_release() -> None:
    assert value_digest("00" * 16, "ada@example.org") == "636f0773eaebcfebfcdb7b21d8f94311"
    assert value_digest("01" * 16, "ada@example.org") != value_digest("00" * 16, "ada@example.org")


@pytest.mark.parametrize(
    ("same", "other"),
    [
        (("7", "007", "7.0", "7e0"), "70"),
        (("0", "-0.0", "000"), "O"),
        (("2026-11-20T10:00:00+02:00", "2026-11-20 08:00:00.000000"), "2026-11-20"),
        (("ada",), "Ada"),
        (("9" * 40,), "9" * 41),
    ],
)
def test_a_value_has_one_form_in_columns_of_several_types(same: tuple[str, ...], other: str) -> None:
    assert len({common_form(text) for text in same}) == 1
    assert common_form(other) != common_form(same[0])


def test_a_removal_says_when_who_and_why() -> None:
    one = Removal(number=1, kind="purge", by="Ada", because="a request", began=datetime(2026, 11, 26, tzinfo=UTC))
    assert one.line == "purged on 2026-11-26 by Ada because a request"
    assert one.model_copy(update={"kind": "expire"}).line.startswith("expired on 2026-11-26")


def test_as_many_days_are_kept_as_a_window_has() -> None:
    source = {"kind": "files", "uri": "/data/{date}.parquet", "window_days": 30}
    assert FilesSource.model_validate({**source, "keep_days": 30}).keep_days == 30
    with pytest.raises(ValidationError, match="keep_days 29 is less than window_days 30"):
        FilesSource.model_validate({**source, "keep_days": 29})
