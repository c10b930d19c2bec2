"""What every mechanism guarantees, checked: weights, claims, samplers, refusals, descriptions."""

import json
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import (
    FiniteMechanism,
    GaussianOneHot,
    LocalHashing,
    Mechanism,
    SubsetSelection,
    joint_laws,
    load,
)
from labeldp.privacy import WORD, DomainError, KeyedRandomness, PrivacyLoss, Release, exp_bounds, log_bounds
from labeldp.testing.checks import MORE_EPSILON
from labeldp.testing.laws import ContractViolation, check_law, require

Pair = tuple[tuple[tuple[int, int], int], ...]
"""The weights of each output under two inputs, with how many outputs have them."""

Bounds = tuple[Fraction, Fraction]


def check_mechanism(mechanism: Mechanism, *, seed: int = 0) -> None:
    """Check everything that a mechanism guarantees; return nothing, or raise.

    A finite mechanism: weights are non-negative and sum to 2**64; for every pair of labels the claimed delta(epsilon)
    is never below the true one, compared in exact integers at every kink of both curves; the sampler passes a chi-
    squared test against the weights, and the same sample is rejected against the mechanism at 10 % more epsilon, with
    the sample size computed from that requirement. A mechanism on counts or sums: the same for its law in doubles. On
    moments: no replaced label moves the sums further than the mechanism says, and the sampler of the noise passes the
    same test. On indicators: both, for the noise of two classes together. On bags: both, and weights that depend on no
    label, published or secret as it is said. Any: the same rng draws the same; keyed noise follows the record and not
    its place; what is outside of the domain is refused; the description is plain JSON.

    The mechanism says which of these checks fits its law: `Mechanism.contract` names a function, or is a method of your
    own that takes the seed and raises.

    Args:
        mechanism: with few outputs (at most some hundred), so that the exact check stays short.
        seed: of the simulated draws.

    Raises:
        ContractViolation: the sentence says what does not hold.
    """
    _check_description(mechanism)
    _check_refusals(mechanism)
    if not callable(mechanism.contract) and ":" not in mechanism.contract:
        raise ContractViolation('contract must be "module:function", or a method that takes a seed and checks the law')
    if callable(mechanism.contract):
        mechanism.contract(seed)
    else:
        load(mechanism.contract)(mechanism, seed)


def check_tables(mechanism: FiniteMechanism, seed: int) -> None:
    """Check weights, claim and sampler of a mechanism whose law is a few tables."""
    for rows in joint_laws(mechanism):
        _check_rows(rows)
        _check_claim(rows, mechanism.privacy_loss())
    _check_repeats(mechanism, seed)
    check_sampler(mechanism, seed=seed)


def _check_description(mechanism: Mechanism) -> None:
    text = json.dumps(mechanism.specification(), sort_keys=True)
    require(json.loads(text) == mechanism.specification(), "the specification is plain JSON values")
    require("array(" not in repr(mechanism), "the repr shows no arrays")
    require(isinstance(mechanism.privacy_loss(), PrivacyLoss), "the mechanism owns its privacy loss")


def _check_rows(rows: list[list[int]]) -> None:
    totals = {sum(row) for row in rows}
    require(totals <= {WORD, WORD**2}, "weights sum to 2**64")
    require(all(weight >= 0 for row in rows for weight in row), "weights are not negative")


def _check_claim(rows: list[list[int]], claim: PrivacyLoss) -> None:
    """Check that the claim covers each pair of inputs at every kink of both curves."""
    distinct = [list(row) for row in dict.fromkeys(tuple(row) for row in rows)]
    kinks = [(exp_bounds(kink), kink) for kink in claim.kinks()]
    pairs = {tuple(sorted(Counter(zip(one, other, strict=True)).items())) for one, other in permutations(distinct, 2)}
    for pair in pairs:
        require(_covers(claim, kinks, pair), "the claimed delta(epsilon) is never below the true one")


