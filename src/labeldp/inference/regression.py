"""Regression of a private outcome on public features, and odds ratios of a public exposure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr

from labeldp.inference.catalog import RULES, Rule
from labeldp.inference.cells import values_of
from labeldp.inference.counts import LogLinear
from labeldp.inference.effects import least_squares
from labeldp.inference.estimate import LEVEL, Estimate, check_level
from labeldp.inference.groups import Codes
from labeldp.inference.intervals import (
    Ends,
    end_of_tests,
    exact_shares,
    normal_quantile,
    sidak,
    spread_of,
    student,
    student_or_more,
)
from labeldp.inference.released import NoisySums, Outcomes, estimate_of, outcome_code
from labeldp.inference.sums import design_matrix, exposures, is_sums, odds_of_sums, orthonormal, regression_of_sums
from labeldp.mechanisms import Classes
from labeldp.privacy import Flags, Floats, InputError, NotInvertibleError, check_choice

FARTHEST = 15.0
"""A log odds ratio for a standard deviation of what is left of a column without the others; more is unbounded."""

WEAK = 0.5
"""An interval that reaches further from its estimate, in the same unit, is of answers that say little."""

KINDS = ("logistic", "linear", "poisson")

MODEL = "the model is right: the log odds are linear in the features"

FEW = "the answers admit an unbounded log rate ratio (they are few, or their noise hides the mean)"

LOG_LINEAR = "the model is right: the log of the mean number is linear in the features"

SEPARATED = "the answers admit an unbounded log odds ratio (a feature separates the classes, or answers are few)"


def regression(
    release: Any,
    features: Any,
    *,
    kind: str = "logistic",
    outcome: Any = None,
    names: Any = None,
    users: Any = None,
    level: float = LEVEL,
    simultaneous: bool = False,
) -> Estimate:
    """Estimate the coefficients of a regression on public features.

    Args:
        release: single answers; for kind="linear" also the sums of `plan_sums("regression", …)`.
        features: public numbers, shape (n, d), without a constant.
        kind: "logistic", log odds of a class by maximum likelihood of the answers; "linear", least squares of unbiased
            indicators or numbers; "poisson", logs of mean numbers that are at least 0, such as counts of any law.
        outcome: the class; of two classes the second one by default.
        names: of the features.
        users, level: see `mean`.
        simultaneous: whether all intervals hold together (Bonferroni), or each by itself.

    Returns:
        The constant and a coefficient for each feature; the unit and the origin of a column do not matter. Where
        answers say little, or a feature separates the classes, an end is infinite, and an assumption names the feature.

    Raises:
        InputError: features that do not fit or depend on each other, numbers with kind="logistic", or classes or
            numbers below 0 with kind="poisson".

    Source: Wilks for likelihood ratio tests; the likelihood is that of the answers. Rao for the tests of "poisson".
    """
    check_choice(kind, "kind", KINDS)
    check_level(level)
    design = design_matrix(features)
    titles = (
        tuple(map(str, names)) if names is not None else tuple(f"x{column}" for column in range(1, design.shape[1]))
    )
    if len(titles) != design.shape[1] - 1:
        raise InputError(f"must be {design.shape[1] - 1} names, one for each feature", argument="names")
    axes = (("feature", ("constant", *titles)),)
    entry = sidak(level, 1, design.shape[1]) if simultaneous else level
    if is_sums(release):
        if kind != "linear" or users is not None:
            raise InputError("must be 'linear', without users, for sums", argument="kind")
        sums, value, variance = regression_of_sums(release, features, level)
        half = normal_quantile(entry) * np.sqrt(variance)
        return estimate_of(
            sums, RULES["linear, sums"], "coefficient", axes, value, value - half, value + half, variance, level,
            simultaneous,
        )  # fmt: skip
    outcomes = Outcomes.of(release, users, features=features)
    if len(design) != outcomes.records:
        raise InputError(f"must have a row for each of the {outcomes.records} records", argument="features")
    code = outcome_code(outcomes, outcome) if outcomes.names else None
    if kind == "linear":
        number = np.concatenate([values_of(outcomes, code, rows) for rows in outcomes.blocks()])
        domain = outcomes.mechanism.domain
        reach = 1.0 if code is not None else float(domain.high - domain.low)
        value, variance, freedom, more = least_squares(design, number, outcomes.users)
        low, high = student_or_more(value, variance, reach**2 * more, freedom, entry)
        return estimate_of(
            outcomes, RULES["linear"], "coefficient", axes, value, low, high, variance,
            level, simultaneous,
        )  # fmt: skip
    if code is None and kind == "logistic":
        raise InputError("must be 'linear' or 'poisson' for a number", argument="kind")
    if kind == "poisson" and (code is not None or outcomes.mechanism.domain.low < 0):
        raise InputError("must be 'logistic' or 'linear': no numbers that are at least 0", argument="kind")
    basis = orthonormal(design)
    assert basis is not None
    columns, back = basis
    if code is None:
        number = np.concatenate([outcomes.numbers(rows) for rows in outcomes.blocks()])
        model = LogLinear(columns, number, outcomes.users)
        solved, means = model.climbed(model.start)
        value, low, high, variance = np.array([model.ends(way, solved, means, entry) for way in back]).T
        return estimate_of(
            outcomes, RULES["poisson"], "log rate ratio", axes, value, low, high, variance, level, simultaneous, None,
            None, (LOG_LINEAR, *_unbounded(FEW, axes, low, high), *outcomes.conditions),
        )  # fmt: skip
    likelihood = Likelihood.of(outcomes, columns, code)
    best, optimum = likelihood.climbed(likelihood.start)
    _, information, scores = likelihood.parts(optimum)
    inverse: Floats = np.asarray(np.linalg.pinv(information), dtype=np.float64)
    value, variance = back @ optimum, np.einsum("ij,jk,ik->i", back, inverse, back)
    if outcomes.clustered:
        clustered, most = _clustered(scores, outcomes.users)
        assert outcomes.users is not None
        weights = columns * np.sqrt(likelihood.information(optimum))[:, None] @ inverse @ back.T
        total = np.zeros((int(outcomes.users.max()) + 1, weights.shape[1]))
        np.add.at(total, outcomes.users, weights**2)
        freedom = np.minimum(spread_of(total)[0], most)
        variance = np.einsum("ij,jk,ik->i", back, inverse @ clustered @ inverse, back)
        rule, (low, high) = RULES["logistic, users"], student(value, variance, freedom, entry)
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    else:
        numbers = np.array([likelihood.ends(direction, best, optimum, inverse, entry) for direction in back])
        rule, (value, low, high) = RULES["logistic"], numbers.T
    return estimate_of(
        outcomes, rule, "log odds ratio", axes, value, low, high, variance, level, simultaneous, None, None,
        (MODEL, *_unbounded(SEPARATED, axes, low, high), *outcomes.conditions),
    )  # fmt: skip


def _unbounded(note: str, axes: Any, low: Floats, high: Floats) -> tuple[str, ...]:
    """Return a condition that names the features whose intervals have no end."""
    names = [name for name, end in zip(axes[0][1], np.isinf(low) | np.isinf(high), strict=True) if end]
    return (f"{note}: {', '.join(names)}",) if names else ()


def _clustered(scores: Floats, users: Codes | None) -> tuple[Floats, int]:
    """Return the covariance of the sum of scores, and the degrees of freedom."""
    assert users is not None
    totals = np.stack([np.bincount(users, weights=column) for column in scores.T], axis=1)
    count = len(totals)
    return np.asarray(count / (count - 1) * totals.T @ totals), count - 1


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of answers: P(the answer names the class | x) = no + (yes - no) expit(x b).

    Args:
        design: orthonormal columns, shape (n, d); see `orthonormal`.
        named: whether the answer names the class, shape (n,).
        yes, no: how often it does for the class and for others, shape (n,) or one number.
    """

    design: Floats = field(repr=False)
    named: Flags = field(repr=False)
    yes: Floats = field(repr=False)
    no: Floats = field(repr=False)

    @classmethod
    def of(cls, outcomes: Outcomes, design: Floats, code: int) -> "Likelihood":
        """Return the likelihood for a class."""
        named = np.concatenate([outcomes.named(rows, code) for rows in outcomes.blocks()])
        rates = outcomes.rates()
        if rates is not None:
            return cls(design, named, np.asarray(rates[0][code]), np.asarray(rates[1][code]))
        if not outcomes.by_record or len(outcomes.names) > 2:
            raise NotInvertibleError("the noise of release differs between the other classes: take two classes")
        matrix = outcomes.mechanism.design.matrix
        return cls(design, named, matrix[:, code, code], matrix[:, 1 - code, code])

    @property
    def start(self) -> Floats:
        """The coefficients of a constant chance, shape (d,)."""
        share = np.clip(np.mean((self.named - self.no) / (self.yes - self.no)), 0.01, 0.99)
        return np.asarray(self.design.mean(axis=0) * np.log(share / (1 - share)))

    def _terms(self, coefficients: Floats) -> tuple[float, Floats, Floats]:
        """Return the log-likelihood, and of each record the information and the score of its log odds, shape (n,)."""
        chance = expit(self.design @ coefficients)
        rate = np.clip(self.no + (self.yes - self.no) * chance, 1e-12, 1 - 1e-12)
        slope = (self.yes - self.no) * chance * (1 - chance)
        spread = rate * (1 - rate)
        value = float(np.log(np.where(self.named, rate, 1 - rate)).sum())
        return value, slope**2 / spread, slope * (self.named - rate) / spread

    def information(self, coefficients: Floats) -> Floats:
        """Return the information of each record about its log odds, shape (n,)."""
        return self._terms(coefficients)[1]

    def parts(self, coefficients: Floats) -> tuple[float, Floats, Floats]:
        """Return log-likelihood, Fisher information and the scores of records."""
        value, information, score = self._terms(coefficients)
        return value, (self.design * information[:, None]).T @ self.design, self.design * score[:, None]

    def climbed(self, *starts: Floats, held: Floats | None = None) -> tuple[float, Floats]:
        """Return the log-likelihood and the coefficients at the highest of several maxima: it is not concave.

        Args:
            starts: coefficients, of which those along `held` stay unchanged.
            held: a direction of length 1, shape (d,).
        """
        return max((self._climbed(start, held) for start in starts), key=lambda climb: climb[0])

    def _climbed(self, start: Floats, held: Floats | None) -> tuple[float, Floats]:
        """Climb by Fisher's scoring from one start."""
        across = np.zeros((len(start), len(start))) if held is None else np.outer(held, held)
        coefficients, (value, information, scores) = start.copy(), self.parts(start)
        for _ in range(60):
            free = np.eye(len(start)) - across
            slope = free @ scores.sum(axis=0)
            move = free @ np.linalg.solve(free @ information @ free + across * len(self.design) + 1e-6 * free, slope)
            move *= min(1.0, 3 / max(float(np.abs(move).max()), 1e-9))
            size, after = 1.0, self.parts(coefficients + move)
            while size > 1e-4 and after[0] < value - 1e-10:
                size /= 2
                after = self.parts(coefficients + size * move)
            coefficients = coefficients + size * move
            before, (value, information, scores) = value, after
            if abs(value - before) < 1e-6 or float(np.abs(coefficients).max()) > 2 * FARTHEST:
                break
        return value, coefficients

    def _profiled(self, move: float, held: Floats, optimum: Floats, inverse: Floats) -> float:
        """Return the log-likelihood at a maximum across a direction, so far from the `optimum`.

        The information there is close to that at `optimum`, so few steps with its inverse suffice; if not, climb.
        """
        along = inverse @ held
        width = float(held @ along)
        if not 1e-12 < width < 1e6 / len(self.design):
            return self._climbed(optimum + move * held, held)[0]
        across = inverse - np.outer(along, along) / width
        coefficients = optimum + move * along / width
        value, _, score = self._terms(coefficients)
        for _ in range(12):
            step = across @ (score @ self.design)
            after, _, further = self._terms(coefficients + step)
            gain = after - value
            if gain < -1e-9:
                break
            coefficients, value, score = coefficients + step, after, further
            if gain < 1e-4:
                return value
        return self._climbed(coefficients, held)[0]

    def ends(
        self, direction: Floats, best: float, optimum: Floats, inverse: Floats, level: float
    ) -> tuple[float, float, float]:
        """Return a linear function of the coefficients, and the ends that a likelihood ratio test does not refuse.

        Args:
            direction: the weights of the function, shape (d,).
            best, optimum: the largest log-likelihood and its coefficients.
            inverse: of the information there, shape (d, d).
            level: coverage.
        """
        length = float(np.linalg.norm(direction))
        held = direction / length
        center, limit = float(held @ optimum), normal_quantile(level)
        step = limit * float(np.clip(np.sqrt(np.maximum(held @ inverse @ held, 0.0)), 0.02, 2.0))

        def root(at: float) -> float:
            """Return by how much the root of the ratio exceeds its limit; weak answers can have a second maximum."""
            value = self._profiled(at - center, held, optimum, inverse)
            if step > WEAK and 2 * (best - value) > limit**2:
                value = max(value, self._climbed(self.start + (at - held @ self.start) * held, held)[0])
            return float(np.sqrt(max(2 * (best - value), 0.0))) - limit

        low = -np.inf if center <= -FARTHEST else end_of_tests(root, center, limit, -step, FARTHEST)
        high = np.inf if center >= FARTHEST else end_of_tests(root, center, limit, step, FARTHEST)
        value = center if abs(center) < FARTHEST else float(np.copysign(np.inf, center))
        return value * length, low * length, high * length


