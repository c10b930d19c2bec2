"""Sums of public rows with private labels: exact sums, exact integer noise, what is refused."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import labeldp as ldp
from labeldp.mechanisms import (
    Classes,
    CrossMoment,
    GaussianMoment,
    Interval,
    LaplaceMoment,
    gaussian_loss,
    smallest_stddev,
)
from labeldp.privacy import InputError, KeyedRandomness, Public, SystemRandomness, Trust
from labeldp.privacy.randomness import SimulatedRandomness
from labeldp.sampling import MAX_STDDEV, WordStream, discrete_gaussian
from labeldp.testing import ContractViolation, check_mechanism
from mechanisms.examples import public

FALSE_ALARM = 1e-12


def simulated(cells: int, seed: int) -> WordStream:
    """A stream of many cells."""
    return WordStream(SimulatedRandomness(np.random.default_rng(seed)), np.zeros(cells, dtype=np.uint64))


def gaussian(features: Any, **arguments: Any) -> GaussianMoment:
    """Three classes at epsilon 1 and delta 1e-6, where nothing else is said."""
    defaults = {"domain": Classes(3), "epsilon": 1.0, "delta": 1e-6}
    return GaussianMoment(**{**defaults, **arguments}, features=public(features))


def statistic(noise: np.ndarray, stddev: float, parameter: float) -> tuple[float, float]:
    """Chi-squared of the noise against the integer Gaussian law, and its limit."""
    edges = np.unique(np.rint(np.linspace(-4, 4, 41) * stddev).astype(np.int64))
    support = np.arange(-14 * math.ceil(parameter), 14 * math.ceil(parameter) + 1)
    masses = np.exp(-0.5 * (support / parameter) ** 2)
    law = np.bincount(np.searchsorted(edges, support), weights=masses, minlength=len(edges) + 1)
    expected = law / masses.sum() * len(noise)
    counts = np.bincount(np.searchsorted(edges, noise), minlength=len(edges) + 1)
    used = expected > 5
    found = float(np.sum((counts - expected)[used] ** 2 / expected[used]))
    return found, float(chi2.isf(FALSE_ALARM, int(used.sum()) - 1))


@pytest.mark.guarantee("labeldp.sampling:discrete_gaussian", "law")
@pytest.mark.parametrize("stddev", [1, 2, 3, 17, 1000, 99_991])
@pytest.mark.parametrize("source", ["simulated", "system", "keyed"])
def test_integer_gaussian_noise_follows_its_law_and_no_other(stddev: int, source: str) -> None:
    count = 40_000
    randomness = {"simulated": None, "system": SystemRandomness(), "keyed": KeyedRandomness(b"k" * 32)}[source]
    stream = WordStream(randomness, randomness.record_ids(None, count)) if randomness else simulated(count, 5)
    noise = discrete_gaussian(stream, stddev)
    found, limit = statistic(noise, stddev, stddev)
    assert found < limit
    found, limit = statistic(noise, stddev, stddev / 1.1)  # the noise of 10 % more epsilon
    assert found > limit


def test_the_largest_noise_fits_into_64_bits_and_more_is_refused() -> None:
    noise = discrete_gaussian(simulated(20_000, 1), MAX_STDDEV) / MAX_STDDEV
    assert abs(noise.std() - 1) < 0.05 and abs(noise.mean()) < 0.05 and np.abs(noise).max() < 10
    for wrong in (0, MAX_STDDEV + 1):
        with pytest.raises(InputError, match="does not fit into 64 bits"):
            discrete_gaussian(simulated(1, 1), wrong)


def test_sums_are_exact_integers_of_the_rounded_rows() -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(70_000, 7)), rng.integers(0, 3, 70_000)
    mechanism = gaussian(rows, clip=2.5)
    steps = np.rint(rows * np.minimum(1, 2.5 / np.linalg.norm(rows, axis=1))[:, None] * 4096 / 2.5).astype(object)
    expected = steps.T @ np.eye(3, dtype=int)[labels].astype(object)
    assert np.array_equal(mechanism.sums(labels), expected.astype(np.int64))
    assert mechanism.sums(labels).dtype == np.int64
    assert mechanism.rows.square == max((steps**2).sum(axis=1))
    assert np.allclose(mechanism.moment(mechanism.sums(labels)), mechanism.values().T @ np.eye(3)[labels])


class Computed:
    """Rows a block at a time, which may change from one time to the next."""

    def __init__(self, rows: np.ndarray, *, changes: bool = False) -> None:
        self.rows, self.shape, self.changes, self.blocks = rows, rows.shape, changes, 0

    def block(self, start: int, stop: int) -> np.ndarray:
        self.blocks += 1
        return self.rows[start:stop] + self.changes * self.blocks


@pytest.mark.parametrize("make", [GaussianMoment, LaplaceMoment])
@pytest.mark.parametrize("domain", [Classes(3), Interval(0, 2, grid=3)])
def test_rows_that_are_computed_block_by_block_are_the_same_mechanism(make: Any, domain: Any) -> None:
    rng = np.random.default_rng(0)
    rows, codes = rng.normal(size=(70_000, 3)), rng.integers(0, 3, 70_000).astype(domain.dtype)
    asked = {"domain": domain, "epsilon": 1.0, "clip": 1.5} | ({"delta": 1e-6} if make is GaussianMoment else {})
    held, computed = (make(features=Public(each, why="a test"), **asked) for each in (rows, Computed(rows)))
    assert held.specification() == computed.specification() and held == computed
    assert held.privacy_loss() == computed.privacy_loss()
    assert np.array_equal(held.sums(codes), computed.sums(codes))
    assert np.array_equal(held.values(), computed.values())
    drawn = [each.randomize(codes, rng=np.random.default_rng(1)) for each in (held, computed)]
    assert np.array_equal(*drawn) and np.array_equal(held.moment(drawn[0]), computed.moment(drawn[0]))


def test_rows_that_change_while_they_are_summed_release_nothing() -> None:
    """Their length was taken for the noise: longer ones could tell more than was promised."""
    given = Public(Computed(np.ones((10, 2)), changes=True), why="a test")
    with pytest.raises(InputError, match="clip must be given"):
        GaussianMoment(domain=Classes(2), epsilon=1, delta=1e-6, features=given)
    mechanism = GaussianMoment(domain=Classes(2), epsilon=1, delta=1e-6, features=given, clip=100.0)
    holder = ldp.Curator(np.zeros(10, int), domain=Classes(2), budget=ldp.Budget(2, 1e-5))
    with pytest.raises(InputError, match="features changed while they were summed"):
        holder.release(mechanism, rng=np.random.default_rng(0))


def test_numbers_are_summed_on_their_grid() -> None:
    rng = np.random.default_rng(1)
    domain = Interval(-3, 5, grid=17)
    rows, labels = rng.normal(size=(40_000, 4)), rng.uniform(-3, 5, 40_000)
    mechanism = gaussian(rows, domain=domain)
    codes = domain.encode(labels)
    assert np.array_equal(mechanism.sums(codes)[:, 0], codes.astype(int) @ mechanism.rows.steps.astype(int))
    assert np.allclose(mechanism.moment(mechanism.sums(codes))[:, 0], domain.decode(codes) @ mechanism.values())


@pytest.mark.parametrize("make", [GaussianMoment, LaplaceMoment])
@pytest.mark.parametrize("domain", [Classes(4), Interval(0, 1, grid=9)])
def test_one_label_moves_the_sums_as_far_as_is_charged(make: Callable[..., CrossMoment], domain: Any) -> None:
    """The largest move is reached: the sensitivity is no larger than it must be."""
    rows = np.random.default_rng(2).normal(size=(12, 3))
    extra = {"delta": 1e-6} if make is GaussianMoment else {}
    mechanism = make(domain=domain, epsilon=1.0, features=public(rows), **extra)
    base, squares, sums = np.zeros(12, dtype=np.uint8), [], []
    for record in range(12):
        changed = base.copy()
        changed[record] = domain.size - 1
        move = mechanism.sums(changed) - mechanism.sums(base)
        squares.append(int((move**2).sum()))
        sums.append(int(np.abs(move).sum()))
    assert max(squares) == mechanism.sensitivity_square
    assert max(sums) == mechanism.sensitivity_sum


AROUND = {"domain": Interval(0, 50, grid=51), "centers": public([3, 40, 25, 0, 50, 20])}


def test_distances_from_centers_are_summed_within_their_reach_or_counted_by_bins() -> None:
    rows, codes = np.random.default_rng(2).normal(size=(6, 3)), np.array([0, 50, 25, 50, 45, 26], dtype=np.uint8)
    distances = np.array([-3, 10, 0, 50, -5, 6])
    near = gaussian(rows, **AROUND, reach=5)
    assert np.array_equal(near.sums(codes)[:, 0], (np.clip(distances, -5, 5) + 5) @ near.rows.steps.astype(int))
    assert np.allclose(near.moment(near.sums(codes))[:, 0], np.clip(distances, -5, 5) @ near.values())
    assert near.noise_stddev == pytest.approx(gaussian(rows, domain=Interval(0, 10, grid=11)).noise_stddev, rel=1e-3)
    assert gaussian(rows, **AROUND, reach=40).sensitivity_square == 50**2 * near.rows.square  # not 80: codes end at 50
    counts = gaussian(np.ones((6, 1)), resolution=1, **AROUND, bins=4)  # of 0-6, 7-12, 13-24 and 25-50
    assert counts.sums(codes).tolist() == [[4, 1, 0, 1]] and counts.sensitivity_square == 2
    assert near.specification() != gaussian(rows, **{**AROUND, "centers": public([3] * 6)}, reach=5).specification()


def test_each_block_of_records_is_compared_with_its_own_centers(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, codes = np.random.default_rng(2).normal(size=(6, 3)), np.array([0, 50, 25, 50, 45, 26], dtype=np.uint8)
    whole = gaussian(rows, **AROUND, reach=5).sums(codes)
    monkeypatch.setattr("labeldp.mechanisms.inputs.BLOCK", 2)
    assert np.array_equal(gaussian(rows, **AROUND, reach=5).sums(codes), whole)


@pytest.mark.parametrize("arguments", [{"reach": 2}, {"bins": 3}])
def test_distances_that_are_not_clipped_are_caught(arguments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the centers are: labels near them, and labels at the other end of the range."""
    mechanism = gaussian(np.ones((3, 1)), domain=Interval(0, 9, grid=10), centers=public([0, 4, 9]), **arguments)
    check_mechanism(mechanism)

    def whole(self: Any, codes: Any, records: slice) -> Any:
        return np.abs(codes.astype(np.int64) - self.places.of_record[records])

    monkeypatch.setattr(CrossMoment, "_counted", whole)
    monkeypatch.setattr(Classes, "unit_sums", Interval.unit_sums)
    with pytest.raises(ContractViolation, match="a replaced label moves no further than said"):
        check_mechanism(gaussian(np.ones((3, 1)), **{**AROUND, "centers": public([0, 4, 9])}, **arguments))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"centers": np.zeros(4, int), "reach": 2}, "centers must be Public"),
        ({"centers": public([0, 1]), "reach": 2}, "centers must be a code of the domain for each record"),
        ({"centers": public([0, 1, 2, 51]), "reach": 2}, "centers must be a code of the domain for each record"),
        ({"centers": public([0, 1, 2, 3])}, "centers must come with a reach or bins"),
        ({"centers": public([0, 1, 2, 3]), "reach": 2, "bins": 2}, "centers must come with a reach or bins"),
        ({"centers": public([0, 1, 2, 3]), "reach": 51}, "reach must be an integer from 1 to 50"),
        ({"reach": 2}, "centers must be Public"),
        ({"centers": public([0, 1, 2, 1]), "reach": 1, "domain": Classes(3)}, "domain must be an Interval"),
    ],
)
def test_centers_that_do_not_fit_are_refused(arguments: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        gaussian(np.ones((4, 2)), **{"domain": AROUND["domain"], **arguments})


@pytest.mark.guarantee("labeldp.mechanisms:GaussianMoment", "approximate")
@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "4"])
@pytest.mark.parametrize("delta", ["1e-6", "1e-3"])
def test_just_enough_noise(epsilon: str, delta: str) -> None:
    mechanism = gaussian(np.random.default_rng(3).normal(size=(30, 5)), epsilon=epsilon, delta=delta)
    loss = mechanism.privacy_loss()
    assert loss.within(epsilon, delta)
    assert not gaussian_loss(mechanism.sensitivity_square, mechanism.stddev - 1, 15).within(epsilon, delta)
    assert not loss.within(epsilon, Fraction(delta) * Fraction("0.99"))
    assert loss.epsilon(delta) == pytest.approx(float(epsilon), rel=1e-3)


