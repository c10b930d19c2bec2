"""Populations with a known truth, records drawn from them, and noise: what every interval is held against.

Nothing here is taken from an estimator. A cell draws its records anew in each run, so that the sizes of groups, arms
and predictions vary as they do among people. Answers are randomized by the few lines below, sums by their mechanism.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import norm

import labeldp as ldp
from labeldp import inference
from labeldp.inference import designs
from labeldp.mechanisms import UnbiasedNumbers

Drawn = tuple[Any, Any]
"""An estimate, and the truth for its entries."""


@dataclass(frozen=True)
class Cell:
    """One estimator on one population.

    Args:
        name: of the estimator and the population.
        records: how many are drawn in a run.
        epsilon: of the release.
        run: draws records and noise, and returns an estimate with the truth; takes a generator and the level.
    """

    name: str
    records: int
    epsilon: float
    run: Callable[[np.random.Generator, float], Drawn]

    @property
    def title(self) -> str:
        """Its name in a list."""
        return f"{self.name}, n = {self.records:,}, ε = {self.epsilon:g}"

    def coverage(self, runs: int, seed: int, level: float = 0.95) -> tuple[int, str, float]:
        """Return in how many runs all entries hold the truth, what is guaranteed, and the mean width."""
        rng = np.random.default_rng([seed, *self.title.encode()])
        held, widths, guarantee = 0, [], ""
        for _ in range(runs):
            estimate, truth = self.run(rng, level)
            low, high = np.asarray(estimate.low), np.asarray(estimate.high)
            assert not np.isnan(low).any() and not np.isnan(high).any(), f"{self.title}: an end is NaN"
            held += bool(np.all((low <= truth) & (truth <= high)))
            widths.append(float(np.mean(high - low)))
            guarantee = estimate.guarantee
        return held, guarantee, float(np.mean(widths))


@cache
def template(mechanism: Any) -> Any:
    """A release by a mechanism of classes, whose value a run replaces."""
    labels = np.zeros(4, dtype=np.int64)
    curator = ldp.Curator(labels, domain=mechanism.domain, budget=ldp.Budget(epsilon=1e3))
    return curator.release(mechanism, rng=np.random.default_rng(0))


def answers(rng: np.random.Generator, labels: Any, classes: int, epsilon: float) -> Any:
    """Randomized response of labels 0 … K - 1, drawn here."""
    lie = rng.random(len(labels)) >= np.exp(epsilon) / (np.exp(epsilon) + classes - 1)
    other = rng.integers(0, classes - 1, len(labels))
    noisy = np.where(lie, other + (other >= labels), labels)
    mechanism = ldp.RandomizedResponse(domain=ldp.Classes(classes), epsilon=epsilon)
    return replace(template(mechanism), value=noisy.astype(mechanism.domain.dtype))


def sums(rng: np.random.Generator, labels: Any, plan: Any) -> Any:
    """Noisy sums of labels by a planned mechanism."""
    curator = ldp.Curator(labels, domain=plan.domain, budget=ldp.Budget(epsilon=1e3))
    return curator.release(plan, rng=rng)


def public(values: Any) -> Any:
    return ldp.Public(values, why="drawn before the labels")


TWO = ldp.Classes(2)


# ---- shares, means, quantiles


def shares(records: int, epsilon: float, rates: tuple[float, ...], kind: str) -> Callable[..., Drawn]:
    law = np.array(rates)

    def run(rng: np.random.Generator, level: float) -> Drawn:
        labels = rng.choice(len(law), records, p=law)
        if kind == "sums":
            plan = inference.plan_sums("mean", ldp.Classes(len(law)), epsilon, records=records)
            return inference.mean(sums(rng, labels, plan), level=level), law
        return inference.mean(answers(rng, labels, len(law), epsilon), level=level), law

    return run


def groups(records: int, epsilon: float) -> Callable[..., Drawn]:
    chance, part = np.array([0.02, 0.4, 0.9]), np.array([0.03, 0.27, 0.7])

    def run(rng: np.random.Generator, level: float) -> Drawn:
        # all groups are named, so that one without records is an error of the run and not of the estimator
        group = np.concatenate([[0, 1, 2], rng.choice(3, records - 3, p=part)])
        labels = (rng.random(records) < chance[group]).astype(int)
        estimate = inference.mean(answers(rng, labels, 2, epsilon), outcome=1, groups=group, level=level)
        return estimate, chance

    return run


def users(people: int, epsilon: float) -> Callable[..., Drawn]:
    def run(rng: np.random.Generator, level: float) -> Drawn:
        own = rng.beta(1.2, 2.8, people)  # mean .3
        user = np.repeat(np.arange(people), 5)
        labels = (rng.random(len(user)) < own[user]).astype(int)
        return inference.mean(answers(rng, labels, 2, epsilon), outcome=1, users=user, level=level), 0.3

    return run


def unequal_users(people: int, epsilon: float, share: float, law: str) -> Callable[..., Drawn]:
    """All records of a user have the same label; some users have many records."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        sizes = np.full(people, 5)
        if law == "unequal":
            sizes = np.minimum(1 + (2 * rng.pareto(1.2, people)).astype(int), 300)
        user = np.repeat(np.arange(people), sizes)
        labels = (rng.random(people) < share).astype(int)[user]
        return inference.mean(answers(rng, labels, 2, epsilon), outcome=1, users=user, level=level), share

    return run


