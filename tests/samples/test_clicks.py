"""A model can learn from the search log, and learn more from each further day."""

from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]  # has no stubs

from ratchet.samples.clicks import COUNTRIES, COUNTRY_SHARES, day_clicks

END = date(2026, 3, 10)
DAYS = 24


@pytest.fixture(scope="module")
def log() -> list[pd.DataFrame]:
    """DAYS days of 20 000 rows, the oldest first."""
    days = [END - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    return [day_clicks(day, seed=3, rows_per_day=20_000).to_pandas() for day in days]


def rates(days: list[pd.DataFrame]) -> "pd.Series[float]":
    """Each item's click rate, shrunk towards a tenth for an item with few impressions."""
    shown = pd.concat(days).groupby("item_id")["clicked"].agg(["sum", "count"])
    return (shown["sum"] + 2) / (shown["count"] + 20)


def skill(known: list[pd.DataFrame], day: pd.DataFrame) -> float:
    """AUC of a day's clicks by the click rates of other days; a constant has 0.5."""
    return float(roc_auc_score(day["clicked"], day["item_id"].map(rates(known)).fillna(0.1)))


def test_about_a_tenth_is_clicked_and_the_top_most(log: list[pd.DataFrame]) -> None:
    for day in log:
        assert 0.08 < day["clicked"].mean() < 0.13
    by_position = pd.concat(log).groupby("position")["clicked"].mean()
    assert by_position[1] > 2 * by_position[8]


def test_values_are_within_the_rules_of_the_pipeline(log: list[pd.DataFrame]) -> None:
    for day in log:
        assert 0 < day["price"].isna().mean() < 0.01
        assert 1 < day["price"].median() < 500
        assert day["price"].min() > 0
        assert day["rating"].between(0, 5).all()


def test_queries_are_of_about_twelve_different_items_from_one_country(log: list[pd.DataFrame]) -> None:
    everything = pd.concat(log)
    queries = everything.groupby("query_id")
    assert queries["shown_at"].nunique().eq(1).all()
    assert queries["country"].nunique().eq(1).all()
    assert not everything.duplicated(["query_id", "item_id"]).any()
    assert not everything.duplicated(["query_id", "position"]).any()
    assert len(everything) / queries.ngroups == pytest.approx(12, abs=0.5)
    shares = queries["country"].first().value_counts(normalize=True)
    assert shares[list(COUNTRIES)].to_numpy() == pytest.approx(np.array(COUNTRY_SHARES), abs=0.01)


def test_new_items_come_every_day_and_old_ones_stay(log: list[pd.DataFrame]) -> None:
    seen = set(log[0]["item_id"])
    for day in log[1:]:
        newest = max(seen)
        assert any(item > newest for item in set(day["item_id"]))
        seen |= set(day["item_id"])
    assert len(set(log[0]["item_id"]) & set(log[-1]["item_id"])) > 300


@pytest.mark.parametrize("column", ["item_id", "country", "price", "rating", "position"])
def test_neighbouring_days_are_alike(log: list[pd.DataFrame], column: str) -> None:
    for before, after in pairwise(log):
        assert stability_index(before[column].dropna(), after[column].dropna()) < 0.1


def test_popular_items_are_clicked_again(log: list[pd.DataFrame]) -> None:
    assert skill(log[-8:-1], log[-1]) > 0.65


def test_recent_clicks_predict_better_than_old_ones(log: list[pd.DataFrame]) -> None:
    fresh = [skill(log[at - 5 : at], log[at]) for at in range(15, DAYS)]
    day_older = [skill(log[at - 6 : at - 1], log[at]) for at in range(15, DAYS)]
    stale = [skill(log[at - 15 : at - 10], log[at]) for at in range(15, DAYS)]
    assert all(new > old for new, old in zip(fresh, stale, strict=True))
    assert np.mean(fresh) > np.mean(day_older) + 0.005
    assert np.mean(day_older) > np.mean(stale) + 0.02


def stability_index(before: "pd.Series[float]", after: "pd.Series[float]") -> float:
    """PSI on ten quantile bins, or the twenty commonest values and all others."""
    if pd.api.types.is_numeric_dtype(before):
        edges = np.unique(np.quantile(before, np.arange(1, 10) / 10))
        shares = [np.bincount(np.searchsorted(edges, day), minlength=len(edges) + 1) for day in (before, after)]
    else:
        top = before.value_counts().index[:20]
        counts = [day.value_counts().reindex(top).fillna(0).to_numpy() for day in (before, after)]
        shares = [np.append(seen, len(day) - seen.sum()) for seen, day in zip(counts, (before, after), strict=True)]
    one, two = (np.maximum(share / share.sum(), 1e-4) for share in shares)
    return float(((one - two) * np.log(one / two)).sum())
