"""The restart policy, as a function of the deaths."""

from hypothesis import given
from hypothesis import strategies as st

from local.supervision.service import RestartPolicy, delay

POLICY = RestartPolicy()


def test_the_delay_grows_and_the_sixth_death_within_ten_minutes_is_the_end() -> None:
    deaths: list[float] = []
    seen = []
    for second in range(6):
        deaths.append(second)
        seen.append(delay(POLICY, deaths, second))
    assert seen == [1, 2, 4, 8, 16, None]


def test_deaths_of_long_ago_do_not_count() -> None:
    assert delay(POLICY, [0, 1, 2, 3, 4, 700], 700) == 1


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(0, 80))
def test_no_delay_is_longer_than_the_longest(times: list[float], restarts: int) -> None:
    deaths = sorted(times)
    found = delay(RestartPolicy(restarts=restarts), deaths, deaths[-1])
    assert found is None or 1 <= found <= POLICY.longest_s