def odds_ratio(release: Any, exposed: Any, *, outcome: Any = None, users: Any = None, level: float = LEVEL) -> Estimate:
    """Estimate the odds ratio of a class for a public exposure.

    Exact tests of both shares are combined as a likelihood ratio test combines them, so that the interval is about as
    wide as that of a logistic `regression` on the exposure.

    Args:
        release: answers by classes, or the sums of `plan_sums("difference", …)`.
        exposed: true or false, shape (n,).
        outcome: the class; of two classes the second one by default.
        users: see `mean`; refused where users have several records.
        level: coverage.

    Returns:
        The ratio; its upper end is infinite where answers do not show that the class occurs without the exposure.

    Source: Wilks for the combination of two tests.
    """
    source, sums, share, ends_of = _shares_by_exposure(release, exposed, outcome, users, "an odds ratio", level)
    rule = RULES["odds ratio, sums" if sums else "odds ratio"]
    return _ratio(source, rule, "odds ratio", logit, share, ends_of, level)


def risk_ratio(release: Any, exposed: Any, *, outcome: Any = None, users: Any = None, level: float = LEVEL) -> Estimate:
    """Estimate how many times as frequent a class is with a public exposure as without: the relative lift plus one.

    Args:
        release, exposed, outcome, users, level: see `odds_ratio`.

    Returns:
        The ratio; its upper end is infinite where answers do not show that the class occurs without the exposure.

    Source: Wilks for the combination of two tests.
    """
    source, sums, share, ends_of = _shares_by_exposure(release, exposed, outcome, users, "a risk ratio", level)
    rule = RULES["risk ratio, sums" if sums else "risk ratio"]
    return _ratio(source, rule, "risk ratio", np.log, share, ends_of, level)


