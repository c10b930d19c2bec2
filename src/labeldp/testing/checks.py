"""Checks of laws and samplers, one for each kind of mechanism."""

import math
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.bags import BagSum, NoisyWeightedLLP, WeightedLBA
from labeldp.mechanisms import CountMechanism, CrossMoment, GaussianChoice, LaplaceSum, SquaredErrors
from labeldp.privacy import Integers, exp_bounds
from labeldp.testing.laws import check_law, require

MORE_EPSILON = 1.1

SLACK = 1 + 1e-9
"""Laws of these mechanisms are compared in doubles."""


def check_counts(mechanism: CountMechanism, seed: int) -> None:
    """Check the law of a mechanism on counts, on all neighbors of a few count vectors, and its sampler."""
    size = mechanism.domain.size
    base = np.arange(size)[::-1] % 3 + 2
    laws = {}
    for source, target in [(0, 0), *permutations(range(min(size, 4)), 2)]:
        counts = base.copy()
        counts[source] -= 1
        counts[target] += 1
        laws[source, target] = mechanism.law(counts)
    for one, two in permutations(laws.values(), 2):
        # Two neighbors of the same counts differ by up to two replaced labels.
        require(bool(np.all(one <= two * math.exp(2 * mechanism.epsilon) * SLACK)), "two steps cost at most twice")
    for key, changed in laws.items():
        if key != (0, 0):
            ratio = float(np.max(changed / laws[0, 0]))
            require(ratio <= math.exp(mechanism.epsilon) * SLACK, "replacing one label costs at most epsilon")
    other, rng = mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON), np.random.default_rng(seed)
    for first in range(min(size, 8) if mechanism.release_counts(base[None], rng=rng).ndim == 2 else 1):
        turned = np.roll(base, -first)
        draw = partial(_outcomes, mechanism, base, first, rng)
        check_law(draw, mechanism.law(turned), other.law(turned))


def _outcomes(
    mechanism: CountMechanism, base: Integers, first: int, rng: np.random.Generator, count: int
) -> NDArray[np.intp]:
    """Draw `count` outcomes for one group's counts, seen from class `first` on."""
    released = mechanism.release_counts(np.tile(base, (count, 1)), rng=rng)
    seen = np.roll(released, -first, axis=1) if released.ndim == 2 else released
    return mechanism.outcome(seen, np.roll(base, -first))


def check_noise(mechanism: Any, edges: Integers, seed: int) -> None:
    """Check the sampler of noise that is added to integers, between edges."""
    other, rng = mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON), np.random.default_rng(seed)

    def draw(count: int) -> NDArray[np.intp]:
        return np.searchsorted(edges, mechanism.draw_noise(count, rng=rng))

    check_law(draw, mechanism.noise_law(edges), other.noise_law(edges))


def check_sums(mechanism: LaplaceSum, seed: int) -> None:
    """Check how far one label moves a sum, what that costs at every kink of the true curve, and the sampler.

    The noise is geometric, so that the loss of every output is a multiple of the rate: the true curve bends at the
    multiples up to the largest move and nowhere else.
    """
    top = mechanism.domain.size - 1
    base = np.zeros(mechanism.records, dtype=mechanism.domain.dtype)
    for record in range(min(mechanism.records, 8)):
        for code in {1, top}:
            changed = base.copy()
            changed[record] = code
            move = mechanism.counts(changed) - mechanism.counts(base)
            require(int(np.abs(move).sum()) == code, "a replaced label moves one sum by the distance of the labels")
    _check_cost(mechanism, top)
    rng, sums = np.random.default_rng(seed), np.array([3])
    other = mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON)

    def draw(count: int) -> NDArray[np.intp]:
        released = mechanism.release_counts(np.tile(sums, (count, 1)), rng=rng)
        return mechanism.outcome(released, sums)

    edges = mechanism.edges()
    check_law(draw, mechanism.law_between(edges, sums), other.law_between(edges, sums))


