"""The policy of a collection, as a setting says it."""

import pytest

from ratchet.contracts.collection import Policy, parse_policy


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", Policy()),
        ("weekly", Policy(weekly=True)),
        ("images, weekly", Policy(weekly=True, images=True)),
        ("results=60, last=3", Policy(results=60, last=3)),
        ("weekly,results=30,runs=730,last=14,grace=7,airflow=90", Policy(weekly=True)),
        ("grace=2,results=8,runs=8", Policy(grace=2, results=8, runs=8)),
    ],
)
def test_a_policy_is_its_defaults_and_what_is_given(text: str, policy: Policy) -> None:
    assert parse_policy(text) == policy
    assert parse_policy(policy) is policy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("daily", "'daily' is none of weekly, images, results=DAYS"),
        ("weekly=1", "'weekly=1' is none of weekly"),
        ("results=-1", "'results=-1' is none of"),
        ("results=90,results=9", "results is given twice, as 90 and as 9"),
        ("grace=1", "grace=1: input should be greater than or equal to 2"),
        ("last=0", "last=0: input should be greater"),
        ("results=7", "results=7: input should be greater than or equal to 8: a night may wait 7 days for its answer"),
        ("airflow=7", "airflow=7: input should be greater than or equal to 8: a night may wait 7 days for its answer"),
        ("grace=20,results=10", "grace=20, results=10, runs=730: allowed are grace <= results <= runs"),
        ("runs=20", "grace=7, results=30, runs=20: allowed"),
    ],
)
def test_another_text_is_refused_with_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_policy(text)
