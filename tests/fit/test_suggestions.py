import numpy as np
import pytest

import labeldp as ldp
from labeldp.fit import FitSettings, advise
from labeldp.fit.suggestions import better_models, narrower_interval
from labeldp.inference import Estimate, debiased_accuracy

TWO = ldp.Classes(("no", "yes"))


def settings(domain: object = TWO, epsilon: float = 1.0, **others: object) -> FitSettings:
    return FitSettings("y", domain, epsilon, 0.0, "data", **others)  # type: ignore[arg-type]


def test_the_sentence_says_what_labeldp_choose_expects() -> None:
    (found,) = better_models(settings(epsilon=0.5), 3000, 10)
    assert advise(3000, 10, TWO, 0.5).best.expected.cost in found
    for records, epsilon, trust in ((12_000, 0.5, "local"), (3000, 1, "local"), (3000, 0.5, "central")):
        assert f"{round(advise(records, 10, TWO, epsilon, 0, trust).best.expected.value)} with" in found
    assert "with 12,000 records" in found and "with ε = 1" in found and "with central trust" in found
    (central,) = better_models(settings(trust="central"), 3000, 10)
    assert "central trust" not in central


def test_where_nothing_is_expected_it_says_what_is() -> None:
    (found,) = better_models(settings(epsilon=0.1), 1500, 10)
    assert "no method learns more than a constant" in found and "with central trust at this ε" in found
    assert better_models(settings(epsilon=0.001), 60, 10) == ()


def test_what_changes_little_is_not_offered() -> None:
    (found,) = better_models(settings(epsilon=8.0, trust="central"), 10**7, 10)
    assert "neither more records nor a larger ε nor another trust" in found


def test_of_numbers_public_numbers_tell_nothing() -> None:
    assert better_models(settings(ldp.Interval(0, 10)), 3000, 10) == ()


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_the_epsilon_it_names_halves_the_interval(epsilon: float) -> None:
    rng, n = np.random.default_rng(0), 100_000
    labels = rng.integers(0, 2, n)
    predictions = np.where(rng.random(n) < 0.8, labels, 1 - labels)

    def measured(epsilon: float) -> Estimate:
        curator = ldp.Curator(labels, domain=ldp.Classes(2), budget=ldp.Budget(epsilon))
        mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=epsilon)
        return debiased_accuracy(curator.release(mechanism, rng=rng), predictions)

    now = measured(epsilon)
    (found,) = narrower_interval(settings(epsilon=epsilon), now, n, n, one_by_one=True)
    named = float(found.rpartition("ε = ")[2].rstrip("."))
    later = measured(named)
    assert 0.4 < (later.high - later.low) / (now.high - now.low) < 0.54
    assert "400,000 records" in found and "--evaluation" not in found
    (none,) = narrower_interval(settings(epsilon=2.0), now, n, n, one_by_one=True)  # no noise would still be too much
    assert "ε" not in none
    (other,) = narrower_interval(settings(epsilon=epsilon), now, n, n, one_by_one=False)
    assert "ε" not in other


def test_a_larger_evaluation_part_is_offered_where_it_leaves_half() -> None:
    accuracy = Estimate(quantity="accuracy", value=0.8, low=0.7, high=0.9)
    (found,) = narrower_interval(settings(), accuracy, 300, 3000, one_by_one=True)
    assert "--evaluation 0.4" in found and "10.0 points" in found
    (found,) = narrower_interval(settings(), accuracy, 600, 3000, one_by_one=True)
    assert "--evaluation" not in found