def _shares_by_exposure(
    release: Any, exposed: Any, outcome: Any, users: Any, title: str, level: float
) -> tuple[Outcomes | NoisySums, bool, Floats, Callable[[float], Ends]]:
    """Return the source, whether it is sums, the shares of a class without and with exposure, and their ends."""
    check_level(level)
    if is_sums(release):
        sums, share, ends_of = odds_of_sums(release, exposed, outcome, users)
        return sums, True, share, ends_of
    outcomes = Outcomes.of(release, users, treated=exposed)
    if outcomes.clustered:
        raise InputError(
            f"must be left out: {title} needs records that are independent of each other; regression has "
            "errors clustered by user",
            argument="users",
        )
    if not isinstance(outcomes.mechanism.domain, Classes):
        raise InputError("must be of classes: the outcome is a number", argument="release")
    rates, code = outcomes.rates(), outcome_code(outcomes, outcome)
    if rates is None:
        raise NotInvertibleError("the noise of release differs between records or classes: take regression")
    cells = exposures(exposed, outcomes.records)
    hit, miss = rates[0][code], rates[1][code]
    hits = outcomes.counts(cells)[:, code]
    share = (hits / cells.sizes - miss) / (hit - miss)

    def ends_of_answers(level: float) -> Ends:
        return exact_shares(hits, cells.sizes, (hit, miss), level)[1:3]

    return outcomes, False, share, ends_of_answers


