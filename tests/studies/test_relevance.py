"""The measures and the fit of the study of relevance."""

import numpy as np
import pytest

from studies.relevance import fit_logistic, measure_auc, measure_calibration_error, squash


def test_the_error_of_exact_chances_is_0_and_that_of_others_their_distance() -> None:
    labels = np.array([1.0, 0.0, 1.0, 1.0])
    assert measure_calibration_error(np.array([0.5, 0.5, 1.0, 1.0]), labels, 2) == pytest.approx(0.0)
    assert measure_calibration_error(np.array([0.5, 0.5, 0.8, 0.8]), labels, 2) == pytest.approx(0.1)
    assert measure_calibration_error(np.array([0.2, 0.2, 0.2, 0.2]), labels, 1) == pytest.approx(0.55)


def test_the_auc_counts_pairs_in_the_right_order_and_ties_half() -> None:
    assert measure_auc(np.array([0.9, 0.8, 0.1]), np.array([1.0, 1.0, 0.0])) == 1.0
    assert measure_auc(np.array([0.9, 0.5, 0.5]), np.array([0.0, 1.0, 0.0])) == pytest.approx(0.25)


def test_the_fit_finds_the_weights_and_leaves_out_a_feature_that_would_count_against() -> None:
    chance = np.random.default_rng(0)
    features = chance.uniform(-1, 1, (20_000, 2))
    labels = (chance.uniform(size=20_000) < squash(-1 + 3 * features[:, 0] - 2 * features[:, 1])).astype(float)
    constant, first, second = fit_logistic([features], [labels], [np.ones(20_000)])
    assert second == 0
    assert (constant, first) == (pytest.approx(-0.8, abs=0.2), pytest.approx(2.5, abs=0.4))
    right = (chance.uniform(size=20_000) < squash(-1 + 3 * features[:, 0] + 2 * features[:, 1])).astype(float)
    assert fit_logistic([features], [right], [np.ones(20_000)]) == pytest.approx([-1, 3, 2], abs=0.15)
