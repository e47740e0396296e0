from datetime import date

from ratchet.contracts.fingerprint import digest
from ratchet.contracts.parent import Parent, WarmStart
from ratchet.contracts.result import Artifact

FILE = Artifact(key="weights", sha256=digest(b"w"), bytes=1)
PARENT = Parent(
    model="shop", version="3", digest=digest(b"m"), data_date=date(2026, 11, 20), weights=FILE, description=FILE,
    since=date(2026, 11, 1), until=date(2026, 11, 19), epochs=7.5,
)  # fmt: skip


def test_a_parent_has_seen_the_days_between_its_first_and_its_last() -> None:
    days = tuple(date(2026, month, 10) for month in (10, 11, 12))
    assert PARENT.has_seen((*days, date(2026, 11, 1), date(2026, 11, 19), date(2026, 11, 20))) == (
        date(2026, 11, 10),
        date(2026, 11, 1),
        date(2026, 11, 19),
    )
    assert PARENT.title == f"version 3 of shop (model {digest(b'm')[:12]}, data of 2026-11-20)"


def test_what_was_copied_in_words() -> None:
    begun = WarmStart(parent=PARENT, parameters=1000, of_parameters=1200, rows=7, of_rows=9)
    assert begun.in_words == "1,000 of 1,200 parameters of layers and 7 of 9 vectors of categories"
    moved = begun.model_copy(update={"refitted": ("a", "b")})
    assert moved.in_words.endswith("vectors of categories; standardised as in a fresh start: a, b")


def test_a_model_is_close_where_half_of_its_layers_and_of_its_vectors_came_over() -> None:
    begun = WarmStart(parent=PARENT, parameters=600, of_parameters=1200, rows=0, of_rows=0)
    assert begun.is_close
    assert not begun.model_copy(update={"parameters": 599}).is_close
    assert not begun.model_copy(update={"rows": 4, "of_rows": 9}).is_close