ANGLES = 13
"""Ways to divide the risk of a test of two shares between them."""


def _ratio(
    source: Outcomes | NoisySums,
    rule: Rule,
    quantity: str,
    measure: Callable[[Floats], Floats],
    share: Floats,
    ends_of: Callable[[float], Ends],
    level: float,
) -> Estimate:
    """Return the ratio of the measures of two shares, with exposure and without.

    A ratio is refused if, for all two shares with this ratio, the squares of the normal quantiles at which their
    intervals end sum to more than that of the level.

    Args:
        source: what the shares are from.
        rule: see `Rule`.
        quantity: the ratio, in words.
        measure: the logarithm of a measure that grows with a share: the share or its odds.
        share: shape (2,).
        ends_of: their ends at a level, each shape (2,).
        level: coverage.
    """
    quantiles = normal_quantile(level) * np.sin(np.linspace(0, np.pi / 2, ANGLES))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.stack([measure(np.clip(ends_of(float(2 * ndtr(at) - 1)), 0, 1)) for at in quantiles], axis=1)
        value = np.exp(measure(share[1]) - measure(share[0])) if np.all((share > 0) & (share < 1)) else np.nan
        least, most = low[:, 1] - high[::-1, 0], high[:, 1] - low[::-1, 0]
        lower = np.exp(np.min(np.where(least < np.inf, least, -np.inf)))  # of two empty intervals nothing follows
        upper = np.exp(np.max(np.where(most > -np.inf, most, np.inf)))
    return estimate_of(source, rule, quantity, (), value, lower, upper, None, level, False)
