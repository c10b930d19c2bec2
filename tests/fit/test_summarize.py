"""What a report says of charges of any mechanism."""

import numpy as np
import pytest

from labeldp.fit.summarize import _mechanism, binned, constant_accuracy, constant_classes
from labeldp.privacy import Charge, PrivacyLoss
from learners.data import released


def test_a_mechanism_without_an_epsilon_is_named() -> None:
    loss = PrivacyLoss.gaussian(1.0)
    assert _mechanism(Charge("1", (), loss, {"mechanism": "GaussianMoment", "mu": "1"})) == "GaussianMoment"
    assert _mechanism(Charge("1", (), loss, {"mechanism": "Plain", "epsilon": "1/2"})) == "Plain, epsilon = 0.5"
    assert _mechanism(Charge("1", (), loss, {})) == "a mechanism"


def test_the_most_frequent_class_is_not_judged_by_the_labels_that_chose_it() -> None:
    found = []
    for seed in range(200):
        codes = np.random.default_rng(seed).integers(0, 10, 180)
        release = released(codes, 10, seed=seed)
        found.append(constant_accuracy(release, constant_classes(release)))
    values = np.array([each.value for each in found])
    assert abs(values.mean() - 0.1) < 7 * values.std() / 200**0.5 < 0.1
    assert sum(each.low <= 0.1 <= each.high for each in found) >= 180


def test_a_frequent_class_is_found_and_few_records_are_enough() -> None:
    release = released(np.arange(3000) % 4 // 3)
    assert constant_accuracy(release, constant_classes(release)).value == pytest.approx(0.75, abs=0.15)
    single = released(np.zeros(1, int))
    one = constant_accuracy(single, constant_classes(single))
    assert one.low <= one.high


def test_means_of_debiased_values_lie_in_stretches_of_equally_many_records() -> None:
    rng = np.random.default_rng(0)
    along = np.concatenate([rng.uniform(0, 1, 990), [np.nan] * 10])
    bins = binned(along, along * 2 + rng.normal(0, 5, 1000))
    assert len(bins) == 20 and sum(each.records for each in bins) == 990
    assert all(each.start <= each.middle <= each.end and each.low < each.value < each.high for each in bins)
    assert sum(each.low <= 2 * each.middle <= each.high for each in bins) >= 15
    values = np.repeat([0.0, 1.0], [900, 100])
    assert [each.records for each in binned(values, values)] == [900, 100]
    assert len(binned(np.arange(30.0), np.arange(30.0))) == 1 and binned(np.ones(1), np.ones(1)) == ()
