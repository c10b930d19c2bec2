"""What would make a model better, or its interval narrower: from what is public and the release."""

from math import exp, sqrt

from labeldp.fit.choice import Expected, advise
from labeldp.fit.settings import FitSettings
from labeldp.learners import ScoreEstimate
from labeldp.privacy import decimal_text

MORE_RECORDS, MORE_EPSILON = 4, 2
"""So many times the records, or the epsilon, are compared with what there is."""

MOST_EPSILON = 8.0
"""No larger epsilon is suggested."""

CLEAR = {"AUC": 0.5, "accuracy": 0.5, "error": 0.01}
"""A score that is expected to change by less is not worth a sentence."""

LARGEST_SHARE = 0.5
"""A larger part of the records is not suggested for the evaluation."""


def better_models(settings: FitSettings, records: int, dimension: int) -> tuple[str, ...]:
    """Return what is expected of more records, another epsilon and another trust, by the rule of `labeldp choose`.

    Args:
        settings: of the fit.
        records: how many.
        dimension: number of features.
    """

    def best(records: int, epsilon: float, trust: str) -> Expected | None:
        options = advise(records, dimension, settings.domain, epsilon, settings.delta, trust).options
        return options[0].expected if options else None

    epsilon, trust = settings.epsilon, settings.trust
    now = best(records, epsilon, trust)
    others = {
        f"with {MORE_RECORDS * records:,} records": best(MORE_RECORDS * records, epsilon, trust),
        f"with ε = {decimal_text(MORE_EPSILON * epsilon)}": best(records, MORE_EPSILON * epsilon, trust),
        "with central trust at this ε": best(records, epsilon, "central") if trust == "local" else None,
    }
    found = [
        f"{_score(each) if now is None else _value(each)} {what}"
        for what, each in others.items()
        if each and (now is None or _better(each, now))
    ]
    if now is None and not found:
        return ()
    reached = "no method learned more than a constant" if now is None else f"the best method reached {_score(now)}"
    changes = (
        ", ".join(found) or "neither more records nor a larger ε nor another trust is expected to change that much"
    )
    return (
        f"On other tables of this size, at this ε, {reached} on average; {changes}. labeldp choose compares methods.",
    )


def narrower_interval(
    settings: FitSettings, accuracy: ScoreEstimate, measured: int, records: int, *, one_by_one: bool
) -> tuple[str, ...]:
    """Return what would halve the interval of an accuracy that was estimated from randomized labels.

    Args:
        settings: of the fit, of classes.
        accuracy: the estimate.
        measured: how many released labels it is from.
        records: how many there are.
        one_by_one: whether plain randomized response answered them.
    """
    ways = [f"{4 * records:,} records"]
    if 4 * measured <= LARGEST_SHARE * records:
        ways.append(f"--evaluation {4 * measured / records:.2g} (with fewer records to learn from)")
    size, value = settings.domain.size, min(max(accuracy.value, 0.0), 1.0)
    enough = _spread(settings.epsilon, size, value) / 2
    epsilons = [settings.epsilon * 1.1**step for step in range(1, 60)]
    larger = [each for each in epsilons if each <= MOST_EPSILON and one_by_one and _spread(each, size, value) <= enough]
    ways += [f"ε = {larger[0]:.2g}"] if larger else []
    width = 100 * (accuracy.high - accuracy.low) / 2
    return (f"To halve the confidence interval of the accuracy, to {width:.1f} points: {', or '.join(ways)}.",)


def _spread(epsilon: float, size: int, accuracy: float) -> float:
    """Return the standard deviation of a debiased agreement under randomized response over so many classes."""
    total = exp(epsilon) + size - 1
    gap, lie = (exp(epsilon) - 1) / total, 1 / total
    agrees = lie + gap * accuracy
    return sqrt(agrees * (1 - agrees)) / gap


def _better(one: Expected, other: Expected) -> bool:
    change = one.value - other.value
    return (-change if one.score == "error" else change) >= CLEAR[one.score]


def _score(found: Expected) -> str:
    """Return the name of an expected score, with its value."""
    names = {
        "AUC": "an area under the ROC curve of",
        "accuracy": "an accuracy of",
        "error": "an RMSE, relative to the mean baseline, of",
    }
    return f"{names[found.score]} {_value(found)}"


def _value(found: Expected) -> str:
    return f"{100 * found.value if found.score == 'error' else found.value:.0f}%"
