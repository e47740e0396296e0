import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ratchet.verdict.gate_check.draws import Draws, ranges

SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=12)


@given(SIZES, st.data())
def test_ranges_are_the_members_of_the_parts_that_were_picked(sizes: list[int], data: st.DataObject) -> None:
    picks = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=10))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    wanted = [member for pick in picks for member in range(offsets[pick], offsets[pick + 1])]
    assert ranges(offsets, np.array(picks, np.int64)).tolist() == wanted


@given(st.lists(st.integers(-1, 4), min_size=1, max_size=30), st.integers(0, 100))
def test_a_drawn_cluster_brings_all_its_units(codes: list[int], seed: int) -> None:
    given_codes = np.array(codes, np.int64)
    draws = Draws.clustered(given_codes)
    night = draws.draw(np.random.default_rng(seed))
    assert draws.blocks == len({code for code in codes if code >= 0}) + codes.count(-1)
    for block in range(night.blocks):
        units = night.units[night.block == block]
        code = given_codes[units[0]]
        assert sorted(units) == ([units[0]] if code < 0 else np.flatnonzero(given_codes == code).tolist())


def test_units_that_are_independent_are_drawn_one_by_one() -> None:
    night = Draws.single(50).draw(np.random.default_rng(0))
    assert len(night.units) == 50
    assert len(set(night.units.tolist())) < 50


def test_the_units_of_a_draw_share_their_coin() -> None:
    night = Draws.clustered(np.repeat(np.arange(20), 3)).draw(np.random.default_rng(0))
    coin = night.coin(np.random.default_rng(1))
    assert all(len(set(coin[night.block == block])) == 1 for block in range(20))
    assert 0 < coin.sum() < len(coin)