@pytest.mark.guarantee("labeldp.mechanisms:LaplaceMoment", "pure")
def test_pure_noise_is_pure() -> None:
    mechanism = LaplaceMoment(domain=Classes(2), epsilon=0.7, features=public([[3.0, -4.0], [1.0, 0.0]]), resolution=10)
    assert mechanism.rows.steps.tolist() == [[6, -8], [2, 0]]
    assert mechanism.sensitivity_sum == 28
    assert mechanism.rate == Fraction(7, 280)
    assert mechanism.privacy_loss().epsilon(0) == 0.7


@pytest.mark.parametrize("make", [GaussianMoment, LaplaceMoment])
def test_the_stated_spread_is_the_spread(make: Callable[..., CrossMoment]) -> None:
    extra = {"delta": 1e-6} if make is GaussianMoment else {}
    mechanism = make(domain=Interval(0, 50, 26), epsilon=1.0, features=public(np.ones((1, 40_000)) / 200), **extra)
    labels = np.array([3], dtype=np.uint8)
    error = mechanism.moment(mechanism.randomize(labels, rng=np.random.default_rng(4))) - 6 * mechanism.values().T
    assert error.std() == pytest.approx(mechanism.noise_stddev, rel=0.04)
    assert abs(error.mean()) < 0.05 * mechanism.noise_stddev


