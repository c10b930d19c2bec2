"""What mechanisms on bags promise: on noisy sums, on published weights, on secret ones."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import BagSum, NaiveBags, NoisyWeightedLLP, WeightedLBA
from labeldp.testing.laws import check_law, require

MORE_EPSILON = 1.1
SLACK = 1 + 1e-9
_SEEDS = 400
_SURE = 27.7
"""-ln of the probability that one statistical check fails for a correct mechanism."""

_COSTS = "the claimed delta(epsilon) is never below the true one"
_ONE_BAG = "a replaced label moves the sum of its own bag and no other"
_BLIND = "what is drawn beside the noise does not depend on labels"


def check_bag_sums(mechanism: BagSum, seed: int) -> None:
    """How far one label moves the sums, what that costs beside the noise, and the sampler."""
    base, changed = _ends(mechanism)
    move = 0
    for record in range(min(mechanism.records, 8)):
        one = base.copy()
        one[record] = changed[record]
        moved = mechanism.sums(one) - mechanism.sums(base)
        require(np.flatnonzero(moved).tolist() == [mechanism.partition.of_record[record]], _ONE_BAG)
        move = max(move, int(np.abs(moved).max()))
    reach = 6 * int(mechanism.noise_stddev / float(mechanism.step / mechanism.fine)) + move
    places = np.unique(np.linspace(-reach, reach + move, 1 << 16).astype(np.int64))
    # Neighboring places share an entry where the noise is wide: the true curve can only fall by that.
    law, shifted = (mechanism.noise_law(places - by) for by in (0, move))
    claim = mechanism.privacy_loss()
    for epsilon in np.linspace(0, 2, 9) * mechanism.epsilon:
        true = float(np.maximum(law - math.exp(epsilon) * shifted, 0).sum())
        require(true <= claim.delta(epsilon) * SLACK + 1e-9, _COSTS)
    first, second = (mechanism.randomize(each, rng=np.random.default_rng(seed)) for each in (base, changed))
    require(np.array_equal(first - mechanism.sums(base), second - mechanism.sums(changed)), _BLIND)
    _check_noise(mechanism, seed)


def _check_noise(mechanism: BagSum, seed: int) -> None:
    edges = np.unique(np.rint(np.linspace(-3, 3, 13) * mechanism.noise_stddev * mechanism.fine / float(mechanism.step)))
    edges, rng = edges.astype(np.int64), np.random.default_rng(seed)
    other = mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON)

    def draw(count: int) -> NDArray[np.intp]:
        return np.searchsorted(edges, mechanism.drawn(count, rng=rng))

    check_law(draw, mechanism.noise_law(edges), other.noise_law(edges))


def _ends(mechanism: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """All labels at the low end, and all at the high end."""
    shape = {"shape": mechanism.records, "dtype": mechanism.domain.dtype}
    return np.zeros(**shape), np.full(fill_value=mechanism.domain.size - 1, **shape)


def check_published(mechanism: NoisyWeightedLLP, seed: int) -> None:
    """That weights are blind, that each bag has its noise, what that costs on average over the weights, the sampler."""
    low, high = _ends(mechanism)
    first, second = (mechanism.randomize(each, rng=np.random.default_rng(seed)) for each in (low, high))
    require(np.array_equal(first[: mechanism.seed_words], second[: mechanism.seed_words]), _BLIND)
    weighing, again = mechanism.weighing(first), mechanism.weighing(second)
    require(np.array_equal(weighing.steps, again.steps) and np.array_equal(weighing.noisy, again.noisy), _BLIND)
    noises = [
        released[mechanism.seed_words :] - mechanism.sums(labels, weighing)
        for released, labels in ((first, low), (second, high))
    ]
    require(np.array_equal(noises[0], noises[1]), "the same rng adds the same noise to the weighted sums")
    noisy = np.bincount(mechanism.partition.of_record, weights=weighing.noisy, minlength=mechanism.partition.count)
    if not mechanism.paper_faithful:
        require(set(noisy) == {mechanism.noisy}, "every bag has as many noisy labels as it says")
    _check_ratios(mechanism, seed)
    stddev, rng = int(weighing.stddevs.max()), np.random.default_rng(seed)
    edges = np.rint(np.linspace(-3, 3, 13) * stddev).astype(np.int64)

    def draw(count: int) -> NDArray[np.intp]:
        return np.searchsorted(edges, mechanism.drawn(np.full(count, stddev), rng=rng))

    check_law(draw, _normal_law(edges / stddev), _normal_law(MORE_EPSILON * edges / stddev))


def _normal_law(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import ndtr

    return np.diff(ndtr(edges), prepend=0.0, append=1.0)


def _check_ratios(mechanism: NoisyWeightedLLP, seed: int) -> None:
    """The curves of the first record of each bag for drawn weights, averaged over draws and bags."""
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
    """By how many standard deviations of its noise each of some labels can move a sum; infinite without noise."""
    weighing = mechanism.weighing(rng.integers(-(1 << 62), 1 << 62, mechanism.seed_words))
    low, high = _ends(mechanism)
    moved = np.abs(mechanism.sums(high, weighing) - mechanism.sums(low, weighing))
    require(moved.shape == weighing.stddevs.shape, "there is one sum for each bag")
    squares = weighing.variances[mechanism.partition.of_record[firsts]].astype(np.float64)
    own = np.abs(weighing.steps[firsts]) * float(mechanism.domain.size - 1)
    with np.errstate(divide="ignore"):
        return np.where(squares > 0, own / np.sqrt(squares), np.inf)


def _gaussian_delta(ratios: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """The curve of each ratio in doubles. Source: Balle, Theorem 8."""
    from scipy.special import ndtr

    known = np.where(np.isfinite(ratios), np.maximum(ratios, 1e-9), 1.0)
    curve = ndtr(known / 2 - epsilon / known) - math.exp(epsilon) * ndtr(-known / 2 - epsilon / known)
    return np.where(np.isfinite(ratios), curve, 1.0)


def check_hidden(mechanism: WeightedLBA, seed: int) -> None:
    """That weights stay secret and blind, that rows and bags have their own, and how much noise the labels get."""
    low, high = _ends(mechanism)
    before = set(vars(mechanism)) | {"leverages", "units", "residual_square"}
    first, second = (mechanism.randomize(each, rng=np.random.default_rng(seed)) for each in (low, high))
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
    draws = np.concatenate([mechanism.opened(mechanism.randomize(high, rng=rng))[1] for _ in range(_SEEDS)])
    squares = mechanism.noise_stddev**2 + np.repeat(mechanism.sizes, mechanism.rows) * float(mechanism.width / 2) ** 2
    spread = float(np.mean(draws**2 / np.tile(squares, _SEEDS)))
    require(abs(spread - 1) <= 7.04 * math.sqrt(2 / len(draws)) * 1.2, "sums of labels have weights and noise")


def check_naive(mechanism: NaiveBags, seed: int) -> None:
    """That it claims nothing but the chance of being left out, and that each label is in one bag at most."""
    labels = np.arange(mechanism.records) % mechanism.domain.size
    released = mechanism.randomize(labels, rng=np.random.default_rng(seed))
    bags = mechanism.bags(released)
    sizes = np.bincount(bags[bags >= 0], minlength=mechanism.count)
    require(set(sizes) == {mechanism.size}, "bags have the size that they should")
    require(mechanism.privacy_loss().delta(50) >= float(mechanism.share), _COSTS)
    sums = [labels[bags == bag].sum() for bag in range(mechanism.count)]
    require(mechanism.sums(released).tolist() == sums, "the sums are exact")