def _covers(loss: PrivacyLoss, kinks: list[tuple[Bounds, Fraction]], pair: Pair) -> bool:
    """Return whether `loss` lies nowhere below the curve of the pair: both are linear in e**epsilon between kinks."""
    total = sum(a * times for (a, _), times in pair)
    for (_, high), kink in kinks:
        if loss.delta(kink) < _hockey_stick(pair, high) / total:
            return False
    for (a, b), _ in pair:
        if a > 0 and b == 0:
            return False
        if a > b > 0 and loss.delta(log_bounds(Fraction(a, b))[1]) < _hockey_stick(pair, Fraction(a, b)) / total:
            return False
    return True


def _hockey_stick(pair: Pair, ratio: Fraction) -> Fraction:
    """Sum of (P - ratio * Q)+ in units of the weights, exactly."""
    top, bottom = ratio.numerator, ratio.denominator
    return Fraction(sum(times * max(0, a * bottom - top * b) for (a, b), times in pair), bottom)


def _labels(mechanism: Mechanism, count: int, code: int) -> NDArray[Any]:
    return np.full(count if mechanism.records is None else mechanism.records, code, dtype=mechanism.domain.dtype)


def _check_refusals(mechanism: Mechanism) -> None:
    outside = np.full(mechanism.records or 1, mechanism.domain.size)
    try:
        mechanism.randomize(outside, rng=np.random.default_rng(0))
    except DomainError:
        return
    raise ContractViolation("a label outside of the domain is refused")


def _check_repeats(mechanism: FiniteMechanism | GaussianOneHot, seed: int) -> None:
    count = mechanism.records or 1000
    codes = np.random.default_rng(seed).integers(0, mechanism.domain.size, count)
    first, second = (mechanism.randomize(codes, rng=np.random.default_rng(seed)) for _ in range(2))
    require(np.array_equal(first, second), "the same rng draws the same")
    keyed = KeyedRandomness(b"check_mechanism".ljust(32, b"."))
    drawn = mechanism.randomize(codes, rng=keyed, ids=np.arange(count))
    if mechanism.records is None:
        order = np.random.default_rng(seed).permutation(count)
        require(
            np.array_equal(mechanism.randomize(codes[order], rng=keyed, ids=order), drawn[order]),
            "keyed noise follows the record, not its place",
        )
        few = order[: count // 3]
        require(
            np.array_equal(mechanism.randomize(codes[few], rng=keyed, ids=few), drawn[few]),
            "keyed noise of a record does not depend on the records beside it",
        )
    other = mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON)
    require(mechanism.specification() != other.specification(), "another epsilon is another specification")


def check_sampler(mechanism: FiniteMechanism, *, seed: int = 0) -> None:
    """Check that draws follow the weights, and not those of 10 % more epsilon, for at most eight inputs.

    Raises:
        ContractViolation: the sampler does not follow the table, or epsilon is so small that telling 10 % more
            apart would need more than `LARGEST_SAMPLE` draws.
    """
    other = mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON)
    size = mechanism.domain.size
    for code in sorted({round(i * (size - 1) / 7) for i in range(8)}):
        for record, (law, wrong) in enumerate(zip(_outcomes(mechanism, code), _outcomes(other, code), strict=True)):
            if mechanism.records is None or record < 8:
                draws = _drawer(mechanism, code, record, seed)
                check_law(draws, law, wrong)


def _outcomes(mechanism: FiniteMechanism, code: int) -> list[NDArray[np.float64]]:
    """Return, for each record with its own law, the law of what `_drawer` observes for this input."""
    matrix = mechanism.matrix()
    if mechanism.tables()[0].kind == "bits":
        same, other = matrix[code, code], matrix[code, (code + 1) % mechanism.domain.size]
        return [np.outer(same, other).ravel()]
    if mechanism.tables()[0].kind == "groups":
        return [matrix[0]]  # of the distance from the label's group to the answered one
    return list(matrix[:, code]) if matrix.ndim == 3 else [matrix[code]]


