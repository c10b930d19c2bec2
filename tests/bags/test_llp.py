"""Bags with published weights: golden values, brackets, inverses, and a simulation of everything that is published."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ndtr

from labeldp import PrivacyLoss
from labeldp.bags import NoisyBags, llp_calibrate, llp_delta, llp_epsilon
from labeldp.privacy import InputError

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


@pytest.mark.guarantee("labeldp.bags:llp_epsilon", "kept")
@pytest.mark.guarantee("labeldp.bags:llp_calibrate", "kept")
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: " ".join(map(str, design.values())))
def test_every_inverse_keeps_what_was_asked_for(design: dict[str, Any]) -> None:
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


def exact_curve(ratio: float, others: int, noisy: bool, epsilon: float) -> float:
    """The curve of a label with normal weights beside so many noisy labels: a mean of Gaussian curves."""
    if not others:
        return gaussian_curve(ratio, epsilon) if noisy else 1.0

    def survival(size: float) -> float:
        """P(T > size); T = |w| / (length of the weights of the noisy labels), squared, is a ratio of chi-squares."""
        share = (size / ratio) ** 2
        return float(stats.beta.sf(share, 0.5, others / 2) if noisy else stats.f.sf(share * others, 1, others))

    density = lambda size: survival(size) * math.exp(-((size / 2 - epsilon / size) ** 2) / 2)  # noqa: E731
    end = ratio if noisy else 60.0
    return float(integrate.quad(density, 1e-12, end, limit=500, epsabs=1e-13)[0]) / math.sqrt(2 * math.pi)


def gaussian_curve(mu: float, epsilon: float) -> float:
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.guarantee("labeldp.bags:NoisyBags", "approximate")
@pytest.mark.guarantee("labeldp.bags:llp_delta", "enclosed")
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
@pytest.mark.parametrize(("size", "noisy", "ratio"), [(2, 1, 10), (10, 4, 10), (10, 4, 1), (100, 50, 20), (5, 5, 7)])
def test_a_label_with_noise_may_be_the_worst_of_normal_weights(
    size: int, noisy: int, ratio: float, epsilon: float
) -> None:
    strata = NoisyBags(size, stddev=1 / ratio, label_range=(0, 1), noisy_fraction=noisy / size, weights="gaussian")
    without = exact_curve(ratio, noisy, False, epsilon) if noisy < size else 0.0
    true = max(exact_curve(ratio, noisy - 1, True, epsilon), without)
    assert llp_delta(strata, epsilon, end="lower") <= true * (1 + 1e-8)
    assert true * (1 - 1e-8) <= llp_delta(strata, epsilon) <= true * (1 + 1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize("ratio", [0.5, 5, 30])
def test_both_labels_of_a_set_that_is_drawn_from_all(ratio: float, epsilon: float) -> None:
    records, size, noisy = 30, 6, 12
    design = {"label_range": (0, 1), "noisy_fraction": noisy / records, "weights": "gaussian", "noisy_set": "fixed"}
    bags = NoisyBags(size, stddev=1 / ratio, records=records, **design)
    curves = []
    for own in (False, True):
        law = stats.hypergeom(records - 1, noisy - own, size - 1)
        curves.append(sum(law.pmf(r) * exact_curve(ratio, r, own, epsilon) for r in range(size)))
    assert llp_delta(bags, epsilon) == pytest.approx(max(curves), rel=1e-8)
    assert (curves[1] > curves[0]) == (ratio == 30)


@pytest.mark.guarantee("labeldp.bags:llp_delta", "enclosed")
@pytest.mark.parametrize(("mu", "epsilon"), [(1e-3, 0.01), (1e-4, 1e-3), (0.1, 3.0), (5e-11, 0.0), (2.0, 1.0)])
def test_the_curve_of_signs_is_enclosed_where_its_terms_nearly_cancel(mu: float, epsilon: float) -> None:
    bags = NoisyBags(4, stddev=1 / (2 * mu), label_range=(0, 1))
    with mpmath.workdps(60):
        exact, at = mpmath.mpf(bags.ratio.numerator) / bags.ratio.denominator / 2, mpmath.mpf(epsilon)
        gained = mpmath.ncdf(exact / 2 - at / exact)
        true = gained - mpmath.exp(at) * mpmath.ncdf(-exact / 2 - at / exact)
        assert llp_delta(bags, epsilon, end="lower") <= true <= llp_delta(bags, epsilon)


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


@pytest.mark.guarantee("labeldp.bags:NoisyBags", "approximate")
@pytest.mark.guarantee("labeldp.bags:llp_delta", "enclosed")
@pytest.mark.parametrize("weights", ["gaussian", "rademacher"])
@pytest.mark.parametrize("noisy_set", ["fixed", "stratified"])
def test_everything_that_is_published(weights: str, noisy_set: str) -> None:
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
    ({"weights": "uniform"}, "weights must be one of rademacher, gaussian"),
    ({"noisy_set": "random"}, "noisy_set must be one of stratified, fixed"),
    ({"records": 100}, "records is for noisy_set=fixed"),
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


PAPER: dict[str, Any] = {"weights": "gaussian", "noisy_set": "fixed"}

# delta at (noisy fraction, epsilon), a column for each size; Gaussian weights, fixed set, limit; labels in [-1, 1].
SIZES = [16, 32, 64, 128, 256, 512, 1024, 4096]

STDDEV_1 = """
0.01 0.5 9.4e-01 8.7e-01 7.7e-01 6.0e-01 4.0e-01 2.2e-01 1.1e-01 1.9e-02
0.01 1 9.3e-01 8.6e-01 7.4e-01 5.6e-01 3.5e-01 1.7e-01 6.2e-02 4.5e-03
0.01 2 9.2e-01 8.4e-01 7.1e-01 5.1e-01 2.8e-01 1.1e-01 2.5e-02 3.3e-04
0.01 4 9.1e-01 8.2e-01 6.7e-01 4.6e-01 2.2e-01 6.0e-02 7.0e-03 3.9e-06
0.1 0.5 5.5e-01 3.4e-01 1.8e-01 8.4e-02 3.6e-02 1.3e-02 4.0e-03 1.2e-04
0.1 1 5.1e-01 2.8e-01 1.2e-01 4.3e-02 1.2e-02 2.6e-03 3.6e-04 8.4e-07
0.1 2 4.5e-01 2.2e-01 7.0e-02 1.4e-02 1.8e-03 1.3e-04 3.9e-06 5.6e-11
0.1 4 3.9e-01 1.6e-01 3.3e-02 2.7e-03 8.1e-05 6.8e-07 1.0e-09 5.5e-19
0.5 0.5 1.4e-01 6.4e-02 2.7e-02 9.3e-03 2.6e-03 5.0e-04 5.9e-05 7.7e-08
0.5 1 8.9e-02 2.9e-02 7.6e-03 1.4e-03 1.7e-04 9.7e-06 2.1e-07 9.5e-13
0.5 2 4.2e-02 7.4e-03 8.0e-04 4.5e-05 9.6e-07 5.2e-09 4.1e-12 2.2e-22
0.5 4 1.4e-02 8.1e-04 1.6e-05 8.4e-08 6.3e-11 3.1e-15 3.2e-21 <1e-38
1 0.5 5.4e-02 2.3e-02 8.5e-03 2.4e-03 4.7e-04 5.6e-05 3.3e-06 4.2e-10
1 1 2.0e-02 5.7e-03 1.1e-03 1.3e-04 8.0e-06 1.8e-07 1.0e-09 4.2e-17
1 2 2.8e-03 3.5e-04 2.1e-05 4.8e-07 2.7e-09 2.2e-12 1.1e-16 5.2e-31
1 4 4.4e-05 1.0e-06 6.2e-09 5.1e-12 2.7e-16 2.9e-22 1.3e-30 <1e-38
"""

STDDEV_4 = """
0.01 0.5 8.9e-01 7.9e-01 6.2e-01 3.8e-01 1.5e-01 3.3e-02 4.4e-03 4.3e-05
0.01 1 8.8e-01 7.8e-01 6.0e-01 3.6e-01 1.3e-01 2.0e-02 1.0e-03 2.7e-07
0.01 2 8.8e-01 7.7e-01 5.8e-01 3.4e-01 1.1e-01 1.4e-02 2.8e-04 1.0e-10
0.01 4 8.7e-01 7.6e-01 5.7e-01 3.2e-01 1.0e-01 1.1e-02 1.3e-04 1.7e-14
0.1 0.5 3.1e-01 1.0e-01 1.7e-02 2.2e-03 2.5e-04 1.7e-05 4.9e-07 6.7e-12
0.1 1 2.8e-01 8.0e-02 8.2e-03 3.0e-04 6.2e-06 4.5e-08 6.4e-11 3.2e-20
0.1 2 2.6e-01 6.5e-02 4.5e-03 3.8e-05 3.3e-08 3.2e-12 1.1e-17 8.2e-36
0.1 4 2.5e-01 5.6e-02 3.0e-03 1.1e-05 3.3e-10 1.9e-17 7.7e-28 <1e-38
0.5 0.5 7.6e-03 1.1e-03 1.1e-04 5.7e-06 1.2e-07 6.4e-10 4.9e-13 2.6e-23
0.5 1 2.1e-03 7.0e-05 1.2e-06 5.5e-09 3.9e-12 1.8e-16 1.8e-22 <1e-38
0.5 2 5.2e-04 1.7e-06 9.0e-10 3.6e-14 3.2e-20 1.3e-28 <1e-38 <1e-38
0.5 4 2.0e-04 6.0e-08 1.3e-13 8.0e-22 1.9e-33 <1e-38 <1e-38 <1e-38
1 0.5 3.8e-04 4.4e-05 2.6e-06 5.9e-08 3.3e-10 2.6e-13 1.3e-17 6.1e-32
1 1 3.0e-06 6.7e-08 3.8e-10 3.1e-13 1.6e-17 1.7e-23 7.4e-32 <1e-38
1 2 3.3e-11 3.2e-14 1.9e-18 2.2e-24 1.0e-32 <1e-38 <1e-38 <1e-38
1 4 6.7e-25 2.5e-30 2.9e-38 <1e-38 <1e-38 <1e-38 <1e-38 <1e-38
"""


@pytest.mark.parametrize(("stddev", "table"), [(1, STDDEV_1), (4, STDDEV_4)])
def test_the_table_of_deltas(stddev: int, table: str) -> None:
    for row in table.strip().splitlines():
        fraction, epsilon, *cells = row.split()
        for size, cell in zip(SIZES, cells, strict=True):
            bags = NoisyBags(size, stddev=stddev, label_range=(-1, 1), noisy_fraction=fraction, **PAPER)
            lower, upper = (llp_delta(bags, epsilon, end=end) for end in ("lower", "upper"))
            assert lower <= upper <= lower * (1 + 1e-9) + 1e-95, row
            if cell.startswith("<"):
                assert upper < 1e-38, row
            else:
                assert f"{upper:.1e}" == cell, (row, size)


# noisy fraction, stddev, the paper's bags, stratified with Gaussian weights, stratified with +1 and -1.
SMALLEST = [
    ("0.01", 1, 39767, 39500, 7200),
    ("0.01", 2, 10650, 10400, 1800),
    ("0.01", 4, 3409, 3100, 500),
    ("0.01", 8, 1738, 1200, 200),
    ("0.1", "0.5", 15626, 15600, 2860),
    ("0.1", 1, 3975, 3950, 720),
    ("0.1", 2, 1063, 1040, 180),
    ("0.1", 4, 339, 310, 50),
    ("0.1", 8, 170, 120, 20),
    ("0.5", 1, 794, 790, 144),
    ("0.5", 2, 211, 208, 36),
    ("0.5", 4, 66, 62, 10),
    (1, "0.5", 1550, 1550, 286),
    (1, 1, 385, 385, 72),
    (1, 2, 93, 93, 18),
    (1, 4, 20, 20, 5),
    (1, 8, 2, 2, 2),
]


@pytest.mark.parametrize(("fraction", "stddev", "fixed", "stratified", "signs"), SMALLEST)
def test_the_smallest_bags(fraction: Any, stddev: Any, fixed: int, stratified: int, signs: int) -> None:
    design = {"noisy_fraction": fraction, "stddev": stddev, "label_range": (-1, 1), "epsilon": 1, "delta": 1e-6}
    assert llp_calibrate("size", **design, **PAPER).size == fixed
    assert llp_calibrate("size", **design, weights="gaussian").size == stratified
    assert llp_calibrate("size", **design).size == signs


TARGETS = {
    (0.5, 1e-6): (13165, 2632, 1305),
    (1, 1e-5): (2551, 509, 245),
    (1, 1e-8): (7923, 1582, 774),
    (2, 1e-6): (1282, 255, 114),
    (4, 1e-6): (488, 95, 33),
    (8, 1e-6): (258, 48, 7),
}


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_smallest_bags_for_other_promises(target: tuple[float, float]) -> None:
    epsilon, delta = target
    for fraction, size in zip(("0.1", "0.5", 1), TARGETS[target], strict=True):
        found = llp_calibrate("size", epsilon=epsilon, delta=delta, noisy_fraction=fraction, **UNIT, **PAPER)
        assert found.size == size


CRITEO, CENSUS = (0, 253.78), (0, 51)

# range, noisy fraction, size, delta at 1, 4, 10, 100, epsilon at 1e-5 and at 1e-2; None: no finite one.
EXPERIMENTS = [
    (CRITEO, "0.01", 32, ".998 .998 .997 .990", None, None),
    (CRITEO, "0.01", 256, ".991 .986 .980 .940", None, None),
    (CRITEO, "0.1", 32, ".989 .984 .977 .931", None, None),
    (CRITEO, "0.1", 64, ".984 .976 .965 .895", None, 1.8e5),
    (CRITEO, "0.1", 128, ".976 .964 .948 .846", 9.6e5, 2.9e4),
    (CRITEO, "0.1", 256, ".966 .948 .925 .780", 5.4e4, 1.1e4),
    (CRITEO, "0.5", 256, ".923 .884 .832 .528", 5.5e3, 1.7e3),
    (CRITEO, 1, 256, ".891 .836 .764 .371", 2.4e3, 8.3e2),
    (CENSUS, "0.1", 64, ".920 .879 .826 .522", None, 7.2e3),
    (CENSUS, "0.1", 128, ".883 .824 .747 .348", 3.9e4, 1.2e3),
    (CENSUS, "0.1", 256, ".833 .749 .643 .178", 2.2e3, 4.3e2),
    (CENSUS, "0.1", 512, ".765 .651 .511 .056", 698, 191),
    (CENSUS, "0.5", 512, ".522 .327 .154 .000", 112, 36),
    (CENSUS, 1, 512, ".387 .183 .051 .000", 56, 18),
]


@pytest.mark.parametrize(("label_range", "fraction", "size", "deltas", "tight", "loose"), EXPERIMENTS)
def test_what_the_published_experiments_promise(
    label_range: Any, fraction: Any, size: int, deltas: str, tight: float | None, loose: float | None
) -> None:
    bags = NoisyBags(size, stddev=1, label_range=label_range, noisy_fraction=fraction, **PAPER)
    assert [f"{llp_delta(bags, epsilon):.3f}"[1:] for epsilon in (1, 4, 10, 100)] == deltas.split()
    for delta, epsilon in ((1e-5, tight), (1e-2, loose)):
        found = llp_epsilon(bags, delta)
        if epsilon is None:
            assert found == math.inf or found > 1e6
        else:
            assert found == pytest.approx(epsilon, rel=0.05)


def test_the_noise_that_the_experiments_would_have_needed() -> None:
    for label_range, size, fraction, strict, relaxed in (
        (CRITEO, 256, "0.1", 629, 163),
        (CRITEO, 256, 1, 155, 40),
        (CENSUS, 512, "0.1", 78, 20),
        (CENSUS, 512, 1, 22, 5.7),
    ):
        design = {"size": size, "noisy_fraction": fraction, "label_range": label_range, **PAPER}
        assert llp_calibrate("stddev", epsilon=1, delta=1e-6, **design).stddev == pytest.approx(strict, rel=0.02)
        assert llp_calibrate("stddev", epsilon=4, delta=1e-5, **design).stddev == pytest.approx(relaxed, rel=0.02)