def check_errors(mechanism: SquaredErrors, seed: int) -> None:
    """Check how far one label moves a sum of squared errors, what that costs, and the sampler, as for other sums."""
    top, farthest = mechanism.domain.size - 1, 0
    ends = [np.full(mechanism.records, end, dtype=mechanism.domain.dtype) for end in (0, top)]
    for base in (*ends, mechanism.predicted.of_record.astype(mechanism.domain.dtype)):
        for record in range(min(mechanism.records, 8)):
            for code in range(top + 1):
                changed = base.copy()
                changed[record] = code
                farthest = max(farthest, int(np.abs(mechanism.sums(changed) - mechanism.sums(base)).sum()))
    require(farthest == mechanism.sensitivity, "a replaced label moves the sum as far as is said, and no further")
    _check_cost(mechanism, mechanism.sensitivity)
    rng, edges = np.random.default_rng(seed), mechanism.edges()
    other = mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON)

    def draw(count: int) -> NDArray[np.intp]:
        return np.searchsorted(edges, mechanism.release_sums(np.full(count, 3), rng=rng))

    check_law(draw, mechanism.law_between(edges, 3), other.law_between(edges, 3))


def _check_cost(mechanism: LaplaceSum | SquaredErrors, top: int) -> None:
    """Check what it costs that a label moves a sum with geometric noise by up to `top`, at every kink of the curve."""
    rate, claim = float(mechanism.rate), mechanism.privacy_loss()
    for kink in range(top + 1):
        true = _shifted_delta(rate, top, kink * rate)
        claimed = claim.delta(kink * mechanism.rate) * SLACK + 1e-12
        require(true <= claimed, "the claimed delta(epsilon) is never below the true one")
    bound = float(exp_bounds(mechanism.rate * top)[0])
    require(bound <= math.exp(mechanism.epsilon) * SLACK, "replacing one label costs at most epsilon")


def _shifted_delta(rate: float, move: int, epsilon: float) -> float:
    """Return the sum of (P(i) - e^epsilon P(i - move))+ for two-sided geometric noise, in doubles."""
    decay = math.exp(-rate)
    reach = move + math.ceil(40 / rate) if rate > 1e-3 else 4 * move
    places = np.arange(-reach, reach + 1, dtype=np.float64)
    law, shifted = ((1 - decay) / (1 + decay) * np.exp(-rate * np.abs(places - shift)) for shift in (0, move))
    tail = decay ** (reach + 1) / (1 + decay)
    outside = max(0.0, tail - math.exp(epsilon) * tail * decay**move)
    return float(np.maximum(law - math.exp(epsilon) * shifted, 0).sum()) + outside


def check_moments(mechanism: CrossMoment | GaussianChoice, seed: int) -> None:
    """Check how far one replaced label moves the sums, for pairs of codes, and the sampler of their noise."""
    top = mechanism.domain.size - 1
    for code, other in permutations({*range(min(top, 7)), top}, 2):
        base = np.full(mechanism.records, code, dtype=mechanism.domain.dtype)
        for record in range(min(mechanism.records, 8)):
            changed = base.copy()
            changed[record] = other
            move = mechanism.sums(changed) - mechanism.sums(base)
            within = int((move**2).sum()) <= mechanism.sensitivity_square
            if isinstance(mechanism, CrossMoment):
                within &= int(np.abs(move).sum()) <= mechanism.sensitivity_sum
            require(within, "a replaced label moves no further than said")
    check_noise(mechanism, mechanism.edges(), seed)


_SEEDS = 400

_SURE = 27.7
"""-ln of the probability that one statistical check fails for a correct mechanism."""

_COSTS = "the claimed delta(epsilon) is never below the true one"

_ONE_BAG = "a replaced label moves the sum of its own bag and no other"

_BLIND = "what is drawn beside the noise does not depend on labels"