def quantile(records: int, epsilon: float, at: float) -> Callable[..., Drawn]:
    law = np.array([0.35, 0.1, 0.02, 0.13, 0.3, 0.1])
    truth = int((np.cumsum(law) >= at).argmax())

    def run(rng: np.random.Generator, level: float) -> Drawn:
        labels = rng.choice(len(law), records, p=law)
        return inference.quantile(answers(rng, labels, len(law), epsilon), at=at, level=level), truth

    return run


def quantile_of_design(records: int) -> Callable[..., Drawn]:
    """A die decides which class is said in place of the truth."""
    matrix, law = 0.6 * np.eye(3) + 0.4 * np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.35, 0.45])

    def run(rng: np.random.Generator, level: float) -> Drawn:
        labels = rng.choice(3, records, p=law)
        said = (np.cumsum(matrix[labels], axis=1) < rng.random(records)[:, None]).sum(axis=1)
        release = inference.answers(said, designs.matrix(matrix), domain=ldp.Classes(3))
        return inference.quantile(release, level=level), 1

    return run


def rare_class_of_design(records: int) -> Callable[..., Drawn]:
    """Only the third class is ever said to be the third."""
    matrix, law = np.array([[0.8, 0.2, 0], [0.2, 0.8, 0], [0.1, 0.1, 0.8]]), np.array([0.5, 0.495, 0.005])

    def run(rng: np.random.Generator, level: float) -> Drawn:
        labels = rng.choice(3, records, p=law)
        said = (np.cumsum(matrix[labels], axis=1) < rng.random(records)[:, None]).sum(axis=1)
        release = inference.answers(said, designs.matrix(matrix), domain=ldp.Classes(3))
        return inference.mean(release, outcome=2, level=level), law[2]

    return run


def draw_numbers(rng: np.random.Generator, size: int, law: str) -> Any:
    if law == "claims":
        return np.where(rng.random(size) < 0.05, np.rint(np.minimum(np.exp(rng.normal(2.5, 1, size)), 100)), 0.0)
    if law == "atom":
        return np.where(rng.random(size) < 0.005, 100.0, 0.0)
    return np.rint(rng.uniform(20, 80, size)) if law == "even" else np.where(rng.random(size) < 0.5, 0.0, 100.0)


@cache
def mean_number(law: str) -> float:
    """The mean of the population, from four million draws."""
    return float(np.mean(draw_numbers(np.random.default_rng(77), 4_000_000, law)))


def numbers(records: int, epsilon: float, law: str, kind: str) -> Callable[..., Drawn]:
    domain = ldp.Interval(0, 100, grid=101, clip=True)

    @cache
    def plan() -> Any:
        if kind == "sums":
            return inference.plan_sums("mean", domain, epsilon, records=records)
        return UnbiasedNumbers(domain, epsilon=epsilon)

    def run(rng: np.random.Generator, level: float) -> Drawn:
        return inference.mean(sums(rng, draw_numbers(rng, records, law), plan()), level=level), mean_number(law)

    return run


def effect_on_numbers(records: int, epsilon: float, kind: str) -> Callable[..., Drawn]:
    """Few are treated, and few numbers are not 0."""
    domain = ldp.Interval(0, 100, grid=101, clip=True)

    def run(rng: np.random.Generator, level: float) -> Drawn:
        mail = rng.random(records) < 0.05
        mail[:4] = [True, True, False, False]
        labels = np.where(rng.random(records) < np.where(mail, 0.05, 0.02), 100.0, 0.0)
        mechanism = UnbiasedNumbers(domain, epsilon=epsilon)
        if kind == "sums":
            mechanism = inference.plan_sums("difference", domain, epsilon, treated=public(mail))
        return inference.difference(sums(rng, labels, mechanism), mail, level=level), 3.0

    return run


# ---- scores of a rule: how often it says yes, and the share of positives where it does and where it does not

RULES = {
    "screening": (0.3, 0.1, 0.001),
    "rare and precise": (0.002, 0.9, 0.01),
    "even": (0.4, 0.8, 0.15),
    "few positives": (0.1, 0.035, 0.0017),
}


def rule(rng: np.random.Generator, records: int, name: str) -> tuple[Any, Any]:
    part, right, missed = RULES[name]
    flagged = rng.random(records) < part
    return flagged.astype(int), (rng.random(records) < np.where(flagged, right, missed)).astype(int)


def truth_of(name: str, score: str) -> Any:
    part, right, missed = RULES[name]
    hit, lost = part * right, (1 - part) * missed
    negatives = part * (1 - right), (1 - part) * (1 - missed)
    return {
        "accuracy": hit + negatives[1],
        "precision": np.array([1 - missed, right]),
        "recall": np.array([negatives[1] / sum(negatives), hit / (hit + lost)]),
        "f1": np.array([2 * negatives[1] / (1 - part + sum(negatives)), 2 * hit / (part + hit + lost)]),
    }[score]


