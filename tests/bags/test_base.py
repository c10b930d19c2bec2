"""Bags by hand, what is published about them, and what a ledger keeps of them."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import labeldp as ldp
from labeldp import BagSum, Classes, Interval
from labeldp.bags import NoisyWeightedLLP, WeightedLBA, random_bags
from labeldp.bags.base import median_bags
from labeldp.bags.lba import Leverages
from labeldp.bags.llp import WEIGHT_FAILURE
from labeldp.mechanisms import CELL_FAILURE, Groups
from labeldp.sampling import NORMAL_ERROR, WordStream, normals
from mechanisms.examples import public

KEY = ldp.KeyedRandomness(b"bags".ljust(32, b".")).bind(b"a test")

TENTHS = Interval(0, 1, grid=11)


def rows(count: int, columns: int = 2, seed: int = 0) -> Any:
    """Public features."""
    return public(np.random.default_rng(seed).normal(size=(count, columns)))


def test_median_bags_by_hand() -> None:
    """Column 1 spreads wider than column 0, which has two values only; its lower half comes first."""
    table = [[0, 5], [1, 1], [0, 2], [1, 8], [0, 3], [1, 9]]
    assert median_bags(public(table), 3).value.tolist() == [1, 0, 0, 1, 0, 1]
    assert median_bags(public(table), 3).why.startswith("bags were halved at medians")
    assert median_bags(public(np.array(table) * [1e9, 1e-9]), 3).value.tolist() == [1, 0, 0, 1, 0, 1]


def test_bags_have_equal_sizes_whatever_the_features_are() -> None:
    for count, size in ((1000, 64), (1000, 1), (63, 32), (64, 64), (129, 64)):
        for table in (rows(count).value, np.zeros((count, 1)), np.full((count, 2), np.nan)):
            sizes = np.bincount(median_bags(public(table), size).value)
            assert len(sizes) == count // size and size <= sizes.min() and sizes.max() <= size + -(-size // len(sizes))
        assert np.bincount(ldp.bags.random_bags(count, size).value).min() >= size


def test_bags_are_alike_in_their_features() -> None:
    table = rows(4096, 3).value
    means = [
        table[bags.value == 0].std(axis=0).mean()
        for bags in (median_bags(public(table), 64), ldp.bags.random_bags(4096, 64))
    ]
    assert means[0] < means[1] / 2


def test_released_features_leave_their_certificate() -> None:
    release = ldp.Curator([0, 1, 1, 0], domain=Classes(2), budget=ldp.Budget(epsilon=1)).release(
        ldp.RandomizedResponse(domain=Classes(2), epsilon=1), rng=ldp.SystemRandomness()
    )
    features = release.map(lambda labels: labels[:, None].astype(float))
    assert BagSum(2, domain=TENTHS, epsilon=1, features=features).basis[0] == release.certificate


@pytest.mark.guarantee("labeldp.bags:BagSum", "approximate")
@pytest.mark.guarantee("labeldp.bags:BagSum", "pure")
def test_sums_and_means_by_hand() -> None:
    sums = BagSum(2, bags=public([1, 0, 1, 0, 1]), domain=Interval(10, 20, grid=11), epsilon=1000)
    codes = sums.domain.encode([11, 20, 13, 14, 18])
    assert sums.sums(codes).tolist() == [14, 12]
    released = sums.randomize(codes, rng=np.random.default_rng(0))  # so much epsilon that there is no noise
    assert sums.totals(released) == pytest.approx([34, 42])
    assert sums.means(released) == pytest.approx([17, 14])
    assert sums.with_epsilon(0.5).privacy_loss() == ldp.PrivacyLoss.pure(0.5)
    gaussian = BagSum(2, bags=sums_bags(), noise="gaussian", domain=Interval(10, 20, grid=11), epsilon=1, delta=1e-6)
    assert gaussian.noise_stddev == pytest.approx(10 * 4.2247, rel=1e-3)
    assert gaussian.privacy_loss().within(1, 1e-6) and not gaussian.privacy_loss().within(0.999, 1e-6)
    assert BagSum(2, bags=sums_bags(), domain=Interval(10, 20), epsilon=0.5).noise_stddev == pytest.approx(20 * 2**0.5)


def sums_bags() -> Any:
    """Two bags of five records."""
    return public([1, 0, 1, 0, 1])


def test_noise_is_that_of_the_whole_range_and_unbiased() -> None:
    sums = BagSum(2, bags=sums_bags(), domain=TENTHS, epsilon=2)
    many = np.array([sums.totals(sums.randomize([1, 2, 3, 4, 5], rng=np.random.default_rng(i))) for i in range(4000)])
    assert many.mean(axis=0) == pytest.approx([0.6, 0.9], abs=7 * sums.noise_stddev / 60)
    assert many.std(axis=0) == pytest.approx([sums.noise_stddev] * 2, rel=0.15)


@pytest.mark.guarantee("labeldp.bags:NoisyWeightedLLP", "approximate")
@pytest.mark.parametrize("weights", ["rademacher", "gaussian"])
def test_what_is_published_can_be_opened(weights: str) -> None:
    llp = NoisyWeightedLLP(5, 2, "0.001", weights, domain=Interval(-1, 1, grid=201), features=rows(43))
    labels = np.random.default_rng(1).integers(0, 201, 43)
    shown = llp.released_sums(llp.randomize(labels, rng=KEY))
    exact = np.bincount(shown.bags, weights=shown.weights * llp.domain.decode(labels))
    assert np.all(np.abs(shown.sums - exact) < 9 * shown.noise_stddev)
    assert np.bincount(shown.bags, weights=shown.noisy).tolist() == [2] * 8
    squares = np.bincount(shown.bags[shown.noisy], weights=shown.weights[shown.noisy] ** 2)
    assert np.all(shown.noise_stddev >= 0.001 * np.sqrt(squares) * (1 - 1e-3))
    assert np.all(shown.noise_stddev <= 0.001 * np.sqrt(squares) * 1.016 + 1e-6)
    if weights == "rademacher":
        assert set(np.abs(shown.weights)) == {1.0}
    again, other = llp.randomize(labels[::-1], rng=KEY), llp.randomize(labels, rng=ldp.SystemRandomness())
    assert np.array_equal(llp.released_sums(again).weights, shown.weights)
    assert not np.array_equal(llp.released_sums(other).weights, shown.weights)


def test_golden_sizes() -> None:
    """72 records with signs and 385 with normal weights keep (1, 1e-6) at B1 = stddev = 1; one less does not."""
    for weights, enough in (("rademacher", 72), ("gaussian", 385)):
        for size in (enough, enough - 1):
            bags = ldp.bags.random_bags(4 * size, size)
            llp = NoisyWeightedLLP(size, size, 1, weights, domain=Interval(-1, 1), bags=bags)
            assert llp.privacy_loss().within(1, 1e-6) == (size == enough)


def test_the_paper_faithful_design_is_figure_2() -> None:
    llp = NoisyWeightedLLP(64, 6, 1.0, domain=Interval(0, 253.78), features=rows(6400), paper_faithful=True)
    released = llp.randomize(np.zeros(6400, dtype=np.uint16), rng=KEY)
    shown = llp.released_sums(released)
    assert shown.noisy.sum() == 600 and len(set(np.bincount(shown.bags, weights=shown.noisy))) > 3
    assert llp.weights == "gaussian"
    assert llp.law.noisy_set == "fixed" and llp.law.records == 6400
    assert llp.privacy_loss().delta(1) > 0.98


def test_equal_priorities_and_large_bags_are_counted() -> None:
    """Words of noisy records may be equal: the larger a bag, the likelier that this concerns it."""
    small, large = (
        NoisyWeightedLLP(size, size, 1, "gaussian", domain=Interval(-1, 1), bags=random_bags(size, size)).failure
        for size in (1 << 12, 1 << 13)
    )
    assert small == WEIGHT_FAILURE + CELL_FAILURE and large == 2 * WEIGHT_FAILURE + CELL_FAILURE


def test_normal_weights_are_normal() -> None:
    source = ldp.SystemRandomness()
    many = normals(WordStream(source, source.record_ids(None, 1_000_000)))
    law = multivariate_normal(0, 1)
    for place in (-3.0, -1, -1e-3, 0, 0.5, 1, 2, 4):
        share = float(law.cdf(place))
        assert abs(np.mean(many < place) - share) <= 7.1 * math.sqrt(share * (1 - share) / len(many))
    assert len(np.unique(many)) > 999_000


class Listed:
    """A stream for one cell whose words are listed."""

    def __init__(self, *words: int) -> None:
        self._words = list(words)

    def __len__(self) -> int:
        return 1

    def words(self, cells: Any) -> Any:
        return np.array([self._words.pop(0)], dtype=np.uint64)


@pytest.mark.parametrize("large", [0, 1])
@pytest.mark.parametrize(
    ("words", "coin"), [((3, 9), ()), ((0, 1 << 63), ()), ((0, 5), (7,)), ((0, 0), (0, 1, 1 << 60)), ((1 << 52, 8), ())]
)
def test_small_uniform_numbers_are_as_accurate_as_large_ones(
    words: tuple[int, ...], coin: tuple[int, ...], large: int
) -> None:
    """The first two words, and a coin; where they hold too few bits, the words after the coin continue the number."""
    drawn = abs(float(normals(Listed(*words, large, *coin, 1 << 63))[0]))  # type: ignore[arg-type]
    ends = []
    with mpmath.workdps(80):
        for last in (0, 1):
            bits = 64 * (len(words) + len(coin))
            number = mpmath.mpf(sum(word << (bits - 64 * (i + 1)) for i, word in enumerate((*words, *coin))) + last)
            share = number / 2 / mpmath.mpf(2) ** bits
            if large:
                start = drawn / math.sqrt(2)
                root = mpmath.findroot(lambda x, share=share: mpmath.log(mpmath.erfc(x) / share), start)
            else:
                root = mpmath.erfinv(share)
            ends.append(mpmath.sqrt(2) * root)
        assert min(ends) * (1 - NORMAL_ERROR) <= drawn <= max(ends) * (1 + NORMAL_ERROR)
        assert abs(ends[1] / ends[0] - 1) < NORMAL_ERROR, "the words decide the number up to its error"


def test_inverse_error_functions_are_as_accurate_as_the_proof_says() -> None:
    from scipy.special import erfcinv, erfinv

    with mpmath.workdps(40):
        for share in [2.0**-power * 1.37 for power in range(2, 77)]:
            small, large = (
                mpmath.erfinv(share),
                -mpmath.findroot(lambda x, share=share: mpmath.log(mpmath.erfc(-x) / share), -float(erfcinv(share))),
            )
            assert abs(erfinv(share) / small - 1) < 2.0**-50
            assert abs(erfcinv(share) / large - 1) < 2.0**-50


def test_hat_matrices_by_hand() -> None:
    """One column of ones: every entry of the hat matrix is 1/k. A column that is zero but once: that record has 1."""
    bags = Groups.of(public([0] * 4 + [1] * 5))
    found = Leverages.of(np.ones((9, 1)), bags)
    assert found.largest == pytest.approx(0.25) and found.cross == pytest.approx(0.8) and not found.full
    spike = np.eye(9)[:, :1]
    assert Leverages.of(spike, bags).largest == pytest.approx(1)
    assert Leverages.of(np.eye(9)[:, :4], bags).full
    large = Leverages.of(np.ones((5000, 1)), Groups.of(public([0] * 5000)))
    assert large.cross >= 4999 / 5000


def test_a_time_in_nanoseconds_hides_no_other_feature() -> None:
    """Units do not matter: a record that is alone in a category has leverage 1 beside a column of any size."""
    rng, bags = np.random.default_rng(0), Groups.of(public(np.repeat([0, 1], 50)))
    table = np.column_stack([1.7 + 0.01 * rng.random(100), np.eye(100)[:, 0], rng.normal(size=100)])
    for scales in ([1, 1, 1], [1e18, 1, 1e-9], [1e-90, 1e90, 1]):
        found = Leverages.of(table * scales, bags)
        assert found.largest == pytest.approx(1) and found.lost < 2.0**-45
        assert found.cross == pytest.approx(Leverages.of(table, bags).cross)


def test_columns_that_depend_on_others_count_once() -> None:
    """A constant beside indicators of two halves adds nothing; what is left out is below a rounding error."""
    halves = np.repeat(np.eye(2), 5, axis=0)
    found = Leverages.of(np.column_stack([np.ones(10), halves, 3e9 * halves[:, 0]]), Groups.of(public([0] * 10)))
    assert found.largest == pytest.approx(0.2) and found.cross == pytest.approx(0.8) and not found.full
    assert 0 < found.lost < 2.0**-45


def test_what_a_span_misses_is_counted_in_the_grid() -> None:
    """A column within 2^-47 of another is left out, and the sums are rounded to a grid that covers it."""
    near = np.ones((64, 1)) + 2.0**-47 * np.eye(64)[:, :1]
    made = WeightedLBA(64, domain=TENTHS, features=public(np.hstack([np.ones((64, 1)), near])), epsilon=1, delta=1e-6)
    assert made.leverages.lost > 2.0**-52 and made.leverages.largest < 0.1
    assert made.units[0] >= made.leverages.lost * 8 * 8


@pytest.mark.guarantee("labeldp.bags:WeightedLBA", "approximate")
def test_secret_weights_are_published_nowhere(tmp_path: Path) -> None:
    domain = Interval(-1, 1, grid=21)
    ledger = ldp.LedgerFile(tmp_path / "ledger").dataset("people", budget=ldp.Budget(epsilon=2, delta=1e-4))
    features = rows(200)
    lba = WeightedLBA(50, domain=domain, features=features, epsilon=1, delta=1e-5)
    release = ldp.Curator(np.zeros(200), domain=domain, ledger=ledger).release(lba, rng=ldp.SystemRandomness())
    assert release.value.shape == (4, 3)
    assert lba.law.residual_square == pytest.approx(lba.noise_stddev**2)
    assert lba.privacy_loss().within(1, 1e-5)
    assert "the weights stay secret and are deleted" in release.certificate.published
    assert "UNCHECKED" not in release.certificate.at(1e-5)
    assert "public bags (the weights stay secret" in release.certificate.published
    arrays = {name for name, value in vars(lba).items() if isinstance(value, np.ndarray)}
    assert arrays <= {"table", "units"}


@pytest.mark.guarantee("labeldp.bags:WeightedLBA", "condition")
def test_a_condition_is_said_in_words() -> None:
    domain = Interval(-1, 1, grid=21)
    lba = WeightedLBA(50, bag_noise=0, assumed_residual_square=40, domain=domain, features=rows(200))
    budget = ldp.Budget(epsilon=9, delta=1e-4)
    release = ldp.Curator(np.zeros(200), domain=domain, budget=budget).release(lba, rng=ldp.SystemRandomness())
    sentence = release.certificate.at(1e-4)
    assert "Conditions:" in sentence
    assert "a squared distance of at least 40 from the nearest linear function of the features" in sentence
    assert "UNCHECKED" in sentence and "can be revealed" in sentence


MAKERS: dict[str, Callable[[], Any]] = {
    "laplace": lambda: BagSum(8, domain=TENTHS, epsilon=0.5, features=rows(40)),
    "gaussian": lambda: BagSum(8, noise="gaussian", domain=TENTHS, epsilon=0.5, delta=1e-6, features=rows(40)),
    "signs": lambda: NoisyWeightedLLP(8, 3, 5, domain=TENTHS, features=rows(40)),
    "normal": lambda: NoisyWeightedLLP(8, 3, 5, "gaussian", domain=TENTHS, features=rows(40)),
    "secret": lambda: WeightedLBA(20, 2, domain=TENTHS, features=rows(40), epsilon=0.5, delta=1e-6),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_durable_ledger_finds_a_release_again(name: str, tmp_path: Path) -> None:
    labels = np.arange(40) % 11 / 10
    budget = ldp.Budget(epsilon=1, delta=1e-3) if name not in ("signs", "normal") else ldp.Budget(epsilon=9, delta=0.1)
    released = []
    for _ in range(2):
        ledger = ldp.LedgerFile(tmp_path / "ledger").dataset("people", budget=budget)
        curator = ldp.Curator(labels, domain=TENTHS, ledger=ledger)
        released.append(curator.release(MAKERS[name](), rng=ldp.SystemRandomness()))
    assert np.array_equal(released[0].value, released[1].value)
    assert len(ledger.charges) == 1
    assert released[0].certificate == released[1].certificate
    assert "the bags do not depend on the private labels" in released[0].certificate.at(1e-3)


@pytest.mark.parametrize("bags", [{}, {"bags": "median"}, {"bags": ldp.Public(np.arange(40) // 20, why="by street")}])
@pytest.mark.parametrize("assumed", [0.0, 0.1])
def test_secret_weights_rest_on_bags_and_on_features(bags: dict[str, Any], assumed: float) -> None:
    """Both reasons stand in the certificate: weighted sums of the features are released beside those of the labels."""
    features = ldp.Public(rows(40).value, why="they came from a register")
    noise = {"bag_noise": 1.0, "assumed_residual_square": assumed}
    lba = WeightedLBA(20, 2, domain=TENTHS, features=features, **noise, **bags)
    curator = ldp.Curator(np.arange(40) % 11 / 10, domain=TENTHS, budget=ldp.Budget(epsilon=1000, delta=0.9))
    said = curator.release(lba, rng=ldp.SystemRandomness()).certificate.at(0.5)
    assert "the features do not depend on the private labels (they came from a register)" in said
    assert f"the bags do not depend on the private labels ({lba.public_inputs[0].why})" in said
    assert ("by street" in said) == (bags.get("bags") not in (None, "median"))
    assert ("UNCHECKED" in said) == bool(assumed)


@pytest.mark.parametrize("name", MAKERS)
def test_keyed_noise_is_the_same_again_and_no_two_bags_share_it(name: str) -> None:
    mechanism = MAKERS[name]()
    labels = np.full(40, 3)
    first, again = (mechanism.randomize(labels, rng=KEY) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, mechanism.randomize(labels, rng=ldp.SystemRandomness()))
    keys = (ldp.KeyedRandomness(bytes([number]) * 32).bind(b"a test") for number in range(20))
    many = np.stack([mechanism.randomize(labels, rng=key) for key in keys], axis=1)  # (bags, keys, …)
    assert len(np.unique(many, axis=0)) == len(first)  # two bags may draw the same once, but not every time


@pytest.mark.parametrize("kind", [{}, {"weights": "gaussian"}, {"paper_faithful": True}])
def test_as_little_noise_as_keeps_what_is_asked(kind: dict[str, Any]) -> None:
    bags = ldp.bags.random_bags(400, 100)
    llp = NoisyWeightedLLP(100, 60, "auto", domain=Interval(0, 3), bags=bags, epsilon=1, delta=1e-5, **kind)
    assert llp.privacy_loss().within(1, 1e-5) and not llp.privacy_loss().within(1, 0.99e-5)
    assert llp.parameters()["delta"] == "1/100000" and "for epsilon = 1, delta = 1e-05" in str(llp)
    assert llp == NoisyWeightedLLP(100, 60, "auto", domain=Interval(0, 3), bags=bags, epsilon=1, delta=1e-5, **kind)