def test_keyed_noise_repeats_and_another_mechanism_has_another() -> None:
    rows = np.random.default_rng(5).normal(size=(9, 4))
    labels, key = np.arange(9) % 3, KeyedRandomness(b"k" * 32).bind(b"a test")
    first, second = (gaussian(rows).randomize(labels, rng=key) for _ in range(2))
    assert np.array_equal(first, second)
    other = gaussian(rows, resolution=4095).randomize(labels, rng=key)
    assert not np.array_equal(first - gaussian(rows).sums(labels), other - gaussian(rows, resolution=4095).sums(labels))
    assert len(np.unique(first - gaussian(rows).sums(labels))) == 12


def test_a_release_is_central_and_has_its_delta() -> None:
    curator = ldp.Curator([0, 1, 2], domain=Classes(3), budget=ldp.Budget(epsilon=1, delta=1e-6))
    release = curator.release(gaussian(np.eye(3)), rng=np.random.default_rng(6))
    assert release.certificate.trust is Trust.CENTRAL
    sentence = release.certificate.at(1e-6)
    assert "ε = 1, δ = 1e-06" in sentence or "ε = 0.99" in sentence
    assert "a trusted curator sees the labels" in sentence
    assert "the features do not depend on the private labels" in sentence
    assert release.certificate.epsilon(0) == math.inf
    with pytest.raises(ldp.BudgetExceeded):
        curator.release(gaussian(np.eye(3)), rng=np.random.default_rng(6))


