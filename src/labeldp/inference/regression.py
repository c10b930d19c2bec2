"""Regression of a private outcome on public features, and odds ratios of a public exposure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from labeldp.inference.effects import least_squares, values_of
from labeldp.inference.estimate import LEVEL, RULES, Estimate, Rule, check_level
from labeldp.inference.groups import Codes
from labeldp.inference.intervals import clopper_pearson, normal_quantile, sidak, student
from labeldp.inference.released import NoisySums, Outcomes, estimate_of, outcome_code, precision
from labeldp.inference.sums import arms, design_matrix, is_sums, odds_of_sums, regression_of_sums
from labeldp.mechanisms import Classes
from labeldp.privacy import Flags, Floats, InputError, NotInvertibleError, check_choice

FARTHEST = 15.0
"""A log odds ratio that is not refused there is called unbounded."""

MODEL = "the model is right: the log odds are linear in the features"


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
            indicators or numbers.
        outcome: the class; of two classes the second one by default.
        names: of the features.
        users, level: see `mean`.
        simultaneous: whether all intervals hold together (Bonferroni), or each by itself.

    Returns:
        The constant and a coefficient for each feature. Where answers say little, the estimate may lie at an edge while
        the interval still holds. Ends beyond a log odds ratio of 15 are infinite.

    Raises:
        InputError: features that do not fit or depend on each other, or numbers with kind="logistic".

    Source: Rao for score tests; the likelihood is that of the answers.
    """
    check_choice(kind, "kind", ("logistic", "linear"))
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
        sums, value, variance, sampling = regression_of_sums(release, features, level)
        half = normal_quantile(entry) * np.sqrt(variance)
        noise, effective = precision(variance, sampling, np.asarray(len(design)))
        return estimate_of(
            sums, RULES["linear, sums"], "coefficient", axes, value, value - half, value + half, variance, level,
            simultaneous, noise, effective,
        )  # fmt: skip
    outcomes = Outcomes.of(release, users, features=features)
    if len(design) != outcomes.records:
        raise InputError(f"must have a row for each of the {outcomes.records} records", argument="features")
    code = outcome_code(outcomes, outcome) if outcomes.names else None
    if kind == "linear":
        number = np.concatenate([values_of(outcomes, code, rows) for rows in outcomes.blocks()])
        value, covariance, freedom = least_squares(design, number, outcomes.users)
        variance = np.diagonal(covariance)
        return estimate_of(
            outcomes, RULES["linear"], "coefficient", axes, value, *student(value, variance, freedom, entry), variance,
            level, simultaneous,
        )  # fmt: skip
    if code is None:
        raise InputError("must be 'linear' for a number", argument="kind")
    likelihood = Likelihood.of(outcomes, design, code)
    value, information, scores = likelihood.best()
    inverse = np.linalg.pinv(information)
    if outcomes.clustered:
        covariance = inverse @ _clustered(scores, outcomes.users) @ inverse
        half = normal_quantile(entry) * np.sqrt(np.diagonal(covariance))
        rule, low, high, variance = RULES["logistic, users"], value - half, value + half, np.diagonal(covariance)
    else:
        ends = [
            likelihood.ends(index, value, np.asarray(inverse, dtype=np.float64), entry) for index in range(len(value))
        ]
        low, high = np.array(ends).T
        rule, variance = RULES["logistic"], np.diagonal(inverse)
    return estimate_of(
        outcomes, rule, "log odds ratio", axes, value, low, high, variance, level, simultaneous, None, None,
        (MODEL, *outcomes.conditions),
    )  # fmt: skip


