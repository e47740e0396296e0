"""Fraud is rare, and the features of the pipeline predict it."""

from datetime import date, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]  # has no stubs
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]  # has no stubs

from ratchet.contracts.loading import load
from ratchet.model.derivation import load_derive
from ratchet.samples.payments import day_payments

FOLDER = Path(__file__).resolve().parents[2] / "dags" / "pipelines" / "payments-fraud"
END = date(2026, 3, 10)


def log(*, days: int, end: date) -> pd.DataFrame:
    dates = [end - timedelta(days=back) for back in range(days)]
    tables = [day_payments(day, seed=3, rows_per_day=20_000) for day in dates]
    df: pd.DataFrame = pa.concat_tables(tables).to_pandas()
    return df


@pytest.fixture(scope="module")
def recent() -> pd.DataFrame:
    return log(days=4, end=END)


def features(df: pd.DataFrame) -> pd.DataFrame:
    """The columns that the pipeline's derive computes, as ones, zeros and rough numbers."""
    spec = load(FOLDER / "pipeline.yaml")
    derive = load_derive(FOLDER, {name: column.type for name, column in spec.columns.items() if column.derived})
    rows = derive(df)
    kinds = pd.get_dummies(rows[["merchant_category", "card_country", "channel"]], dtype=float)
    soon = (rows["seconds_since_last"].fillna(1e6) < 1_500).astype(float)
    return kinds.assign(night=(rows["hour"] < 6).astype(float), soon=soon, big=(rows["amount"] > 100).astype(float))


def test_about_one_in_fifty_is_fraud_and_every_rule_holds(recent: pd.DataFrame) -> None:
    assert 0.015 < recent["fraud"].mean() < 0.025
    assert 0.02 < recent["seconds_since_last"].isna().mean() < 0.035
    assert recent["seconds_since_last"].min() >= 0
    assert recent["amount"].min() >= 0
    assert recent["payment_id"].is_unique
    assert recent["merchant_category"].nunique() == 20
    assert recent["card_country"].nunique() == 8
    assert set(recent["channel"]) == {"chip", "contactless", "online"}


def test_fraud_can_be_predicted_and_its_signs_drift(recent: pd.DataFrame) -> None:
    today = log(days=2, end=END + timedelta(days=2))
    long_ago = log(days=4, end=END - timedelta(days=45))
    skill = {}
    for name, known in (("recent", recent), ("long ago", long_ago)):
        model = LogisticRegression(max_iter=2_000).fit(features(known), known["fraud"])
        skill[name] = roc_auc_score(today["fraud"], model.predict_proba(features(today))[:, 1])
    assert skill["recent"] > 0.85
    assert skill["recent"] > skill["long ago"] + 0.02