def score(records: int, epsilon: float, name: str, metric: str, kind: str) -> Callable[..., Drawn]:
    truth = truth_of(name, metric)

    def run(rng: np.random.Generator, level: float) -> Drawn:
        flagged, labels = rule(rng, records, name)
        if kind == "sums":
            plan = inference.plan_sums("evaluate", TWO, epsilon, predictions=public(flagged))
            release = sums(rng, labels, plan)
        else:
            release = answers(rng, labels, 2, epsilon)
        scores = inference.evaluate(release, public(np.where(flagged, 0.8, 0.2)), level=level)
        return getattr(scores, metric)(), truth

    return run


def gap(records: int, epsilon: float) -> Callable[..., Drawn]:
    """Equal opportunity of two groups, 5 % positives."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        group = (rng.random(records) < 0.2).astype(int)
        labels = (rng.random(records) < 0.05).astype(int)
        hit = rng.random(records) < np.where(labels == 1, np.where(group, 0.5, 0.8), 0.1)
        scores = inference.evaluate(
            answers(rng, labels, 2, epsilon), public(np.where(hit, 0.9, 0.1)), groups=group, level=level
        )
        return scores.gap("recall", reference=0).at(**{"class": 1}), -0.3

    return run


def gap_of_users(people: int, epsilon: float) -> Callable[..., Drawn]:
    """Each user has a record in both groups, and is right in one of them."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        first = rng.integers(0, 2, people)
        labels, user = np.stack([first, 1 - first], axis=1).ravel(), np.repeat(np.arange(people), 2)
        scores = inference.evaluate(
            answers(rng, labels, 2, epsilon), public(np.full(2 * people, 0.9)), groups=np.tile([0, 1], people),
            users=user, level=level,
        )  # fmt: skip
        return scores.gap("accuracy", reference=0), 0.0

    return run