REFUSED = {
    "a bare array": (lambda: GaussianMoment(domain=Classes(2), epsilon=1, delta=1e-6, features=np.eye(2)), "Public"),
    "texts": (lambda: gaussian([["a", "b"]]), "must be real numbers"),
    "complex": (lambda: gaussian(np.eye(2) + 1j), "must be real numbers"),
    "one dimension": (lambda: gaussian([1.0, 2.0]), "shape"),
    "no column": (lambda: gaussian(np.zeros((3, 0))), "at least one row and column"),
    "not finite": (lambda: gaussian([[np.nan, 1.0]]), "finite"),
    "only zeros": (lambda: gaussian(np.zeros((3, 2))), "must not be zero"),
    "rounded to zero": (lambda: gaussian([[1.0]], clip=1e9), "rounded to zero"),
    "a negative clip": (lambda: gaussian(np.eye(2), clip=-1.0), "clip must be a positive finite norm"),
    "an endless clip": (lambda: gaussian(np.eye(2), clip=math.inf), "clip must be a positive finite norm"),
    "a fine resolution": (lambda: gaussian(np.eye(2), resolution=1 << 15), "resolution"),
    "no delta": (lambda: gaussian(np.eye(2), delta=0), "delta must lie in"),
    "epsilon": (lambda: gaussian(np.eye(2), epsilon=0), "epsilon must be positive"),
    "a tiny epsilon": (lambda: gaussian(np.eye(2), epsilon="1e-12", delta="1e-30"), "too small for integer noise"),
    "a tiny pure epsilon": (
        lambda: LaplaceMoment(domain=Classes(2), epsilon="1e-9", features=public(np.eye(2))),
        "too small for integer noise",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        make()


def test_labels_of_other_records_are_refused_and_nothing_is_charged() -> None:
    curator = ldp.Curator([0, 1], domain=Classes(3), budget=ldp.Budget(epsilon=1, delta=1e-6))
    with pytest.raises(InputError, match="labels must hold 3 records"):
        curator.release(gaussian(np.eye(3)), rng=np.random.default_rng(0))
    assert curator.ledger.charges == ()
    with pytest.raises(ldp.privacy.DomainError, match="declared domain"):
        gaussian(np.eye(3)).randomize([0, 1, 3], rng=np.random.default_rng(0))


def test_rows_that_were_released_are_taken_as_they_are() -> None:
    curator = ldp.Curator([0, 1], domain=Classes(2), budget=ldp.Budget(epsilon=5))
    release = curator.release(ldp.RandomizedResponse(domain=Classes(2), epsilon=1), rng=np.random.default_rng(0))
    mechanism = GaussianMoment(
        domain=Classes(2), epsilon=1, delta=1e-6, features=release.map(lambda labels: np.eye(2)[labels])
    )
    assert mechanism.assumptions == ()
    assert mechanism == GaussianMoment(
        domain=Classes(2), epsilon=1, delta=1e-6, features=Public(np.eye(2)[release.value], why="a test")
    )


def test_calibration_is_that_of_the_continuous_mechanism_up_to_the_integers() -> None:
    """c(1, 1e-6) = 4.2247, from the formula of Balle and Wang in another program."""
    assert smallest_stddev(10**12, 1000, Fraction(1), Fraction("1e-6")) / 1e6 == pytest.approx(4.22468, abs=1e-4)


class OneColumn(GaussianMoment):
    """Forgets that a replaced label moves two columns."""

    @property
    def sensitivity_square(self) -> int:
        return self.rows.square


class Quiet(GaussianMoment):
    """Draws less noise than it claims: that of 10 % more epsilon."""

    def draw(self, stream: WordStream) -> Any:
        return discrete_gaussian(stream, self.with_epsilon(self.epsilon * 1.1).stddev)


class Rounded(GaussianMoment):
    """Draws continuous noise and rounds it down, so that its middle is off by half a step."""

    def draw(self, stream: WordStream) -> Any:
        return np.floor(np.random.default_rng(0).normal(size=len(stream)) * self.stddev).astype(np.int64)


@pytest.mark.parametrize(("kind", "resolution"), [(OneColumn, 64), (Quiet, 64), (Rounded, 1)])
def test_a_broken_mechanism_is_caught(kind: type, resolution: int) -> None:
    arguments: dict[str, Any] = {"domain": Classes(3), "epsilon": 4, "delta": 1e-6, "features": public(np.eye(3))}
    check_mechanism(GaussianMoment(**arguments, resolution=resolution))
    with pytest.raises(ContractViolation):
        check_mechanism(kind(**arguments, resolution=resolution))
