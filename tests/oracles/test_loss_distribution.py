"""Exported privacy loss distributions, read by dp-accounting: its delta is that of the certificate, rounded up."""

import json
import math
import random
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

import labeldp as ldp
from labeldp.audit.loss_distribution import loss_distribution, loss_distributions
from labeldp.bags.losses import NoisyBag
from labeldp.privacy import (
    Certificate,
    Charge,
    InputError,
    PrivacyLoss,
    RandomnessKind,
    Trust,
    Unit,
    gaussian_delta,
)
from labeldp.privacy.randomness import SimulatedRandomness

NEAR = 1e-9


def read(distribution: dict[str, Any]) -> pld.PrivacyLossDistribution:
    """One distribution of a JSON text, as a user of dp-accounting reads it."""
    content = json.loads(json.dumps(distribution))
    masses = content.pop("rounded_probability_mass_function")
    return pld.PrivacyLossDistribution.create_from_rounded_probability(
        {int(cell): mass for cell, mass in masses.items()}, **content
    )


def certificate(*charges: Charge) -> Certificate:
    """A certificate of charges."""
    return Certificate(charges, "people", Unit.ONE_LABEL, Trust.CENTRAL, RandomnessKind.SYSTEM, "sums")


def composition(rng: random.Random) -> PrivacyLoss:
    """Some releases on the same records."""
    loss = PrivacyLoss.zero()
    for _ in range(rng.randrange(1, 4)):
        kind, times = rng.choice([*["response"] * 5, *["discrete", "failure"] * 2, "gaussian"]), rng.randrange(1, 6)
        if kind == "response":
            loss += (
                PrivacyLoss.response(rng.choice(["0.01", "0.3", "1", "0.1428", "4"]), rng.choice([2, 3, 50])) * times
            )
        elif kind == "gaussian":
            loss += PrivacyLoss.gaussian(rng.choice([0.02, 0.3, 1.1])) * times
        elif kind == "failure":
            loss += PrivacyLoss.failure(rng.choice(["1e-9", "1e-6", "0.001"]))
        else:
            loss += PrivacyLoss.discrete(["-0.5", "0", "0.5"], ["0.3", "0.2", "0.5"]) * times
    return loss


@pytest.mark.parametrize("count", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_dp_accounting_gives_the_same_delta_of_compositions(count: int) -> None:
    rng = random.Random(count)
    for _ in range(count):
        loss = composition(rng)
        exported, reach = read(loss_distribution(loss)), min(loss.epsilon(1e-7) or 1.0, 60.0)
        epsilons = [0.0, *(rng.random() * reach for _ in range(4))]
        deltas = [min(1.0, exported.get_delta_for_epsilon(epsilon)) for epsilon in epsilons]
        for epsilon, delta in zip(epsilons, deltas, strict=True):
            assert loss.delta(epsilon) - 1e-15 <= delta <= loss.delta(epsilon) + NEAR, (str(loss), epsilon)


@pytest.mark.parametrize("mu", [0.01, pytest.param(4.0, marks=pytest.mark.slow)])
def test_a_gaussian_is_never_below_its_curve(mu: float) -> None:
    """Between thresholds, too: lines lie above a convex curve."""
    exported = read(loss_distribution(PrivacyLoss.gaussian(mu)))
    for epsilon in np.linspace(0, mu * mu / 2 + 7 * mu, 23).tolist():
        exact = gaussian_delta(epsilon, mu) / (1 + 1e-11)
        assert exact <= exported.get_delta_for_epsilon(epsilon) <= exact + NEAR


def test_the_curve_of_secret_bags_is_exported_as_it_is_composed() -> None:
    """Alone it is read at the points of a lattice, and lies above; composed it is the same."""
    loss = PrivacyLoss.curve(NoisyBag("gaussian", 2.0, 64, 32))
    for several, near in ((loss, 1e-4), (loss + loss, NEAR), (loss + PrivacyLoss.pure("0.1"), NEAR)):
        exported, top = read(loss_distribution(several)), several.epsilon(1e-6)
        for epsilon in (0.0, top / 3, top):
            delta = several.delta(epsilon)
            assert delta - 1e-15 <= exported.get_delta_for_epsilon(epsilon) <= delta + near


def test_a_sum_and_a_budget_are_those_of_the_worst_mechanism() -> None:
    pure = [Charge(name, (), PrivacyLoss.pure(1), {"mechanism": "M"}) for name in "ab"]
    content = loss_distributions(certificate(*pure), "1e-6")
    assert content["epsilon"] == "2" and len(content["distributions"]) == 1
    exported = read(content["distributions"][0])
    assert exported.get_delta_for_epsilon(2.0) == pytest.approx(0, abs=1e-15)
    assert exported.get_delta_for_epsilon(0.0) == pytest.approx(math.tanh(1), rel=1e-9)
    given: dict[str, Any] = {"account": "a", "budgets": ((3, 0), (2, "1e-6")), "keeps": Unit.ONE_LABEL}
    many = [Charge(name, (), PrivacyLoss.gaussian(0.1), {"mechanism": "M"}, **given) for name in "ab"]
    many = [Charge.from_json(json.loads(json.dumps(charge.to_json()))) for charge in many]
    exported = read(loss_distributions(certificate(*many), "1e-6")["distributions"][0])
    assert exported.get_delta_for_epsilon(3.0) == pytest.approx(1e-6, rel=1e-9)
    assert exported.get_delta_for_epsilon(2.0) > 0.5


def test_parts_of_the_records_have_a_distribution_each() -> None:
    parts = [Charge(str(k), (("s", k),), PrivacyLoss.pure(k + 1), {"mechanism": "M"}) for k in range(2)]
    distributions = loss_distributions(certificate(*parts), 0)["distributions"]
    tops = [[read(one).get_delta_for_epsilon(epsilon) > 1e-9 for epsilon in (0.99, 1.99)] for one in distributions]
    assert sorted(tops) == [[True, False], [True, True]]


def test_what_guarantees_nothing_is_refused() -> None:
    several = [Charge(name, (), PrivacyLoss.gaussian(1.0), {"mechanism": "M"}) for name in "ab"]
    none = ldp.Curator(np.arange(9) % 2, domain=ldp.Classes(2), budget=ldp.Budget(1)).release(
        ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=1), rng=SimulatedRandomness(np.random.default_rng(0))
    )
    for given in (certificate(*several), none.certificate):
        with pytest.raises(InputError, match="guarantees nothing at delta"):
            loss_distributions(given, "1e-6")
