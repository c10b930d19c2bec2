"""The mechanism of least expected loss: any public table of costs, at most twelve labels."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import FiniteMechanism, Table, Weights, draw_places, edges_of, integer_row, words_for
from labeldp.mechanisms.domains import Codes, Domain
from labeldp.mechanisms.inputs import PublicInput, prior_rows
from labeldp.privacy import (
    WORD,
    Floats,
    Ids,
    InputError,
    PrivacyLoss,
    Public,
    Randomness,
    Release,
    exp_bounds,
    float_above,
    positive_epsilon,
    set_fields,
)

MAX_LABELS = 12
"""The most labels; the linear program has a variable for each pair."""

STATED = "a stated cost, not computed from the labels"
"""Why a loss that is given as an array is public."""


@final
@dataclass(frozen=True, kw_only=True)
class Optimal(FiniteMechanism):
    """Answer each label by a label, with the least expected loss that epsilon-DP allows.

    Use it where some mistakes cost more than others: `loss[y, z]` is what the answer z costs where y is true. For
    "right or wrong" and a uniform prior it is `RandomizedResponse`; see `known_as`.

    Args:
        domain: at most 12 labels, `Classes` or `Interval`.
        loss: shape (K, K), finite, an array, a `Release` or `Public(array, why="…")`.
        prior: how frequent each label is, shape (K,), a `Release` or `Public(array, why="…")`. By default uniform.

    Guarantee (pure): epsilon-DP for each label, exactly, for the emitted bits, whatever loss and prior are.

    Guarantee (optimal): no epsilon-DP mechanism has an expected loss that is smaller by more than `gap`, also if its
        answers are mapped to labels in the best way afterwards.

    Raises:
        InputError: more labels, or a loss or a prior of another shape.

    Source: KairouzExtremal, the linear program; `docs/proofs/finite-mechanisms.md`.

    Examples:
        >>> from labeldp.mechanisms import Classes
        >>> mechanism = Optimal(Classes(("no", "yes")), 1.0, [[0, 1], [1, 0]])
        >>> mechanism.known_as, round(mechanism.expected_loss, 3)
        ('randomized response', 0.269)
        >>> Optimal(Classes(("no", "yes")), 1.0, [[0, 1], [5, 0]]).matrix().round(3)
        array([[0., 1.],
               [0., 1.]])
    """

    loss: InitVar[Any] = field(kw_only=False)
    prior: InitVar[Any] = field(default=None, kw_only=False)
    cost: Floats = field(init=False, repr=False, compare=False)
    chances: Floats = field(init=False, repr=False, compare=False)
    law: Weights = field(init=False, repr=False, compare=False)
    gap: float = field(init=False, repr=False, compare=False)
    """How much smaller the least expected loss may be at most, by the dual program, rounded up; see `expected_loss`."""
    column_ending: ClassVar[str] = ""

    def __post_init__(self, loss: Any, prior: Any) -> None:
        super().__post_init__()
        size = self.domain.size if isinstance(self.domain, Domain) else 0
        if not 2 <= size <= MAX_LABELS:
            raise InputError(f"must have 2 to {MAX_LABELS} labels for Optimal", argument="domain")
        stated = loss if isinstance(loss, Public | Release) else Public(loss, why=STATED)
        try:
            cost = np.array(stated.value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            cost = np.empty(0)
        if cost.shape != (size, size) or not np.isfinite(cost).all():
            raise InputError(f"must hold finite numbers, shape ({size}, {size})", argument="loss")
        inputs = [PublicInput.of(stated, "loss")]
        chances = np.full(size, 1 / size)
        if prior is not None:
            rows = prior_rows(prior, size)
            if len(rows) != 1:
                raise InputError("must be one row: a probability for each label", argument="prior")
            chances = rows[0]
            inputs.append(PublicInput.of(prior, "prior"))
        set_fields(self, cost=cost, chances=chances, public_inputs=tuple(inputs))
        self._calibrate()

    def _calibrate(self) -> None:
        """Compute the weights, and how far they can be from the optimum."""
        low, high = exp_bounds(positive_epsilon(self.epsilon))
        weighted, growth = self.chances[:, None] * self.cost, float(min(low, Fraction(10**9)))
        laws, prices = _best_shift(weighted, growth) or _program(weighted, growth)
        law = _in_integers(laws, low, np.argsort(self.cost, axis=1, kind="stable"))
        expected = _expected(weighted, law)
        bound = _lower_bound(weighted, prices, high)
        set_fields(self, law=law, gap=max(0.0, float_above(expected - bound)))

    def privacy_loss(self) -> PrivacyLoss:
        """Return pure epsilon: exact at delta = 0, an upper bound elsewhere. A constant is free."""
        if all(len(set(column)) == 1 for column in self.law.T.tolist()):
            return PrivacyLoss.zero()
        return PrivacyLoss.pure(self.epsilon)

    @property
    def expected_loss(self) -> float:
        """The expected loss of an answer under the prior."""
        return float(_expected(self.chances[:, None] * self.cost, self.law))

    @property
    def known_as(self) -> str:
        """The name of the mechanism that it is, in words; "" where it has none."""
        likely = self.matrix() > self.matrix().min(axis=0) * (1 + 1e-9)
        answered = np.flatnonzero(self.matrix().max(axis=0) > 0)
        if len(answered) == 1:
            return "a constant answer"
        if len(answered) == self.domain.size and (likely == np.eye(self.domain.size)).all():
            return "randomized response"
        if (likely[np.ix_(answered, answered)] == np.eye(len(answered))).all() and likely.sum(axis=1).max() == 1:
            names = ", ".join(str(name) for name in self.domain.decode(answered.astype(self.domain.dtype)))
            return f"randomized response over {names}"
        return ""

    def parameters(self) -> dict[str, Any]:
        digest = hashlib.sha256(b"".join(int(weight).to_bytes(9, "little") for weight in self.law.flat))
        return {**super().parameters(), "law": digest.hexdigest()}

    def packed(self) -> dict[str, NDArray[Any] | None]:
        prior = {} if len(self.public_inputs) == 1 else {"prior": self.chances}
        return {"loss": self.cost, **prior}

    @classmethod
    def limited(cls, arrays: Mapping[str, NDArray[Any]], domain: Domain) -> Mapping[str, NDArray[Any]]:
        """Refuse arrays for more labels than a program is solved for."""
        if any(array.size > MAX_LABELS**2 for array in arrays.values()):
            raise InputError(f"must be for at most {MAX_LABELS} labels", argument=tuple(arrays))
        return arrays

    @property
    def published(self) -> str:
        name = f", {self.known_as}" if self.known_as else ""
        return f"one noisy label per record (least expected loss{name})"

    def describe_noise(self, number: Callable[[float], str] = str) -> str:
        truth = float(self.chances @ np.diag(self.matrix()))
        return f"Each answer is true with probability {truth:.3f}, and costs {self.expected_loss:.4g} on average."

    def tables(self) -> list[Table]:
        return [Table(self.law, "table")]

    def weights(self) -> Weights:
        """Exact weights, shape (K, K)."""
        return self.law

    def likelihood(self, noisy: Any) -> Floats:
        """Return P(answer | class), shape (n, K)."""
        return np.asarray(self.matrix()[:, self.domain.check_codes(noisy)].T)

    @cached_property
    def _edges(self) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
        """The codes with positive weights, and their edges, shapes (m,) and (K, m)."""
        answers = np.flatnonzero((self.law > 0).any(axis=0))
        return answers, edges_of(self.law[:, answers])

    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> Codes:
        answers, edges = self._edges
        return answers[draw_places(words_for(randomness, ids), edges, codes)].astype(self.domain.dtype)


def _expected(weighted: Floats, law: Weights) -> Fraction:
    """Return the expected loss of integer weights, exactly."""
    pairs = zip(weighted.ravel().tolist(), law.ravel().tolist(), strict=True)
    return sum((Fraction(cost) * weight for cost, weight in pairs), Fraction(0)) / WORD


def _best_shift(weighted: Floats, growth: float) -> tuple[Floats, Floats] | None:
    """Return the optimum and the dual prices where the loss depends on the distance of the labels around a circle.

    By symmetry the optimum has one law for all shifts: the likelier ones are those of least loss, and how many they are
    is tried. "Right or wrong" with equally frequent labels is such a loss.
    """
    size = len(weighted)
    shifts = (np.arange(size)[:, None] + np.arange(size)) % size
    turned = np.take_along_axis(weighted, shifts, axis=1)
    if np.ptp(turned, axis=0).any():
        return None
    order = np.argsort(turned[0], kind="stable")
    sums, likely = np.cumsum(turned[0][order]), np.arange(1, size + 1)
    shares = 1 / (growth * likely + size - likely)
    expected = shares * (growth * sums + sums[-1] - sums)
    best = int(np.argmin(expected))
    law = np.full(size, shares[best])
    law[order[: best + 1]] *= growth
    laws = np.empty_like(weighted)
    np.put_along_axis(laws, shifts, np.tile(law, (size, 1)), axis=1)
    return laws, np.full(size, expected[best])


def _program(weighted: Floats, growth: float) -> tuple[Floats, Floats]:
    """Return the law of least expected loss, shape (K, K), and the dual price of each row, shape (K,).

    P(z | y) = t(z) + s(y, z) with 0 <= s <= (e^epsilon - 1) t, where t is the least probability of an answer.
    """
    from scipy.optimize import linprog  # heavy: only here

    size = len(weighted)
    unit = float(np.ptp(weighted)) or 1.0
    rows, columns = np.divmod(np.arange(size * size), size)
    capped = np.concatenate([np.eye(size * size), (1 - growth) * np.eye(size)[columns]], axis=1)
    total = np.concatenate([np.eye(size)[rows].T, np.ones((size, size))], axis=1)
    solution = linprog(
        np.concatenate([weighted.ravel(), weighted.sum(axis=0)]) / unit,
        A_ub=capped,
        b_ub=np.zeros(size * size),
        A_eq=total,
        b_eq=np.ones(size),
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.x is None:
        raise InputError("has no optimum that the program finds: scale its entries closer together", argument="loss")
    laws = solution.x[: size * size].reshape(size, size) + solution.x[size * size :]
    return laws / laws.sum(axis=1, keepdims=True), solution.eqlin.marginals * unit


def _in_integers(laws: Floats, growth: Fraction, order: NDArray[np.intp]) -> Weights:
    """Return integer weights, each between the least of its column and e^epsilon times that; rows sum to 2^64.

    Args:
        laws: probabilities, shape (K, K).
        growth: a lower bound of e^epsilon.
        order: for each label its answers, the cheapest first: they take what rounding leaves.
    """
    minima = laws.min(axis=0) * (1 - 2**-50)  # floats that should sum to 1 may sum to a little more
    floors = [max(int(floor * WORD), 0) for floor in minima.tolist()]
    caps = [growth.numerator * floor // growth.denominator for floor in floors]
    if not sum(floors) <= WORD <= sum(caps):
        raise InputError("is too small for a table of 64-bit weights", argument="epsilon")
    pairs = zip(laws.tolist(), order.tolist(), strict=True)
    return np.array([integer_row(row, floors, caps, best, best[::-1]) for row, best in pairs], dtype=object)


def _lower_bound(weighted: Floats, prices: Floats, growth: Fraction) -> Fraction:
    """Return an exact lower bound of the expected loss of every epsilon-DP mechanism, from dual prices.

    Prices q(y) are feasible if no answer with probabilities between 1 and e^epsilon times another gains by them:
    sum over y of h(w(y, z) - q(y)) >= 0 for each z, with h(a) = a + (e^epsilon - 1) min(a, 0). Then the sum of q is the
    bound. All prices are lowered together until they are feasible.

    Args:
        weighted: prior times loss, shape (K, K).
        prices: near the optimum of the dual program, shape (K,).
        growth: an upper bound of e^epsilon.
    """
    exact = [Fraction(price) for price in prices.tolist()]
    costs = [[Fraction(cost) for cost in row] for row in weighted.T.tolist()]
    scale = Fraction(float(np.abs(weighted).max()) or 1.0)

    def feasible(lowered: Fraction) -> bool:
        for column in costs:
            margins = [cost - price + lowered for cost, price in zip(column, exact, strict=True)]
            if sum(margin * (growth if margin < 0 else 1) for margin in margins) < 0:
                return False
        return True

    lowered = Fraction(0)
    step = scale / 2**50
    while not feasible(lowered):
        lowered, step = step, 2 * step
    return sum(exact, Fraction(0)) - len(exact) * lowered
