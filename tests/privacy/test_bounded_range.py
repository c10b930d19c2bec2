"""Bounded range: the curve of the exponential mechanism, alone and with other releases, against exact laws."""

import json
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr

from labeldp.accounting.costs import sequence_rate
from labeldp.mechanisms import Classes, ExponentialMechanism, Groups, PermuteAndFlip
from labeldp.privacy import BoundedRange, InputError, PrivacyLoss, Public

ETAS = [Fraction(1, 100), Fraction(1), Fraction(5, 2), Fraction(20)]


def pair(eta: float, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the two laws whose log-ratios are t and t - eta, each shape (2,)."""
    first = -math.expm1(t - eta) / -math.expm1(-eta)
    laws = np.array([first, 1 - first])
    return laws, laws * np.exp([-t, eta - t])


def delta(one: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())


@pytest.mark.guarantee("labeldp.privacy:BoundedRange", "bounded_range")
@pytest.mark.parametrize("eta", ETAS, ids=str)
def test_no_pair_of_the_range_has_a_larger_delta_and_one_reaches_it(eta: Fraction) -> None:
    loss = PrivacyLoss.bounded_range(eta)
    skews = np.linspace(0, float(eta), 2001)
    chances = np.expm1(skews - float(eta)) / np.expm1(-float(eta))
    for epsilon in np.linspace(0, float(eta) * 0.99, 12):
        true = (chances * np.maximum(-np.expm1(epsilon - skews), 0)).max()
        assert true <= loss.delta(epsilon) * (1 + 1e-9)
        reached = delta(*pair(float(eta), (float(eta) + epsilon) / 2), epsilon)
        assert reached == pytest.approx(loss.delta(epsilon), rel=1e-6, abs=1e-12)
    assert loss.epsilon(0) == float(eta)
    assert loss.delta(eta) == 0
    assert loss.delta(0) == pytest.approx(math.tanh(eta / 4), rel=1e-12)


@pytest.mark.guarantee("labeldp.privacy:BoundedRange", "bounded_range")
@pytest.mark.parametrize("seed", range(4))
def test_no_adaptive_strategy_passes_the_composed_curve(seed: int) -> None:
    """Two steps, the skew of the second chosen by what came out: the exact supremum over a grid of skews."""
    rng = np.random.default_rng(seed)
    eta = float(rng.uniform(0.1, 2))
    skews = [pair(eta, t) for t in np.linspace(0.01, 0.99, 15) * eta]

    def best(alpha: float, steps: int) -> float:
        if not steps:
            return max(0.0, 1 - alpha)
        return max(
            sum(p * best(alpha * q / p, steps - 1) if p > 0 else 0.0 for p, q in zip(one, other, strict=True))
            for one, other in skews
        )

    loss = PrivacyLoss.bounded_range(eta) * 2
    for epsilon in (0.0, 0.3 * eta, eta, 1.5 * eta):
        assert best(math.exp(epsilon), 2) <= loss.delta(epsilon) * (1 + 1e-9)


@pytest.mark.guarantee("labeldp.mechanisms:ExponentialMechanism", "pure")
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_the_exponential_mechanism_keeps_the_curve_for_a_label_and_for_a_user(epsilon: float) -> None:
    groups = Groups.of(Public(np.zeros(6, dtype=np.int64), why="one group"))
    mechanism = ExponentialMechanism(Classes(3), epsilon, groups=Public(np.zeros(6, dtype=np.int64), why="one group"))
    users = Groups.of_users(Public(np.array([0, 0, 1, 2, 3, 4]), why="users are public"))
    assert groups.count == 1 and users.most == 2
    counts = [np.array(value) for value in product(range(7), repeat=3) if sum(value) == 6]
    for moved, loss in ((1, mechanism.privacy_loss()), (2, mechanism.user_loss(users))):
        for one, other in product(counts, repeat=2):
            if 0 < np.abs(one - other).sum() <= 2 * moved:
                ratios = np.log(mechanism.law(one) / mechanism.law(other))
                assert np.ptp(ratios) <= moved * epsilon * (1 + 1e-12)
                for at in (0.0, 0.4 * epsilon):
                    assert delta(mechanism.law(one), mechanism.law(other), at) <= loss.delta(at) * (1 + 1e-9)
    assert mechanism.privacy_loss().epsilon(0) == epsilon


def test_permute_and_flip_has_no_bounded_range() -> None:
    mechanism = PermuteAndFlip(Classes(2), 1.0, groups=Public(np.zeros(2, dtype=np.int64), why="one group"))
    one, other = mechanism.law([2, 0]), mechanism.law([1, 1])
    assert delta(one, other, 0) > PrivacyLoss.bounded_range(1).delta(0)
    assert mechanism.privacy_loss() == PrivacyLoss.pure(1)


@pytest.mark.parametrize(
    ("count", "eta", "epsilon"),
    [(4, "0.1", 0.3563), (16, "0.1", 0.9166), (64, "0.1", 2.0328), (16, "0.5", 5.2442), (64, "0.5", 12.5131)],
)
def test_golden_values(count: int, eta: str, epsilon: float) -> None:
    """The first four are those of an independent computation; concentration takes the fifth below its 12.70."""
    assert (PrivacyLoss.bounded_range(eta) * count).epsilon(1e-6) == pytest.approx(epsilon, abs=2e-4)
    assert (PrivacyLoss.bounded_range(eta) * count).epsilon(1e-6) < (PrivacyLoss.pure(eta) * count).epsilon(1e-6)


@pytest.mark.parametrize("eta", ETAS, ids=str)
def test_its_rate_is_that_of_a_response_at_half_the_range(eta: Fraction) -> None:
    """A Gaussian of this rate lies above the curve everywhere, and one of a rate 1 % smaller does not."""
    atoms = PrivacyLoss.bounded_range(eta).atoms
    rate, failure = sequence_rate(atoms, Fraction(0), Fraction(1, 10**6), Fraction(1))
    half, _ = sequence_rate(PrivacyLoss.response(eta / 2, 2).atoms, Fraction(0), Fraction(0), Fraction(1))
    assert rate is not None and rate == half and failure == 0
    epsilons = np.linspace(0, float(eta), 200)
    curve = BoundedRange(eta).upper(epsilons)

    def gaussian(mu: float) -> np.ndarray:
        return np.asarray(ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons) * ndtr(-mu / 2 - epsilons / mu))

    assert (curve <= gaussian(math.sqrt(rate)) + 1e-9).all()
    assert (curve > gaussian(0.995 * math.sqrt(rate))).any()
    scores = np.linspace(0, 8, 801)[1:]
    normal, density = ndtr(scores), np.exp(-(scores**2) / 2) / math.sqrt(2 * math.pi)
    assert (scores * normal * ndtr(-scores) <= (2 * normal - 1) * density).all()


def test_it_is_stored_and_read_exactly() -> None:
    loss = PrivacyLoss.bounded_range("0.1") * 3 + PrivacyLoss.pure(1)
    assert PrivacyLoss.from_json(json.loads(json.dumps(loss.to_json()))) == loss
    assert loss.epsilon(0) == 1.3
    with pytest.raises(InputError):
        PrivacyLoss.bounded_range(0)
    with pytest.raises(ValueError, match="out of range"):
        BoundedRange(Fraction(-1))