def check_bag_sums(mechanism: BagSum, seed: int) -> None:
    """Check how far one label moves the sums, what that costs next to the noise, and the sampler."""
    base, changed = _ends(mechanism)
    move = 0
    for record in range(min(mechanism.records, 8)):
        one = base.copy()
        one[record] = changed[record]
        moved = mechanism.sums(one) - mechanism.sums(base)
        require(np.flatnonzero(moved).tolist() == [mechanism.partition.of_record[record]], _ONE_BAG)
        move = max(move, int(np.abs(moved).max()))
    reach = 6 * int(mechanism.noise_stddev / float(mechanism.domain.step_exact / mechanism.fine)) + move
    places = np.unique(np.linspace(-reach, reach + move, 1 << 16).astype(np.int64))
    # Neighboring places share an entry where the noise is wide: the true curve can only fall by that.
    law, shifted = (mechanism.noise_law(places - by) for by in (0, move))
    claim = mechanism.privacy_loss()
    for epsilon in np.linspace(0, 2, 9) * mechanism.epsilon:
        true = float(np.maximum(law - math.exp(epsilon) * shifted, 0).sum())
        require(true <= claim.delta(epsilon) * SLACK + 1e-9, _COSTS)
    first, second = (mechanism.randomize(codes, rng=np.random.default_rng(seed)) for codes in (base, changed))
    require(np.array_equal(first - mechanism.sums(base), second - mechanism.sums(changed)), _BLIND)
    edges = np.unique(
        np.rint(np.linspace(-3, 3, 13) * mechanism.noise_stddev * mechanism.fine / float(mechanism.domain.step_exact))
    )
    check_noise(mechanism, edges.astype(np.int64), seed)


