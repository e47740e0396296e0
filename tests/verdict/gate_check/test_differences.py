import numpy as np
import pytest

from ratchet.verdict.gate_check.differences import design_effect, kurtosis, skew_error
from ratchet.verdict.gate_check.draws import Draws


def test_rare_large_losses_make_false_promotions_and_rare_large_gains_make_fewer() -> None:
    values = -np.exp(1.5 * np.random.default_rng(0).normal(size=300))
    assert skew_error(values) > 0.01
    assert skew_error(-values) == pytest.approx(-skew_error(values))
    assert abs(skew_error(np.random.default_rng(0).normal(size=300))) < 0.005
    assert skew_error(np.ones(5)) == 0


def test_kurtosis_of_a_normal_distribution_is_three() -> None:
    assert kurtosis(np.random.default_rng(0).normal(size=100_000)) == pytest.approx(3, abs=0.1)
    assert kurtosis(np.ones(4)) == 0


def test_the_design_effect_is_that_of_the_shared_part() -> None:
    """Clusters of m with correlation r have the effect 1 + (m - 1) r (Kish 1965)."""
    generator = np.random.default_rng(0)
    codes = np.repeat(np.arange(400), 10)
    values = generator.normal(size=400)[codes] + 2 * generator.normal(size=4000)
    found = design_effect(values, Draws.clustered(codes), seed=0)
    assert found == pytest.approx(1 + 9 * 0.2, rel=0.15)


def test_clusters_that_share_nothing_have_no_design_effect() -> None:
    generator = np.random.default_rng(0)
    codes = generator.integers(300, size=3000)
    assert design_effect(generator.normal(size=3000), Draws.clustered(codes), seed=0) is None
    assert design_effect(np.zeros(3000), Draws.clustered(codes), seed=0) is None