def confusion(records: int, epsilon: float) -> Callable[..., Drawn]:
    law = np.array([[0.9, 0.02, 0.005], [0.03, 0.02, 0.005], [0.005, 0.005, 0.01]])

    def run(rng: np.random.Generator, level: float) -> Drawn:
        cell = rng.choice(9, records, p=law.ravel())
        chances = np.where(np.arange(3) == (cell % 3)[:, None], 0.8, 0.1)
        return inference.evaluate(answers(rng, cell // 3, 3, epsilon), public(chances), level=level).confusion(), law

    return run


def compared_classes(records: int, epsilon: float, part: float) -> Callable[..., Drawn]:
    """One model is always right, the other one seldom wrong."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        labels = rng.integers(0, 3, records)
        other = np.where(rng.random(records) < part, (labels + 1) % 3, labels)
        return inference.compare(answers(rng, labels, 3, epsilon), public(labels), public(other), level=level), part

    return run


def compared_records(records: int, epsilon: float) -> Callable[..., Drawn]:
    """The truth is that of the records, and noise is far larger than the counts."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        labels = rng.integers(0, 2, records)
        one, other = (np.where(rng.random(records) < part, 1 - labels, labels) for part in (0.05, 0.15))
        plan = inference.plan_sums("compare", TWO, epsilon, predictions=public(one), rival=public(other))
        estimate = inference.compare(sums(rng, labels, plan), public(one), public(other), target="records", level=level)
        return estimate, np.mean(one == labels) - np.mean(other == labels)

    return run


def compared(records: int, epsilon: float, part: float, right: float, kind: str) -> Callable[..., Drawn]:
    """Two models differ on a part of the records, and one of them is right there with some probability."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        labels, differ = rng.integers(0, 2, records), rng.random(records) < part
        one = np.where(~differ | (rng.random(records) < right), labels, 1 - labels)
        other = np.where(differ, 1 - one, one)
        if kind == "sums":
            plan = inference.plan_sums("compare", TWO, epsilon, predictions=public(one), rival=public(other))
            release = sums(rng, labels, plan)
        else:
            release = answers(rng, labels, 2, epsilon)
        return inference.compare(release, public(one), public(other), level=level), part * (2 * right - 1)

    return run


def area(records: int, epsilon: float, law: str, positives: float, kind: str) -> Callable[..., Drawn]:
    truth = {"two groups": 0.85, "apart": 0.97, "ties": 0.75, "none": 0.5}.get(law, float(norm.cdf(1 / np.sqrt(2))))

    def run(rng: np.random.Generator, level: float) -> Drawn:
        labels = (rng.random(records) < positives).astype(int)
        if law in ("two groups", "apart"):  # a part of the positives lies below all negatives
            scores = rng.random(records) + labels * np.where(rng.random(records) < truth, 1, -1)
        elif law == "ties":
            scores = (rng.random(records) < np.where(labels == 1, 0.75, 0.25)).astype(float)
        else:
            scores = rng.normal(size=records) + labels * (law == "shifted")
        chances = expit(scores)
        if kind == "sums":
            release = sums(rng, labels, inference.plan_sums("auc", TWO, epsilon, scores=public(chances)))
        else:
            release = answers(rng, labels, 2, epsilon)
        return inference.evaluate(release, public(chances), level=level).auc(), truth

    return run


# ---- effects


def effect(records: int, epsilon: float, treated: float, rates: tuple[float, float], kind: str) -> Callable[..., Drawn]:
    def run(rng: np.random.Generator, level: float) -> Drawn:
        mail = rng.random(records) < treated
        mail[:4] = [True, True, False, False]
        labels = (rng.random(records) < np.where(mail, rates[1], rates[0])).astype(int)
        if kind == "sums":
            release = sums(rng, labels, inference.plan_sums("difference", TWO, epsilon, treated=public(mail)))
        else:
            release = answers(rng, labels, 2, epsilon)
        return inference.difference(release, mail, level=level), rates[1] - rates[0]

    return run


def adjusted(records: int, epsilon: float, kind: str) -> Callable[..., Drawn]:
    """The effect of the treatment has another sign for half of the people; its mean is 0."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        x = rng.normal(size=records)
        mail = rng.random(records) < 0.5
        labels = (rng.random(records) < expit(np.where(mail, 3 * x, -3 * x))).astype(int)
        more = {"propensity": public(0.5)} if kind == "propensity" else {}
        return inference.difference(answers(rng, labels, 2, epsilon), mail, covariates=x, level=level, **more), 0.0

    return run


SHARES = np.array([0.05, 0.08, 0.05, 0.2])


def several_arms(records: int, epsilon: float, kind: str) -> Callable[..., Drawn]:
    """Three treatments against one control; few get the last one. A covariate moves some effects."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        arm = rng.choice(4, records, p=[0.4, 0.3, 0.25, 0.05])
        arm[:8] = np.repeat(np.arange(4), 2)
        x = rng.choice([-1.0, 1.0], records)
        moved = np.array([0.9, -0.5, 0.0, 0.9])
        labels = (rng.random(records) < SHARES[arm] * (1 + moved[arm] * x)).astype(int)
        more = {"covariates": x} if kind == "adjusted answers" else {}
        if kind == "sums":
            release = sums(rng, labels, inference.plan_sums("difference", TWO, epsilon, treated=public(arm)))
        else:
            release = answers(rng, labels, 2, epsilon)
        return inference.difference(release, arm, level=level, **more), SHARES[1:] - SHARES[0]

    return run


def lift(records: int, epsilon: float, treated: float, rates: tuple[float, float], kind: str) -> Callable[..., Drawn]:
    def run(rng: np.random.Generator, level: float) -> Drawn:
        mail = rng.random(records) < treated
        mail[:4] = [True, True, False, False]
        labels = (rng.random(records) < np.where(mail, rates[1], rates[0])).astype(int)
        if kind == "sums":
            release = sums(rng, labels, inference.plan_sums("difference", TWO, epsilon, treated=public(mail)))
        else:
            release = answers(rng, labels, 2, epsilon)
        return inference.lift(release, mail, level=level), rates[1] / rates[0] - 1

    return run


def lift_of_numbers(records: int, epsilon: float, kind: str) -> Callable[..., Drawn]:
    """The treatment makes claims half as frequent again, and no larger."""
    domain = ldp.Interval(0, 100, grid=101, clip=True)

    def run(rng: np.random.Generator, level: float) -> Drawn:
        mail = rng.random(records) < 0.2
        mail[:4] = [True, True, False, False]
        size = np.rint(np.minimum(np.exp(rng.normal(2.5, 1, records)), 100))
        labels = np.where(rng.random(records) < np.where(mail, 0.15, 0.1), size, 0.0)
        mechanism = UnbiasedNumbers(domain, epsilon=epsilon)
        if kind == "sums":
            mechanism = inference.plan_sums("difference", domain, epsilon, treated=public(mail))
        return inference.lift(sums(rng, labels, mechanism), mail, level=level), 0.5

    return run


def adjusted_lift(records: int, epsilon: float, law: str) -> Callable[..., Drawn]:
    """A covariate decides much of the outcome; with "crossed" the other way round for the treated."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        x = rng.normal(size=records) if law == "crossed" else rng.choice([0.0, 1.0], records, p=[0.9, 0.1])
        mail = rng.random(records) < 0.5
        if law != "crossed":  # each arm has people with either value
            x[:8], mail[:8] = np.tile([0.0, 1.0], 4), np.repeat([0, 1], 4)
        if law == "crossed":
            share, truth = expit(np.where(mail, 3 * x, -3 * x)), 0.0
        else:  # .02 and .04 of nine tenths, .2 and .6 of one tenth
            share, truth = np.where(mail, 0.04 + 0.56 * x, 0.02 + 0.18 * x), 0.096 / 0.038 - 1
        labels = (rng.random(records) < share).astype(int)
        return inference.lift(answers(rng, labels, 2, epsilon), mail, covariates=x, level=level), truth

    return run


def lift_of_users(people: int, epsilon: float) -> Callable[..., Drawn]:
    """All records of a user are in one arm, and have shares of their own."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        sizes = np.minimum(1 + (2 * rng.pareto(1.5, people)).astype(int), 50)
        user, mail = np.repeat(np.arange(people), sizes), np.arange(people) % 2
        own = rng.beta(1, 4, people) * np.where(mail, 1.5, 1)  # means .2 and .3, apart from sizes
        labels = (rng.random(len(user)) < np.minimum(own, 1)[user]).astype(int)
        estimate = inference.lift(answers(rng, labels, 2, epsilon), mail[user], users=user, level=level)
        return estimate, MEAN_OF_MORE / 0.2 - 1

    return run


MEAN_OF_MORE = float(np.minimum(1.5 * np.random.default_rng(79).beta(1, 4, 4_000_000), 1).mean())

# ---- scores of whom to treat: by a rank of people in [0, 1], the share of positives without treatment, and the effect

TARGETS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "larger above": (lambda rank: 0.1 + 0.1 * rank, lambda rank: 0.4 * rank**2),
    "harm below": (lambda rank: 0.5 - 0.3 * rank, lambda rank: 0.6 * rank - 0.2),
    "no effect": (lambda rank: 0.05 + 0.6 * rank, lambda rank: 0 * rank),
    "one effect": (lambda rank: 0.4 * rank, lambda rank: 0.1 + 0 * rank),
    "few answer": (lambda rank: 0.01 + 0 * rank, lambda rank: 0.05 * (rank > 0.9)),
    "ties": (lambda rank: 0.1 + 0 * rank, lambda rank: np.where(rank < 0.5, 0.0, np.where(rank < 0.8, 0.05, 0.4))),
}


def target_scores(rank: Any, law: str) -> Any:
    return np.floor(np.where(rank < 0.5, 0.0, np.where(rank < 0.8, 1.0, 2.0))) if law == "ties" else rank


def gain(law: str, scores: Any, measure: str) -> Any:
    """The Qini area of the population, or the gain at the tenths of scores that were drawn."""
    rank = (np.arange(10_000) + 0.5) / 10_000
    everyone, effects = target_scores(rank, law), TARGETS[law][1](rank)
    if measure == "area":
        below, through = (np.searchsorted(everyone, everyone, side) for side in ("left", "right"))
        return float(np.mean(effects * ((below + through) / 2 / len(rank) - 0.5)))
    thresholds = np.unique(np.quantile(scores, np.arange(10) / 10, method="lower"))[::-1]
    return np.array([np.mean(effects * (everyone >= threshold)) for threshold in thresholds])


def uplift(records: int, epsilon: float, law: str, treated: float, measure: str, kind: str) -> Callable[..., Drawn]:
    base, more = TARGETS[law]
    domain = ldp.Interval(0, 100, grid=101, clip=True)

    def run(rng: np.random.Generator, level: float) -> Drawn:
        rank, chance, user = rng.random(records), np.full(records, treated), None
        if kind == "users":  # three records each of one rank, with one label
            user = np.arange(records) // 3
            rank = rank[user]
        if kind == "propensity":
            chance = np.clip(2 * treated * rank, 0.05, 0.95)
        chance[:20] = 0.5
        mail = rng.random(records) < chance
        mail[:20] = np.arange(20) < 10  # of fewer in an arm there is no estimate
        luck = rng.random(records)
        if user is not None:
            mail, luck = mail[user], luck[user]
        labels, scores = (luck < base(rank) + mail * more(rank)).astype(int), target_scores(rank, law)
        options = {"measure": measure, "users": user, "level": level}
        if kind == "propensity":
            options["propensity"] = public(chance)
        truth = gain(law, scores, measure)
        if kind == "numbers":
            release = sums(rng, 100.0 * labels, UnbiasedNumbers(domain, epsilon=epsilon))
            return inference.uplift(release, mail, public(scores), **options), 100 * truth
        return inference.uplift(answers(rng, labels, 2, epsilon), mail, public(scores), **options), truth

    return run


# ---- weights, strata and periods


def draw_weighted(rng: np.random.Generator, size: int, law: str) -> tuple[Any, Any]:
    """Return weights, and the share of positives among people with such a weight."""
    if law == "few heavy":
        heavy = rng.random(size) < 0.05
        return np.where(heavy, 20.0, 1.0), np.where(heavy, 0.3, 0.02)
    weights = np.exp(rng.normal(size=size))
    return weights, np.full(size, 0.01) if law == "rare" else expit(np.log(weights) - 2)


@cache
def weighted_truth(law: str) -> float:
    """The share of a weighted population, from four million draws."""
    weights, share = draw_weighted(np.random.default_rng(80), 4_000_000, law)
    return float(np.average(share, weights=weights))


def weighted(records: int, epsilon: float, law: str) -> Callable[..., Drawn]:
    def run(rng: np.random.Generator, level: float) -> Drawn:
        weights, share = draw_weighted(rng, records, law)
        labels = (rng.random(records) < share).astype(int)
        return inference.weighted_mean(answers(rng, labels, 2, epsilon), weights, level=level), weighted_truth(law)

    return run


def weighted_numbers(records: int, epsilon: float) -> Callable[..., Drawn]:
    domain = ldp.Interval(0, 100, grid=101, clip=True)

    def run(rng: np.random.Generator, level: float) -> Drawn:
        weights = np.exp(0.7 * rng.normal(size=records))
        release = sums(rng, draw_numbers(rng, records, "claims"), UnbiasedNumbers(domain, epsilon=epsilon))
        return inference.weighted_mean(release, weights, level=level), mean_number("claims")

    return run


def weighted_users(people: int, epsilon: float) -> Callable[..., Drawn]:
    """All records of a user have the same label; users have unequal weights and numbers of records."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        user = np.repeat(np.arange(people), 1 + rng.poisson(2, people))
        weights = np.exp(0.7 * rng.normal(size=people))[user]
        labels = (rng.random(people) < 0.1).astype(int)[user]
        release = answers(rng, labels, 2, epsilon)
        return inference.weighted_mean(release, weights, users=user, level=level), 0.1

    return run


STRATA = {
    "many in small strata": ((0.5, 0.3, 0.1, 0.08, 0.02), (0.1, 0.2, 0.3, 0.3, 0.1), (0.01, 0.05, 0.2, 0.5, 0.02)),
    "few in a large one": ((0.7, 0.3), (0.02, 0.98), (0.05, 0.4)),
    "all rare": ((0.25, 0.25, 0.25, 0.25), (0.4, 0.3, 0.2, 0.1), (0.01, 0.01, 0.002, 0.002)),
}
"""Shares of strata in the population and among records, and shares of positives."""


def stratified(records: int, epsilon: float, law: str, kind: str) -> Callable[..., Drawn]:
    people, parts, chance = map(np.array, STRATA[law])
    truth, named = float(people @ chance), dict(enumerate(people.tolist()))
    domain = ldp.Interval(0, 100, grid=101, clip=True)

    def run(rng: np.random.Generator, level: float) -> Drawn:
        # a stratum of five records at least: one without records is an error of the run and not of the estimator
        stratum = np.concatenate([np.repeat(np.arange(len(parts)), 5), rng.choice(len(parts), records, p=parts)])
        stratum = stratum[:records]
        if kind == "numbers":
            labels = np.where(rng.random(records) < chance[stratum], draw_numbers(rng, records, "ends"), 0.0)
            release = sums(rng, labels, UnbiasedNumbers(domain, epsilon=epsilon))
            return inference.stratified_mean(release, stratum, named, level=level), 50 * truth
        labels = (rng.random(records) < chance[stratum]).astype(int)
        if kind == "sums":
            release = sums(rng, labels, inference.plan_sums("mean", TWO, epsilon, groups=public(stratum)))
        else:
            release = answers(rng, labels, 2, epsilon)
        users = rng.permutation(records) // 2 if kind == "users" else None  # of two records each, of any strata
        return inference.stratified_mean(release, stratum, named, users=users, level=level), truth

    return run


def changes(records: int, epsilon: float, kind: str) -> Callable[..., Drawn]:
    """Four periods of unequal size; of users in all periods, each has shares of their own."""
    chance = np.array([0.02, 0.05, 0.05, 0.2])

    def run(rng: np.random.Generator, level: float) -> Drawn:
        period = rng.choice(4, records, p=[0.1, 0.5, 0.3, 0.1])
        period[:8] = np.repeat(np.arange(4), 2)
        users, own = None, np.ones(records)
        if kind == "users":
            period, users = np.tile(np.arange(4), records // 4), np.repeat(np.arange(records // 4), 4)
            own = np.repeat(rng.choice([0.0, 4.0], records // 4, p=[0.75, 0.25]), 4)
        labels = (rng.random(len(period)) < own[: len(period)] * chance[period]).astype(int)
        if kind == "sums":
            release = sums(rng, labels, inference.plan_sums("mean", TWO, epsilon, groups=public(period)))
        else:
            release = answers(rng, labels, 2, epsilon)
        return inference.change(release, period, users=users, level=level), np.diff(chance)

    return run


def did(records: int, epsilon: float, part: float, kind: str) -> Callable[..., Drawn]:
    """Some are treated; of users, each has a record before and one after."""
    chance = np.array([[0.02, 0.05], [0.1, 0.25]])
    domain = ldp.Interval(0, 100, grid=101, clip=True)

    def run(rng: np.random.Generator, level: float) -> Drawn:
        mail, after = rng.random(records) < part, rng.random(records) < 0.5
        mail[:8], after[:8] = np.tile([False, True], 4), np.repeat([False, True], 4)
        users, own = None, np.ones(records)
        if kind == "users":
            users = np.repeat(np.arange(records // 2), 2)
            mail, after = mail[: records // 2][users], np.tile([False, True], records // 2)
            own = rng.choice([0.0, 2.0], records // 2)[users]
        share = own[: len(mail)] * chance[mail.astype(int), after.astype(int)]
        labels, truth = (rng.random(len(mail)) < share).astype(int), 0.12
        if kind == "numbers":
            release = sums(rng, 100.0 * labels, UnbiasedNumbers(domain, epsilon=epsilon))
            return inference.difference_in_differences(release, mail, after, level=level), 100 * truth
        if kind == "sums":
            plan = inference.plan_sums("difference", TWO, epsilon, treated=public(mail), groups=public(after))
            release = sums(rng, labels, plan)
        else:
            release = answers(rng, labels, 2, epsilon)
        return inference.difference_in_differences(release, mail, after, users=users, level=level), truth

    return run


# ---- regressions


def logistic(records: int, epsilon: float, unit: float, origin: float, slope: float) -> Callable[..., Drawn]:
    def run(rng: np.random.Generator, level: float) -> Drawn:
        x = rng.normal(size=records)
        labels = (rng.random(records) < expit(-1 + slope * x)).astype(int)
        estimate = inference.regression(answers(rng, labels, 2, epsilon), origin + unit * x, level=level)
        return estimate.at(feature="x1"), slope / unit

    return run


def log_linear(records: int, epsilon: float, law: str) -> Callable[..., Drawn]:
    """Counts, with more variance than a Poisson law has, of few exposed people, or of rare events."""
    domain = ldp.Interval(0, 20, grid=21, clip=True)

    def run(rng: np.random.Generator, level: float) -> Drawn:
        x = rng.normal(size=records)
        if law == "few exposed":
            x = (rng.random(records) < 0.05).astype(float)
            x[:2] = 1.0
        mean = np.exp((-2.5 if law == "rare" else -0.5) + 0.4 * x)
        labels = np.minimum(rng.poisson(mean * (rng.gamma(2, 0.5, records) if law == "spread" else 1)), 20)
        release = sums(rng, labels, UnbiasedNumbers(domain, epsilon=epsilon))
        return inference.regression(release, x, kind="poisson", level=level).at(feature="x1"), 0.4

    return run


def draw_line(rng: np.random.Generator, size: int, law: str) -> tuple[Any, Any]:
    if law == "U":
        x = rng.uniform(-1, 1, size)
        return x, (rng.random(size) < x**2).astype(int)
    x = rng.exponential(size=size)
    if law == "few exposed":
        x = (rng.random(size) < 0.01).astype(float)
        x[:2] = 1.0
        return x, (rng.random(size) < np.where(x == 1, 0.1, 0.03)).astype(int)
    if law == "long tail":
        x = np.minimum(x**2, 60)
        return x, (rng.random(size) < np.minimum(x / 8, 1)).astype(int)
    return x, (rng.random(size) < expit(x - 3)).astype(int)


@cache
def best_slope(law: str) -> float:
    """The slope of the best line of the population, from four million draws."""
    x, labels = draw_line(np.random.default_rng(78), 4_000_000, law)
    return float(np.cov(x, labels)[0, 1] / x.var())


def linear(records: int, epsilon: float, law: str, kind: str) -> Callable[..., Drawn]:
    """A line through a law that is no line: the truth is the best line of the population."""

    def run(rng: np.random.Generator, level: float) -> Drawn:
        x, labels = draw_line(rng, records, law)
        if kind == "sums":
            release = sums(rng, labels, inference.plan_sums("regression", TWO, epsilon, features=public(x)))
        else:
            release = answers(rng, labels, 2, epsilon)
        return inference.regression(release, x, kind="linear", level=level).at(feature="x1"), best_slope(law)

    return run


def ratio(records: int, epsilon: float, measure: str, kind: str) -> Callable[..., Drawn]:
    rates = (0.05, 0.15)
    truth = (0.15 / 0.85) / (0.05 / 0.95) if measure == "odds_ratio" else 3.0

    def run(rng: np.random.Generator, level: float) -> Drawn:
        exposed = rng.random(records) < 0.3
        exposed[:2] = [True, False]
        labels = (rng.random(records) < np.where(exposed, rates[1], rates[0])).astype(int)
        if kind == "sums":
            release = sums(rng, labels, inference.plan_sums("difference", TWO, epsilon, treated=public(exposed)))
        else:
            release = answers(rng, labels, 2, epsilon)
        return getattr(inference, measure)(release, exposed, level=level), truth

    return run


def cells(brief: bool) -> Iterator[Cell]:
    """All cells, or those that `make test` runs: the ones that failed once, and one of each estimator."""
    sizes = (800, 2000) if brief else (50, 200, 800, 5000, 50_000)
    epsilons = (3.0,) if brief else (0.5, 1.0, 3.0, 8.0)
    for records in sizes:
        for epsilon in epsilons:

            def cell(name: str, run: Callable[..., Drawn], records: int = records, epsilon: float = epsilon) -> Cell:
                return Cell(name, records, epsilon, run)

            for kind in ("answers", "sums"):
                yield cell(f"share of 1 %, {kind}", shares(records, epsilon, (0.99, 0.01), kind))
                yield cell(f"shares of three classes, {kind}", shares(records, epsilon, (0.9, 0.095, 0.005), kind))
                for law in ("claims", "even", "ends"):
                    yield cell(f"mean of numbers ({law}), {kind}", numbers(records, epsilon, law, kind))
                for name in RULES:
                    for metric in ("accuracy", "precision", "recall", *(("f1",) if kind == "answers" else ())):
                        yield cell(f"{metric} of a rule ({name}), {kind}", score(records, epsilon, name, metric, kind))
                for part, right in ((0.05, 1.0), (0.3, 0.55), (0.01, 0.8)):
                    yield cell(
                        f"comparison, {part:g} differ, {right:g} right, {kind}",
                        compared(records, epsilon, part, right, kind),
                    )
                for law, positives in (("shifted", 0.1), ("two groups", 0.1), ("two groups", 0.5), ("ties", 0.3)):
                    yield cell(
                        f"AUC ({law}), {positives:g} positive, {kind}", area(records, epsilon, law, positives, kind)
                    )
                for treated, rates in ((0.5, (0.05, 0.1)), (0.03, (0.01, 0.02))):
                    yield cell(f"effect, {treated:g} treated, {kind}", effect(records, epsilon, treated, rates, kind))
                    yield cell(f"lift, {treated:g} treated, {kind}", lift(records, epsilon, treated, rates, kind))
                yield cell(f"lift of claims, {kind}", lift_of_numbers(records, epsilon, kind))
                yield cell(f"effects of three arms, {kind}", several_arms(records, epsilon, kind))
                for law in ("few exposed", "rare", "spread") if kind == "answers" else ():
                    yield cell(f"Poisson regression ({law}), answers", log_linear(records, epsilon, law))
                for law in ("U", "rare"):
                    yield cell(f"linear regression ({law}), {kind}", linear(records, epsilon, law, kind))
                for measure in ("odds_ratio", "risk_ratio"):
                    yield cell(f"{measure.replace('_', ' ')}, {kind}", ratio(records, epsilon, measure, kind))
            for law in ("few heavy", "rare", "of more positives"):
                yield cell(f"weighted share ({law}), answers", weighted(records, epsilon, law))
            yield cell("weighted mean of claims, answers", weighted_numbers(records, epsilon))
            for kind in ("answers", "sums", "numbers", "users"):
                for law in STRATA:
                    yield cell(f"stratified mean ({law}), {kind}", stratified(records, epsilon, law, kind))
                for part in (0.5, 0.05):
                    name = f"difference in differences, {part:g} treated, {kind}"
                    yield cell(name, did(records, epsilon, part, kind))
                if kind != "numbers":
                    yield cell(f"changes of four periods, {kind}", changes(records, epsilon, kind))
            yield cell("shares of groups, answers", groups(records, epsilon))
            for at in (0.1, 0.5):
                yield cell(f"quantile {at:g}, answers", quantile(records, epsilon, at))
            yield cell("gap of recall, answers", gap(records, epsilon))
            for kind in ("regression", "propensity"):
                yield cell(f"effect adjusted by {kind}, answers", adjusted(records, epsilon, kind))
            for law in TARGETS:
                for treated in (0.5, 0.1):
                    for measure in ("area", "curve"):
                        name = f"uplift {measure} ({law}), {treated:g} treated, answers"
                        yield cell(name, uplift(records, epsilon, law, treated, measure, "answers"))
            for kind in ("propensity", "numbers", "users"):
                for measure in ("area", "curve"):
                    name = f"uplift {measure}, {kind}"
                    yield cell(name, uplift(records, epsilon, "larger above", 0.3, measure, kind))
            if records >= 800:  # few records of the last arm may have one value of the covariate
                name = "effects of three arms, adjusted answers"
                yield cell(name, several_arms(records, epsilon, "adjusted answers"))
            for law in ("crossed", "one rare covariate"):
                yield cell(f"adjusted lift ({law}), answers", adjusted_lift(records, epsilon, law))
            for unit, origin, slope in ((1.0, 0.0, 0.8), (0.01, 2015.0, 0.8), (1.0, 0.0, 3.0)):
                name = f"logistic regression, unit {unit:g}, origin {origin:g}, slope {slope:g}, answers"
                yield cell(name, logistic(records, epsilon, unit, origin, slope))
        yield Cell("median of a die, answers", records, float("nan"), quantile_of_design(records))
        if records < 2000:
            yield Cell("rare class of a design, answers", records, float("nan"), rare_class_of_design(records))
            yield Cell("difference of classifiers of these records, sums", records, 0.1, compared_records(records, 0.1))
    for records, epsilon in ((300, 10.0), (800, 8.0)) if brief else ((300, 10.0), (800, 8.0), (800, 3.0), (5000, 8.0)):
        for kind in ("answers", "sums"):
            yield Cell(f"mean of numbers (atom), {kind}", records, epsilon, numbers(records, epsilon, "atom", kind))
            run = effect_on_numbers(records, epsilon, kind)
            yield Cell(f"effect on numbers, few treated, {kind}", records, epsilon, run)
            for positives in (0.02, 0.05):
                run = area(records, epsilon, "apart", positives, kind)
                yield Cell(f"AUC (apart), {positives:g} positive, {kind}", records, epsilon, run)
            run = compared(records, epsilon, 1 / records, 1.0, kind)
            yield Cell(f"comparison, one record differs, {kind}", records, epsilon, run)
            # of answers, a long tail needs thousands of records: a handful of them decides the slope
            for law in ("few exposed", "long tail") if kind == "sums" or records >= 5000 else ("few exposed",):
                yield Cell(f"linear regression ({law}), {kind}", records, epsilon, linear(records, epsilon, law, kind))
        run = compared_classes(records, epsilon, 1 / records)
        yield Cell("comparison of three classes, answers", records, epsilon, run)
        yield Cell("confusion of three classes, answers", records, epsilon, confusion(records, epsilon))
        yield Cell("gap of users in both groups, answers", records, epsilon, gap_of_users(records, epsilon))
    for people, share, law in (
        (50, 0.02, "equal"),
        (50, 0.3, "unequal"),
        (200, 0.3, "unequal"),
        (500, 0.02, "unequal"),
    ):
        for epsilon in (8.0,) if brief else (1.0, 8.0):
            name = f"share of {share:g}, users with one label, {law}"
            yield Cell(name, people, epsilon, unequal_users(people, epsilon, share, law))
    for people in (50, 500):
        for epsilon in epsilons:
            yield Cell("lift of users, answers", people, epsilon, lift_of_users(people, epsilon))
            yield Cell("weighted share of users, answers", people, epsilon, weighted_users(people, epsilon))
    for people in (10, 20, 50, 500):
        for epsilon in epsilons:
            yield Cell("share of users with five records each, answers", people, epsilon, users(people, epsilon))