def _clustered(scores: Floats, users: Codes | None) -> Floats:
    assert users is not None
    totals = np.stack([np.bincount(users, weights=column) for column in scores.T], axis=1)
    count = len(totals)
    return np.asarray(count / (count - 1) * totals.T @ totals)


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of answers: P(the answer names the class | x) = no + (yes - no) expit(x b).

    Args:
        design: shape (n, d).
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
        named = np.concatenate([outcomes.named(rows)[:, code] for rows in outcomes.blocks()])
        rates = outcomes.rates()
        if rates is not None:
            return cls(design, named, np.asarray(rates[0][code]), np.asarray(rates[1][code]))
        if not outcomes.by_record or len(outcomes.names) > 2:
            raise NotInvertibleError("the noise of release differs between the other classes: take two classes")
        matrix = outcomes.mechanism.design.matrix
        return cls(design, named, matrix[:, code, code], matrix[:, 1 - code, code])

    def parts(self, coefficients: Floats) -> tuple[float, Floats, Floats]:
        """Return log-likelihood, Fisher information and the scores of records."""
        chance = expit(self.design @ coefficients)
        rate = np.clip(self.no + (self.yes - self.no) * chance, 1e-12, 1 - 1e-12)
        slope = (self.yes - self.no) * chance * (1 - chance)
        spread = rate * (1 - rate)
        value = float(np.where(self.named, np.log(rate), np.log1p(-rate)).sum())
        information = (self.design * (slope**2 / spread)[:, None]).T @ self.design
        return value, information, self.design * (slope * (self.named - rate) / spread)[:, None]

    def climbed(self, start: Floats, free: Flags) -> tuple[float, Floats]:
        """Return the log-likelihood and the coefficients at a maximum, by Fisher's scoring; some are fixed."""
        coefficients, (value, information, scores) = start.copy(), self.parts(start)
        for _ in range(60):
            move = np.zeros_like(coefficients)
            ridge = 1e-6 * np.eye(int(free.sum()))
            move[free] = np.linalg.solve(information[np.ix_(free, free)] + ridge, scores.sum(axis=0)[free])
            move *= min(1.0, 3 / max(float(np.abs(move).max()), 1e-9))
            size = 1.0
            after = self.parts(coefficients + move)
            while size > 1e-4 and after[0] < value - 1e-10:
                size /= 2
                after = self.parts(coefficients + size * move)
            coefficients = coefficients + size * move
            before, (value, information, scores) = value, after
            if abs(value - before) < 1e-7 or float(np.abs(coefficients).max()) > FARTHEST:
                break
        return value, coefficients

    def best(
        self, start: Floats | None = None, index: int | None = None, at: float = 0.0
    ) -> tuple[Floats, Floats, Floats]:
        """Return coefficients, information and scores at the highest of several maxima: it is not concave.

        Args:
            start: one more start.
            index, at: a coefficient that is held, and its value.
        """
        width = self.design.shape[1]
        free = np.arange(width) != (-1 if index is None else index)
        share = np.clip(np.mean((self.named - self.no) / (self.yes - self.no)), 0.01, 0.99)
        plain = np.zeros(width)
        plain[0] = np.log(share / (1 - share))
        starts = [plain, np.zeros(width), *([] if start is None else [start])]
        if index is not None:
            for coefficients in starts:
                coefficients[index] = at
        _, coefficients = max((self.climbed(one, free) for one in starts), key=lambda climb: climb[0])
        _, information, scores = self.parts(coefficients)
        return coefficients, information, scores

    def ends(self, index: int, value: Floats, inverse: Floats, level: float) -> tuple[float, float]:
        """Return the coefficients between which a score test refuses none, by search outwards and bisection."""
        limit = normal_quantile(level) ** 2
        step = float(np.clip(np.sqrt(max(inverse[index, index], 0)), 0.05, 4))
        others_of = np.arange(len(value)) != index

        def refused(at: float) -> bool:
            _, information, scores = self.best(value.copy(), index, at)
            across = np.linalg.pinv(information[np.ix_(others_of, others_of)]) @ information[others_of, index]
            left = information[index, index] - information[index, others_of] @ across
            total = scores.sum(axis=0)
            return bool((total[index] - across @ total[others_of]) ** 2 > limit * max(float(left), 1e-12))

        center = float(np.clip(value[index], -FARTHEST, FARTHEST))
        return self._end(refused, center, -step), self._end(refused, center, step)

    @staticmethod
    def _end(refused: Callable[[float], bool], inside: float, step: float) -> float:
        outside = inside + step
        while abs(outside) <= FARTHEST and not refused(outside):
            inside, outside, step = outside, outside + step, 1.5 * step
        if abs(outside) > FARTHEST:
            outside = float(np.copysign(FARTHEST, step))
            if not refused(outside):
                return float(np.copysign(np.inf, step))
        for _ in range(16):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if refused(middle) else (middle, outside)
        return outside


def odds_ratio(release: Any, exposed: Any, *, outcome: Any = None, users: Any = None, level: float = LEVEL) -> Estimate:
    """Estimate the odds ratio of a class for a public exposure: exact, and therefore wide.

    `regression` with the exposure as its feature is narrower, and holds for many records.

    Args:
        release: answers by classes, or the sums of `plan_sums("difference", …)`.
        exposed: true or false, shape (n,).
        outcome: the class; of two classes the second one by default.
        users: see `mean`; an exact interval is refused where users have several records.
        level: coverage.

    Returns:
        The ratio; its upper end is infinite where answers do not show that the class occurs without the exposure.
    """
    root = check_level(level) ** 0.5
    if is_sums(release):
        source, share, low, high = odds_of_sums(release, exposed, outcome, users, root)
        return _odds(source, RULES["odds ratio, sums"], share, low, high, level)
    outcomes = Outcomes.of(release, users, treated=exposed)
    if outcomes.clustered:
        raise InputError(
            "must be left out: an exact odds ratio needs records that are independent of each other; regression has "
            "errors clustered by user",
            argument="users",
        )
    if not isinstance(outcomes.mechanism.domain, Classes):
        raise InputError("must be of classes: the outcome is a number", argument="release")
    rates, code = outcomes.rates(), outcome_code(outcomes, outcome)
    if rates is None:
        raise NotInvertibleError("the noise of release differs between records or classes: take regression")
    cells = arms(exposed, outcomes.records)
    hit, miss = rates[0][code], rates[1][code]
    hits = outcomes.counts(cells)[:, code]
    ends = [(end - miss) / (hit - miss) for end in clopper_pearson(hits, cells.sizes, root)]
    low, high = np.clip(np.minimum(*ends), 0, 1), np.clip(np.maximum(*ends), 0, 1)
    share = (hits / cells.sizes - miss) / (hit - miss)
    return _odds(outcomes, RULES["odds ratio"], share, low, high, level)


def _odds(source: Outcomes | NoisySums, rule: Rule, share: Floats, low: Floats, high: Floats, level: float) -> Estimate:
    """Return the odds ratio of two shares, each at the root of the level, shape (2,): without and with exposure."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value, lower, upper = (
            a / (1 - a) / (b / (1 - b)) for a, b in ((share[1], share[0]), (low[1], high[0]), (high[1], low[0]))
        )
    shown = value if np.all((share > 0) & (share < 1)) else np.nan
    return estimate_of(
        source, rule, "odds ratio", (), shown, np.nan_to_num(lower, nan=0.0),
        np.nan_to_num(upper, nan=np.inf, posinf=np.inf), None, level, False,
    )  # fmt: skip
