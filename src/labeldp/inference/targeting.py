"""How well a public score tells whom a treatment helps: the uplift curve of the score, and its area."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeldp.inference.catalog import RULES
from labeldp.inference.cells import CellOutcomes, values_of
from labeldp.inference.effects import PROPER, certain_squares, experiment_of, propensities, sums_by_user
from labeldp.inference.estimate import LEVEL, Estimate
from labeldp.inference.groups import Codes, distinct
from labeldp.inference.intervals import sidak, spread_of, student_or_more
from labeldp.inference.released import Outcomes, estimate_of, public_numbers
from labeldp.inference.sums import BY_LOT, is_sums
from labeldp.privacy import Floats, InputError, check_choice, check_integer

MEASURES = ("area", "curve")

FEWEST = 10
"""Records, or users, of an arm with which the intervals hold in simulations."""


def uplift(
    release: Any,
    treated: Any,
    scores: Any,
    *,
    measure: str = "area",
    points: int = 10,
    control: Any = None,
    outcome: Any = None,
    propensity: Any = None,
    users: Any = None,
    level: float = LEVEL,
    simultaneous: bool = True,
) -> Estimate:
    """Estimate what is gained if those with high scores are treated, from records whose treatment was drawn by lot.

    The gain at a threshold is by how much the share of a class, or the mean number, of all records grows if those
    with at least this score are treated and nobody else is. The Qini area is by how much the gain exceeds that of
    treating as many by lot, on average over all numbers of treated records. It is 0 for a score that tells nothing
    about effects, at most a quarter of the range of outcomes, and does not grow where the treatment helps all alike.

    Args:
        release: single answers.
        treated: who was treated, true or false, or one of two arms by number or name, shape (n,).
        scores: `Public(array, why="…")` of a model that saw none of these labels, larger where the treatment should
            do more, shape (n,). Only their order matters. The area takes equal scores in an order drawn by lot.
        measure: "area", the Qini area, or "curve", the gain at several thresholds.
        points: the largest number of thresholds of a curve, between which about equally many records lie. At the last
            one all records are treated: its gain is the effect that `difference` estimates.
        control: the arm that is not treated; by default 0, or the first number or name.
        outcome: the class; of two classes the second one by default.
        propensity: P(treated | what the scores are made of), `Public(number or array, why="…")`, where it was not the
            same for all records.
        users, level: see `mean`.
        simultaneous: whether all intervals of a curve hold together.

    Raises:
        InputError: columns that do not fit, more than two arms, an arm with less than ten records or users, scores
            that are all equal, or a propensity outside of (0, 1); noisy sums, which do not tell uplift.

    Source: Radcliffe for the curve; Hajek for the weights; Satterthwaite for the degrees of freedom.
    """
    check_choice(measure, "measure", MEASURES)
    if is_sums(release):
        raise InputError("must be of single answers: noisy sums do not tell uplift", argument="release")
    experiment = experiment_of(
        release, treated, control, outcome, None, users, level, simultaneous, scores=scores, propensity=propensity
    )
    records = experiment.source.records
    ordered, public = public_numbers(scores, "scores", (records,), "a number for each record")
    if experiment.columns.count > 2:
        raise InputError("must be one of two arms for each record", argument="treated")
    if ordered.min() == ordered.max():
        raise InputError("must differ between records", argument="scores")
    arms, conditions = Arms.of(experiment, propensity)
    conditions = (*conditions, public, *experiment.source.conditions)
    if measure == "area":
        return _area(experiment, arms, ordered, conditions)
    return _curve(experiment, arms, ordered, check_integer(points, "points"), conditions)


class Gain(NamedTuple):
    """A weighted effect.

    Args:
        value: the estimate.
        moves: by how much each record moves it, shape (n,).
        weights: of the outcomes whose sum it is, shape (n,).
    """

    value: float
    moves: Floats
    weights: Floats


class Arms(NamedTuple):
    """Outcomes of two arms.

    Args:
        codes: 1 for the treated, shape (n,).
        parts: the weight of each record in its arm, with sum 1 in each arm, shape (n,).
        outcomes: unbiased, less the mean of the arm, shape (n,).
        effect: difference of the means of the arms.
    """

    codes: Codes
    parts: Floats
    outcomes: Floats
    effect: float

    @classmethod
    def of(cls, experiment: CellOutcomes, propensity: Any) -> tuple["Arms", tuple[str, ...]]:
        """Return the arms, and on which conditions they can be compared."""
        source, codes = experiment.source, experiment.columns.codes
        assert isinstance(source, Outcomes) and codes is not None
        parts = np.ones(source.records)
        conditions: tuple[str, ...] = (BY_LOT,)
        if propensity is not None:
            chance, public = propensities(propensity, source.records)
            parts, conditions = 1 / np.where(codes == 1, chance, 1 - chance), (PROPER, public)
        parts = parts / np.bincount(codes, weights=parts)[codes]
        owners = np.arange(source.records) if source.users is None else source.users
        if min(len(np.unique(owners[codes == arm])) for arm in (0, 1)) < FEWEST:
            raise InputError(f"must have {FEWEST} records, of {FEWEST} users, in each arm", argument="treated")
        number = np.concatenate([values_of(source, experiment.code, rows) for rows in source.blocks()])
        means = np.bincount(codes, weights=parts * number)
        return cls(codes, parts, number - means[codes], float(means[1] - means[0])), conditions

    @property
    def signs(self) -> NDArray[np.float64]:
        """1 for the treated and -1 for others, shape (n,)."""
        return np.where(self.codes == 1, 1.0, -1.0)

    def gain(self, shares: Floats) -> Gain:
        """Return the mean of effects times public shares of records that are treated, shape (n,).

        It is the difference of covariances of shares and outcomes in both arms, and the mean share times the effect.
        """
        mean = float(shares.mean())
        apart = shares - np.bincount(self.codes, weights=self.parts * shares)[self.codes]
        alone = np.bincount(self.codes, weights=self.parts**2)[self.codes]
        covariances = np.bincount(self.codes, weights=self.parts * apart * self.outcomes)
        signed = self.signs * self.parts
        weights = signed * (apart / (1 - alone) + mean)
        moves = weights * self.outcomes - signed * covariances[self.codes] / (1 - alone)
        # a record draws the mean of its arm to itself
        moves /= np.sqrt(np.maximum(1 - 2 * self.parts + alone, 1e-9))
        moves += (shares - mean) * self.effect / len(shares)
        return Gain(float(weights @ self.outcomes) + mean * self.effect, moves, weights)


def _area(experiment: CellOutcomes, arms: Arms, scores: Floats, conditions: tuple[str, ...]) -> Estimate:
    """Return the gain of treating each record as often as others have lower scores, less half of the effect."""
    _, places = distinct(scores)
    sizes = np.bincount(places)
    ranks = ((np.cumsum(sizes) - sizes / 2) / len(scores))[places] - 0.5
    gain = arms.gain(ranks)
    # a record also moves the ranks of those above it, and so the area by their effects
    effects = np.bincount(places, weights=arms.signs * arms.parts * arms.outcomes)
    above = (effects.sum() - np.cumsum(effects) + effects / 2)[places]
    moves = gain.moves + (above - gain.value - ranks * arms.effect) / len(scores)
    numbers = _interval(experiment, gain._replace(moves=moves), experiment.level, 0.25)
    return _stated(experiment, "uplift area", "Qini area", (), numbers, conditions)


def _curve(experiment: CellOutcomes, arms: Arms, scores: Floats, points: int, conditions: tuple[str, ...]) -> Estimate:
    thresholds = np.unique(np.quantile(scores, np.arange(points) / points, method="lower"))[::-1]
    entry = sidak(experiment.level, 1, len(thresholds)) if experiment.simultaneous else experiment.level
    numbers, names = np.zeros((len(thresholds), 4)), []
    for row, threshold in enumerate(thresholds.tolist()):
        chosen = (scores >= threshold).astype(np.float64)
        names.append(f"top {100 * chosen.mean():.3g} %, from {threshold:.4g}")
        numbers[row] = _interval(experiment, arms.gain(chosen), entry, 1.0)
    return _stated(experiment, "uplift curve", "gain per record", (("treated", tuple(names)),), numbers.T, conditions)


def _interval(experiment: CellOutcomes, gain: Gain, level: float, reach: float) -> tuple[float, float, float, float]:
    """Return value, low, high and variance; `reach` is what is possible, in ranges of the outcome."""
    moves, weights, units, width = gain.moves, np.abs(gain.weights), len(gain.moves), experiment.width
    users = experiment.source.users if isinstance(experiment.source, Outcomes) else None
    if users is not None:
        units = int(np.count_nonzero(np.bincount(users)))
        moves, weights = sums_by_user(np.column_stack([moves, weights]), users)[0].T
        moves = moves * np.sqrt(units / (units - 1))
    variance, certain = certain_squares(moves, units)
    freedom, more = spread_of(weights**2)
    freedom = np.minimum(np.minimum(freedom, certain), units - 1.0)
    low, high = student_or_more(np.asarray(gain.value), variance, width**2 * more, freedom, level)
    widest = reach * width
    return gain.value, float(np.clip(low, -widest, widest)), float(np.clip(high, -widest, widest)), float(variance)


def _stated(
    experiment: CellOutcomes, key: str, quantity: str, axes: Any, numbers: Any, conditions: tuple[str, ...]
) -> Estimate:
    value, low, high, variance = numbers
    return estimate_of(
        experiment.source, RULES[key], experiment.against(quantity), axes, value, low, high, variance, experiment.level,
        experiment.simultaneous, None, None, conditions,
    )  # fmt: skip