def _drawer(mechanism: FiniteMechanism, code: int, record: int, seed: int) -> Callable[[int], NDArray[np.intp]]:
    """Return a function that draws `count` outputs for one input."""
    rng = np.random.default_rng([seed, code, record])

    def draw(count: int) -> NDArray[np.intp]:
        if mechanism.records is not None:
            return _repeat_record(mechanism, code, record, count, rng)
        noisy = mechanism.randomize(_labels(mechanism, count, code), rng=rng)
        if noisy.ndim == 1:
            return noisy.astype(np.intp)
        if isinstance(mechanism, LocalHashing):
            return _distances(mechanism, noisy, code)
        if isinstance(mechanism, SubsetSelection):
            places = {answer.tobytes(): index for index, answer in enumerate(mechanism.sets)}
            return np.array([places[answer.tobytes()] for answer in noisy], dtype=np.intp)
        bits = np.unpackbits(noisy, axis=1, count=mechanism.domain.size)
        return 2 * bits[:, code].astype(np.intp) + bits[:, (code + 1) % mechanism.domain.size]

    return draw


def _distances(mechanism: LocalHashing, noisy: NDArray[Any], code: int) -> NDArray[np.intp]:
    """How far each answered group is from the label's, in the partition that anyone can build again."""
    groups, named = mechanism.partition(None, len(noisy)).astype(np.intp), mechanism.named(noisy)
    answered = groups[np.arange(len(noisy)), named.argmax(axis=1)]
    require(bool(((groups == answered[:, None]) == named).all()), "an answer is one group of the public partition")
    return (answered - groups[:, code]) % mechanism.tables()[0].weights.shape[1]


def _repeat_record(
    mechanism: FiniteMechanism, code: int, record: int, count: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return outputs of one record's law, from the same mechanism with its arrays repeated."""
    arrays = mechanism.arrays()
    assert arrays is not None
    many = mechanism.restored(np.repeat(arrays[record : record + 1], count, axis=0))
    return many.randomize(np.full(count, code, dtype=mechanism.domain.dtype), rng=rng).astype(np.intp)


def check_indicators(mechanism: GaussianOneHot, seed: int) -> None:
    """Check how far labels are apart, and the noise of a label's own class and the next one together."""
    _check_repeats(mechanism, seed)
    vectors = mechanism.encoded(np.arange(min(mechanism.domain.size, 8), dtype=mechanism.domain.dtype))
    for one, other in permutations(vectors, 2):
        distance = int(((one - other) ** 2).sum())
        require(distance <= mechanism.sensitivity_square, "two labels lie no further apart than said")
    edges = np.rint(np.linspace(-3, 3, 13) * mechanism.stddev).astype(np.int64)
    laws = [one.noise_law(edges) for one in (mechanism, mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON))]
    law, wrong = (np.outer(one, one).ravel() for one in laws)
    for code in {0, mechanism.domain.size - 1}:
        check_law(_pair_drawer(mechanism, code, edges, seed), law, wrong)
    labels = _labels(mechanism, 1000, 0)
    keyed = KeyedRandomness(b"check_mechanism".ljust(32, b"."))
    noise = mechanism.randomize(labels, rng=keyed, ids=np.arange(len(labels))) - vectors[0]
    for one, other in permutations(noise.T[:8], 2):
        require(bool(np.mean(one == other) < 0.1), "keyed noise of one class is not that of another")


def _pair_drawer(
    mechanism: GaussianOneHot, code: int, edges: NDArray[np.int64], seed: int
) -> Callable[[int], NDArray[np.intp]]:
    """Return a function that draws the noise of class `code` and the next one between edges."""
    rng = np.random.default_rng([seed, code])

    def draw(count: int) -> NDArray[np.intp]:
        labels = _labels(mechanism, count, code)
        noise = mechanism.randomize(labels, rng=rng) - mechanism.encoded(labels)
        same, other = (np.searchsorted(edges, noise[:, (code + i) % mechanism.domain.size]) for i in range(2))
        return same * (len(edges) + 1) + other

    return draw


def check_release(release: Release[Any]) -> None:
    """Check that a release's repr shows no value, and that its certificate survives JSON.

    Raises:
        ContractViolation: one of them does not hold.
    """
    certificate = release.certificate
    again = type(certificate).from_json(json.loads(json.dumps(certificate.to_json())))
    require(again == certificate, "a certificate survives JSON")
    require("array(" not in repr(release), "the repr of a release shows no value")
