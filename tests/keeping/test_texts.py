"""A purged value leaves texts for people in each form in which they have it; other words stay, and many values are quick."""

import html
import json
import time

import pytest

from tasks.keeping.texts import MASK, masked_letter, masking

LONG = "ada" * 50


@pytest.mark.parametrize(
    ("value", "forms"),
    [
        ("ada@example.org", ["ada@example.org"]),
        ('O\'Neil & "Söhne"', ["O&#39;Neil &amp; &#34;Söhne&#34;", 'O\'Neil &amp; "Söhne"']),
        ("<b>", ["&lt;b&gt;"]),
        ("-7", ["-7", "-7.0"]),
        ("1234567", ["1234567", "1,234,567", "1234567.0", "1,234,567.0"]),
        ("9007199254740993", ["9,007,199,254,740,993"]),
        ("42", ["42.0"]),
        ("0.00001", ["1e-05"]),
        ("1e+16", ["10000000000000000", "10,000,000,000,000,000"]),
        ("2026-11-20 01:00:00.000000", ["2026-11-20T01:00:00", "2026-11-20 01:00:00.000Z", "2026-11-20 01:00"]),
        ("2026-11-20 01:02:03.450000", ["2026-11-20T01:02:03.45", "2026-11-20T01:02:03.450"]),
        (LONG, [LONG[:40], LONG[:100]]),
    ],
)
def test_a_value_is_masked_as_pages_events_slices_and_messages_write_it(value: str, forms: list[str]) -> None:
    mask = masking([value, "another"])
    written = {value, repr(value)[1:-1], html.escape(value), json.dumps(value)[1:-1], *forms}
    for form in written | {json.dumps(repr(value)[1:-1])[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
        assert mask(f"rows of {form}: odd") == f"rows of {MASK}: odd", form
        assert mask(f"{form}\n{form} x") == f"{MASK}\n{MASK} x", form
    event = mask(json.dumps({"message": f"first\n{value}\tlast"}))
    assert json.loads(event) == {"message": f"first\n{MASK}\tlast"}


def test_other_words_stay_as_they_are() -> None:
    text = "user-12, xuser-1, user-1é, 9007199254740992.0, C:\\nuser, 1.5, 007, 7.25; nothing else"
    assert masking(["user-1", "9007199254740993", "-12", "user_1", "1.50", "25e"])(text) == text.replace(
        "1.5,", f"{MASK},"
    )
    assert masking([])(text) == text


def test_as_many_values_as_a_request_may_have_take_no_longer_than_one() -> None:
    texts = "12:00:00 validate 12345 rows of user-9999999 and user-0000007@example.org, -17 or 2026\n" * 1000
    mask = masking([*(f"user-{place:07d}@example.org" for place in range(20_000)), *map(str, range(-20_000, -1))])
    began = time.process_time()
    assert mask(texts).count(MASK) == 2000
    assert time.process_time() - began < 2


def test_a_letter_is_masked_where_people_read_it_and_goes_where_it_went() -> None:
    letter = {"event": "alerts/p/user-1", "receiver": "user-1", "title": "user-1 is odd", "body": "user-1"}
    incident = {"reason": "user-1", "decided": {"letter": letter, "covers": ["user-1"]}}
    shown = masked_letter(incident, masking(["user-1"]))
    assert shown["decided"]["letter"] == {**letter, "title": f"{MASK} is odd", "body": MASK}
    assert (shown["reason"], shown["decided"]["covers"]) == (MASK, ["user-1"])