def _ends(mechanism: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return labels that are all at the low end, and all at the high end."""
    shape = {"shape": mechanism.records, "dtype": mechanism.domain.dtype}
    return np.zeros(**shape), np.full(fill_value=mechanism.domain.size - 1, **shape)


def check_published(mechanism: NoisyWeightedLLP, seed: int) -> None:
    """Check that weights depend on no label, the noise of each bag, its cost averaged over weights, and the sampler."""
    low, high = _ends(mechanism)
    first, second = (mechanism.randomize(codes, rng=np.random.default_rng(seed)) for codes in (low, high))
    require(np.array_equal(first[: mechanism.seed_words], second[: mechanism.seed_words]), _BLIND)
    bag_weights, again = mechanism.bag_weights(first), mechanism.bag_weights(second)
    require(np.array_equal(bag_weights.steps, again.steps) and np.array_equal(bag_weights.noisy, again.noisy), _BLIND)
    noises = [
        released[mechanism.seed_words :] - mechanism.sums(labels, bag_weights)
        for released, labels in ((first, low), (second, high))
    ]
    require(np.array_equal(noises[0], noises[1]), "the same rng adds the same noise to the weighted sums")
    noisy = np.bincount(mechanism.partition.of_record, weights=bag_weights.noisy, minlength=mechanism.partition.count)
    if not mechanism.paper_faithful:
        require(set(noisy) == {mechanism.noisy}, "every bag has as many noisy labels as it says")
    _check_ratios(mechanism, seed)
    stddev, rng = int(bag_weights.stddevs.max()), np.random.default_rng(seed)
    edges = np.rint(np.linspace(-3, 3, 13) * stddev).astype(np.int64)

    def draw(count: int) -> NDArray[np.intp]:
        return np.searchsorted(edges, mechanism.draw_noise(np.full(count, stddev), rng=rng))

    check_law(draw, _normal_law(edges / stddev), _normal_law(MORE_EPSILON * edges / stddev))


def _normal_law(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import ndtr

    return np.diff(ndtr(edges), prepend=0.0, append=1.0)


def _check_ratios(mechanism: NoisyWeightedLLP, seed: int) -> None:
    """Check the curves of the first record of each bag for drawn weights, averaged over draws and bags."""
    rng, claim = np.random.default_rng(seed), mechanism.privacy_loss()
    firsts = np.unique(mechanism.partition.of_record, return_index=True)[1]
    ratios = np.concatenate([_ratios(mechanism, rng, firsts) for _ in range(_SEEDS)])
    fixed = mechanism.weights == "rademacher" and not mechanism.paper_faithful
    # Bags of one draw share only who is noisy; draws are independent.
    slack = 0.0 if fixed else math.sqrt(_SURE / (2 * _SEEDS))
    for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
        seen = _gaussian_delta(ratios, epsilon)
        true = float(seen.max() if fixed else seen.mean())
        require(true <= claim.delta(epsilon) * SLACK + slack, _COSTS)


def _ratios(mechanism: NoisyWeightedLLP, rng: np.random.Generator, firsts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return how many standard deviations of its noise each of some labels can move a sum; infinite without noise."""
    bag_weights = mechanism.bag_weights(rng.integers(-(1 << 62), 1 << 62, mechanism.seed_words))
    low, high = _ends(mechanism)
    moved = np.abs(mechanism.sums(high, bag_weights) - mechanism.sums(low, bag_weights))
    require(moved.shape == bag_weights.stddevs.shape, "there is one sum for each bag")
    squares = bag_weights.variances[mechanism.partition.of_record[firsts]].astype(np.float64)
    moves = np.abs(bag_weights.steps[firsts]) * float(mechanism.domain.size - 1)
    with np.errstate(divide="ignore"):
        return np.where(squares > 0, moves / np.sqrt(squares), np.inf)


def _gaussian_delta(ratios: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return the curve of each ratio in doubles. Source: Balle, Theorem 8."""
    from scipy.special import ndtr

    finite = np.where(np.isfinite(ratios), np.maximum(ratios, 1e-9), 1.0)
    curve = ndtr(finite / 2 - epsilon / finite) - math.exp(epsilon) * ndtr(-finite / 2 - epsilon / finite)
    return np.where(np.isfinite(ratios), curve, 1.0)


def check_hidden(mechanism: WeightedLBA, seed: int) -> None:
    """Check that weights stay secret and depend on no label, that rows have their own, and the noise of labels."""
    low, high = _ends(mechanism)
    before = set(vars(mechanism)) | {"leverages", "units", "residual_square"}
    first, second = (mechanism.randomize(codes, rng=np.random.default_rng(seed)) for codes in (low, high))
    width = mechanism.table.shape[1] + 1
    rows = mechanism.partition.count * mechanism.rows
    require(first.shape == (rows, width), "weighted sums are published, and no weights")
    require(set(vars(mechanism)) <= before, "no weights are kept")
    require(np.array_equal(first[:, :-1], second[:, :-1]), _BLIND)
    require(len(np.unique(first, axis=0)) == rows, "every row has weights of its own")
    if mechanism.bag_noise == "auto":
        claim = mechanism.privacy_loss()
        require(claim.delta(mechanism.epsilon) <= float(mechanism.delta or 0) * SLACK, "the noise keeps what was asked")
    floor = mechanism.noise_stddev**2 + float(mechanism.assumed_residual_square)
    require(mechanism.law.residual_square <= floor * SLACK, "the residual counts what is noise or was assumed")
    rng = np.random.default_rng(seed)
    # With all labels at the middle of their range the sums are noise alone; at the end, noise and weights.
    draws = np.concatenate([mechanism.released_sums(mechanism.randomize(high, rng=rng)).sums for _ in range(_SEEDS)])
    squares = mechanism.noise_stddev**2 + np.repeat(mechanism.sizes, mechanism.rows) * float(mechanism.width / 2) ** 2
    spread = float(np.mean(draws**2 / np.tile(squares, _SEEDS)))
    require(abs(spread - 1) <= 7.04 * math.sqrt(2 / len(draws)) * 1.2, "sums of labels have weights and noise")
