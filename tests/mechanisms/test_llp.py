"""Bags with published weights: golden values, brackets, inverses, and a simulation of everything that is published."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from labeldp import (
    InputError,
    NoisyBags,
    PrivacyLoss,
    llp_calibrate,
    llp_delta,
    llp_epsilon,
)

UNIT = {"label_range": (-1, 1), "stddev": 1}

DESIGNS = [
    {"weights": weights, "noisy_set": kind, "records": records}
    for weights in ("gaussian", "rademacher")
    for kind, records in (("stratified", None), ("fixed", None), ("fixed", 1000))
]


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: " ".join(map(str, design.values())))
def test_delta_falls_in_everything(design: dict[str, Any]) -> None:
    def deltas(name: str, values: list[Any]) -> list[float]:
        given = {"size": 40, "stddev": 3, "noisy_fraction": "0.25", "label_range": (0, 2), **design}
        return [llp_delta(NoisyBags(**{**given, name: value}), 1) for value in values]

    for name, values in (
        ("size", [4, 5, 9, 40, 41, 200]),
        ("stddev", [0.5, 1, 1.001, 5]),
        ("noisy_fraction", ["0.1", "0.25", "0.26", "0.9", 1]),
    ):
        found = deltas(name, values)
        assert found == sorted(found, reverse=True) and found[0] > found[-1], name
    curve = [llp_delta(NoisyBags(40, **{**UNIT, **design}, noisy_fraction="0.25"), e) for e in (0, 0.5, 1, 2, 8)]
    assert curve == sorted(curve, reverse=True)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: " ".join(map(str, design.values())))
def test_every_inverse_keeps_what_was_asked_for(design: dict[str, Any]) -> None:
    """The bags that it returns keep (epsilon, delta).

    At the epsilon that it returns the delta of `llp_delta` is at most the one that was asked for.
    """
    given = {"size": 60, "stddev": 4, "noisy_fraction": "0.5", "label_range": (0, 2), **design}
    for name, less in (("size", 0.9), ("stddev", 0.999), ("noisy_fraction", 0.9)):
        others = {key: value for key, value in given.items() if key != name}
        found = llp_calibrate(name, epsilon=1, delta=1e-4, **others)
        assert llp_delta(found, 1) <= 1e-4
        value = getattr(found, name) * less
        worse = NoisyBags(**{**others, name: math.floor(value) if name == "size" else value})
        assert llp_delta(worse, 1) > 1e-4
    bags = NoisyBags(**given)
    epsilon = llp_epsilon(bags, 1e-4)
    assert llp_delta(bags, epsilon) <= 1e-4 < llp_delta(bags, epsilon * 0.999)
    assert llp_epsilon(bags, 0.99) == 0.0


def test_signs_and_strata_are_gaussian() -> None:
    bags = NoisyBags(72, **UNIT)
    loss = bags.privacy_loss()
    assert "mu = 0.235702" in str(loss)  # 2 / sqrt(72)
    assert loss.delta(1) == pytest.approx(llp_delta(bags, 1), rel=1e-9)
    assert loss == NoisyBags(144, **UNIT, noisy_fraction=0.5).privacy_loss()
    assert NoisyBags(1, **UNIT, weights="gaussian").privacy_loss() == PrivacyLoss.gaussian(2.0)


@pytest.mark.parametrize("design", [DESIGNS[0], DESIGNS[2], DESIGNS[5]], ids=["stratified", "fixed", "fixed signs"])
def test_the_loss_is_what_the_function_says_and_can_be_stored(design: dict[str, Any]) -> None:
    bags = NoisyBags(50, stddev=3, label_range=(0, 2), noisy_fraction="0.4", **design)
    loss = bags.privacy_loss()
    assert loss.delta(1) == pytest.approx(llp_delta(bags, 1), rel=1e-9)
    assert loss.epsilon(1e-5) == pytest.approx(llp_epsilon(bags, 1e-5), rel=1e-8)
    assert PrivacyLoss.from_json(loss.to_json()) == loss
    assert loss.max_loss is None and loss.epsilon(0) == math.inf


def test_two_releases_compose() -> None:
    """Twice a mixture of Gaussian losses is a mixture of sqrt(mu^2 + mu'^2)."""
    loss = NoisyBags(
        20, stddev=2, label_range=(0, 2), noisy_fraction="0.5", weights="rademacher", noisy_set="fixed", records=60
    ).privacy_loss()
    chances = {n: math.comb(30, n) * math.comb(29, 19 - n) / math.comb(59, 19) for n in range(20)}
    for epsilon in (0.3, 1.0, 2.5):
        exact = sum(p * q * gaussian(epsilon, m, n) for m, p in chances.items() for n, q in chances.items())
        both = (loss * 2).delta(epsilon)
        assert exact <= both <= 1.005 * exact + 1e-12
        with_gaussian = (loss + PrivacyLoss.gaussian(0.5)).delta(epsilon)
        exact = sum(p * gaussian(epsilon, 4, n) for n, p in chances.items())
        assert exact <= with_gaussian <= 1.005 * exact + 1e-12


def gaussian(epsilon: float, first: int, second: int) -> float:
    """The curve of two Gaussian losses, each with mu^2 = 1 / number; no number, no privacy."""
    if not first * second:
        return 1.0
    mu = math.sqrt(1 / first + 1 / second)
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def test_a_pure_loss_beside_a_bag() -> None:
    """Binary randomized response adds or takes its epsilon."""
    loss = NoisyBags(40, **UNIT, weights="gaussian").privacy_loss()
    keep = math.exp(0.5) / (1 + math.exp(0.5))
    exact = keep * loss.delta(0.75) + (1 - keep) * loss.delta(1.75)
    assert exact <= (loss + PrivacyLoss.pure(0.5)).delta(1.25) * (1 + 1e-9) <= 1.005 * exact


def published(rng: np.random.Generator, runs: int, design: dict[str, Any], moved: float) -> np.ndarray:
    """The log likelihood ratio of everything that is published, for label 0 (without noise where the set allows it).

    96 records, 10 noisy ones of which label 0 is none, in 12 bags of 8, of which 9 are published. Labels before and
    after differ in label 0 alone, by `moved`, and the likelihoods are those of all bags.
    """
    records, size, kept = 96, 8, 9
    order = rng.permuted(np.tile(np.arange(records), (runs, 1)), axis=1)[:, : kept * size].reshape(runs, kept, size)
    if design["noisy_set"] == "fixed":
        noisy = (order >= 1) & (order <= 30)
    else:
        rank = np.argsort(np.argsort(np.where(order == 0, 2.0, rng.random(order.shape)), axis=2), axis=2)
        noisy = rank < 3
    signs = rng.choice([-1.0, 1.0], order.shape)
    weights = rng.standard_normal(order.shape) if design["weights"] == "gaussian" else signs
    labels = np.linspace(0, 1, records)
    other = labels.copy()
    other[0] += moved
    variance = (weights**2 * noisy).sum(axis=2)
    before, after = ((weights * values[order]).sum(axis=2) for values in (labels, other))
    sums = before + np.sqrt(variance) * rng.standard_normal(variance.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = ((sums - after) ** 2 - (sums - before) ** 2) / (2 * variance)
    bare = (variance == 0) & (before != after)
    return np.where(bare, np.inf, np.where(before == after, 0.0, ratio)).sum(axis=1)


@pytest.mark.parametrize("weights", ["gaussian", "rademacher"])
@pytest.mark.parametrize("noisy_set", ["fixed", "stratified"])
def test_everything_that_is_published(weights: str, noisy_set: str) -> None:
    """A release of these bags about labels that are replaced one at a time has no larger delta than the loss.

    The upper end is never below the exact delta, the lower end never above it.
    """
    design = {"weights": weights, "noisy_set": noisy_set}
    fraction, records = ("0.3125", 96) if noisy_set == "fixed" else ("0.375", None)
    bags = NoisyBags(8, stddev=1, label_range=(0, 2), noisy_fraction=fraction, records=records, **design)
    assert bags.noisy == (30 if records else 3)
    losses = published(np.random.default_rng(7), 40_000, design, moved=2.0)
    for epsilon in (0.5, 1.5):
        gains = np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0)
        error = 7.1 * gains.std() / math.sqrt(len(gains))
        in_a_bag = 72 / 96
        assert abs(gains.mean() - in_a_bag * llp_delta(bags, epsilon)) < error < 0.1 * gains.mean()
        wrong = in_a_bag * llp_delta(
            NoisyBags(8, stddev=1.1, label_range=(0, 2), noisy_fraction=fraction, records=records, **design), epsilon
        )
        assert abs(gains.mean() - wrong) > error / 7.1 * 2


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"size": 0}, "size"),
    ({"size": 2.5}, "size"),
    ({"size": True}, "size"),
    ({"stddev": 0}, "stddev"),
    ({"stddev": "much"}, "stddev"),
    ({"stddev": math.inf}, "stddev"),
    ({"label_range": (1, 1)}, "label_range"),
    ({"label_range": 3}, "label_range"),
    ({"noisy_fraction": 0}, "noisy_fraction"),
    ({"noisy_fraction": 1.1}, "noisy_fraction"),
    ({"noisy_fraction": 0.05}, "take a larger size or noisy_fraction"),
    ({"weights": "uniform"}, "weights must be one of: rademacher, gaussian"),
    ({"noisy_set": "random"}, "noisy_set must be one of: stratified, fixed"),
    ({"records": 100}, 'records is for noisy_set="fixed"'),
    ({"records": 9, "noisy_set": "fixed"}, "records must be at least size"),
    ({"records": 19, "noisy_set": "fixed", "noisy_fraction": 0.05}, "noisy_fraction = 0.05 of 19 labels"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_bags_that_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refusal:
        NoisyBags(**{"size": 10, **UNIT, **changes})
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


def test_questions_that_are_refused() -> None:
    bags = NoisyBags(10, **UNIT)
    for wrong in (-1, "x", 2e6, math.nan):
        with pytest.raises(InputError, match="epsilon"):
            llp_delta(bags, wrong)
    for wrong in (0, 1, -0.1, "x"):
        with pytest.raises(InputError, match="delta"):
            llp_epsilon(bags, wrong)
    with pytest.raises(InputError, match="end must be one of"):
        llp_delta(bags, 1, end="middle")
    limit = NoisyBags(10, **UNIT, noisy_fraction=0.5, noisy_set="fixed")
    with pytest.raises(InputError, match="records must be given"):
        limit.privacy_loss()


CALIBRATIONS: list[tuple[str, dict[str, Any], str]] = [
    ("weights", {}, "solve_for must be one of"),
    ("size", {"size": 3}, "size is what is to be found"),
    ("size", {"bag": 3}, "bag is no argument"),
    ("stddev", {"stddev": None}, "stddev is what is to be found"),
    ("noisy_fraction", {"size": 2}, "noisy_fraction cannot keep epsilon = 1 and delta = 1e-06 here"),
    ("size", {"records": 20, "noisy_set": "fixed"}, "size cannot keep"),
    ("size", {"records": "20", "noisy_set": "fixed"}, "records must be an integer"),
    ("stddev", {"size": 8, "noisy_set": "fixed", "noisy_fraction": 0.5}, "stddev cannot keep"),
]


@pytest.mark.parametrize(("unknown", "changes", "words"), CALIBRATIONS)
def test_calibrations_that_are_refused(unknown: str, changes: dict[str, Any], words: str) -> None:
    design = {"label_range": (0, 9), **({} if unknown == "stddev" else {"stddev": 1}), **changes}
    with pytest.raises(InputError, match=words):
        llp_calibrate(unknown, epsilon=1, delta=1e-6, **design)


def test_a_stored_loss_out_of_range_is_refused() -> None:
    bag = {
        "kind": "noisy bag",
        "weights": "gaussian",
        "ratio": "0x1p0",
        "size": 9,
        "noisy": 3,
        "records": 90,
        "times": 1,
    }
    assert PrivacyLoss.from_json([[bag]]).delta(1) < 1
    for change in ({"size": 91}, {"noisy": 0}, {"noisy": 91}, {"ratio": "-0x1p0"}, {"weights": "x"},
                   {"size": 1 << 30, "records": 1 << 40}):  # fmt: skip
        with pytest.raises(ValueError, match="out of range"):
            PrivacyLoss.from_json([[{**bag, **change}]])


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="stddev and label_range must be given"):
        llp_calibrate("size", epsilon=1, delta=1e-6)
