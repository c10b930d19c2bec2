"""Dry runs: every way to fit a table, tried on the user's own features with synthetic labels; no label is seen."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from labeldp.curator import Curator, Ledger
from labeldp.fit import Advice, Expected, epsilon_of, score_of
from labeldp.learners import Task, fit_repeatably, learner_of
from labeldp.mechanisms import Classes, Domain, Interval, LabelCodes
from labeldp.privacy import Budget, InputError, PrivacyWarning
from labeldp.tables import TableEncoder

LEAST_ROWS, MOST_ROWS = 200, 5_000
"""The fewest rows that a dry run can learn from and be scored on, and the most that it takes."""

TESTED = 0.25
"""The share of the rows that a dry run is scored on."""

STRENGTH = 2.0
"""By how much the log odds of a made-up label vary with the features: their standard deviation."""

EXPLAINED, CENTER, SPREAD = 0.6, 0.4, 0.2
"""Made-up numbers: the share of their variance that features explain, and mean and deviation as shares of the range."""

WAVES, TREES, DEPTH, ACTIVE = 30, 10, 4, 3
"""Of teachers: waves of the smooth one, trees and their depth, and the features that a wave depends on."""

NO_NOISE = 20.0
"""An epsilon at which randomized labels are the labels."""

Signals = NDArray[np.float64]


def _linear(table: Signals, rng: np.random.Generator) -> Signals:
    """Return a sum of all features, some of which count for much."""
    return table @ rng.laplace(size=table.shape[1])


def _smooth(table: Signals, rng: np.random.Generator) -> Signals:
    """Return a sum of waves, each along a direction of a few features."""
    total = np.zeros(len(table))
    for _ in range(WAVES):
        active = rng.choice(table.shape[1], min(ACTIVE, table.shape[1]), replace=False)
        direction = rng.normal(size=len(active))
        total += rng.normal() * np.cos(table[:, active] @ direction + rng.uniform(0, 2 * np.pi))
    return total


def _tree_like(table: Signals, rng: np.random.Generator) -> Signals:
    """Return a sum of trees that cut features at random quantiles."""
    total = np.zeros(len(table))
    for _ in range(TREES):
        leaf = np.zeros(len(table), dtype=np.int64)
        for _ in range(DEPTH):
            column = table[:, rng.integers(table.shape[1])]
            leaf = 2 * leaf + (column > np.quantile(column, rng.uniform(0.1, 0.9)))
        total += rng.normal(size=2**DEPTH)[leaf]
    return total


TEACHERS: dict[str, Callable[[Signals, np.random.Generator], Signals]] = {
    "linear": _linear,
    "smooth": _smooth,
    "tree-like": _tree_like,
}
"""What made-up labels follow."""


@dataclass(frozen=True)
class DryRunRows:
    """Features that a dry run may look at.

    Args:
        encoder: of their table.
        features: encoded, shape (n, d).
    """

    encoder: TableEncoder
    features: NDArray[np.float64]


def made_up_labels(
    teacher: str,
    rows: DryRunRows,
    domain: Classes | Interval,
    *,
    balance: Sequence[float] | None = None,
    seed: int = 0,
) -> NDArray[Any]:
    """Return codes of labels that follow a random teacher of the features.

    Args:
        teacher: a name of `TEACHERS`.
        rows: the features.
        domain: of the labels.
        balance: of classes: the share of each; equal shares by default.
        seed: public seed of teacher and labels.

    Returns:
        Codes of the domain, shape (n,).

    Guarantee (public_labels): teachers and made-up labels follow from the features, the domain, the balance and the
        seed alone.
    """
    rng = np.random.default_rng([seed, list(TEACHERS).index(teacher)])
    table = _normal_scores(rows, rng)
    if domain.target == "numbers":
        signal = _standardized(TEACHERS[teacher](table, rng))
        noise = rng.normal(size=len(signal))
        position = CENTER + SPREAD * (np.sqrt(EXPLAINED) * signal + np.sqrt(1 - EXPLAINED) * noise)
        low, high = domain.ends
        return domain.encode(low + (high - low) * np.clip(position, 0, 1))
    shares = np.full(domain.size, 1 / domain.size) if balance is None else np.asarray(balance, dtype=float)
    signals = [_standardized(TEACHERS[teacher](table, rng)) for _ in range(domain.size)]
    scores = STRENGTH * np.column_stack(signals) / np.sqrt(2 if domain.size == 2 else 1)
    likely = _balanced(scores, shares)
    return np.asarray((rng.random((len(table), 1)) > np.cumsum(likely, axis=1)[:, :-1]).sum(axis=1))


def dry_run(
    advice: Advice,
    rows: DryRunRows,
    domain: Domain,
    epsilon: Any,
    *,
    balance: Sequence[Any] | None = None,
    seed: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> Advice:
    """Return advice whose options are ranked by fits of synthetic labels with real noise.

    Each option learns from three teachers' labels of at most 5,000 rows, and is scored on others, as is the local
    learner without noise.

    Args:
        advice: the options to try.
        rows: the user's features.
        domain, epsilon: what the options are for.
        balance: of classes: the share of each, if it is public knowledge.
        seed: public seed of teachers, rows and noise.
        progress: called with what is being done and the share of it that is done.

    Guarantee (no_label): a dry run sees no label and costs no epsilon.

    Raises:
        InputError: too few rows, or a balance that is none.
    """
    if not isinstance(domain, Classes | Interval):
        raise InputError("must be Classes or an Interval", argument="domain")
    if len(rows.features) < LEAST_ROWS:
        raise InputError(
            f"needs at least {LEAST_ROWS} rows to learn from and be scored on, not {len(rows.features)}; without "
            "it the advice follows from the number of records",
            argument="dry_run",
        )
    shares = None if balance is None else check_balance(balance, domain)
    epsilon, rng = epsilon_of(epsilon), np.random.default_rng([seed, len(TEACHERS)])
    chosen = rng.permutation(len(rows.features))[:MOST_ROWS]
    some = replace(rows, features=rows.features[chosen])
    tested = np.arange(len(chosen)) < TESTED * len(chosen)
    training = replace(some, features=some.features[~tested])
    losses: dict[str, list[float]] = {option.method: [] for option in advice.options}
    sign = 1 if domain.target == "numbers" else -1

    def reached(settings: Any, codes: NDArray[Any], epsilon: float, stage: int) -> float:
        model = fitted(settings, training, codes[~tested], domain, epsilon, np.random.default_rng([seed, stage, 7]))
        return score(model, some.features[tested], codes[tested], domain)

    for stage, teacher in enumerate(TEACHERS):
        codes = made_up_labels(teacher, some, domain, balance=shares, seed=seed)
        best = reached({"trust": "local", "model": "mixture"}, codes, NO_NOISE, stage)
        for number, option in enumerate(advice.options):
            if progress:
                done = (stage + number / len(advice.options)) / len(TEACHERS)
                progress(f"{teacher} teacher: {option.method}", done)
            losses[option.method].append(sign * (reached(option.settings, codes, epsilon, stage) - best))
    unit = score_of(domain)
    costs = {name: Expected(unit, float(np.mean(lost)), min(lost), max(lost)) for name, lost in losses.items()}
    ranked = [replace(option, expected=costs[option.method]) for option in advice.options]
    ranked.sort(key=lambda option: option.expected.value)
    return replace(advice, options=tuple(ranked), rehearsed=len(chosen))


def fitted(
    settings: Any,
    rows: DryRunRows,
    codes: NDArray[Any],
    domain: Classes | Interval,
    epsilon: float,
    rng: np.random.Generator,
) -> Any:
    """Return the model that `labeldp fit` would learn from labels that are known: no private ones.

    Args:
        settings: trust, model, delta, and options of `learner_of`.
        rows: features.
        codes: of labels that are public or made up, shape (n,).
        domain, epsilon: of the fit.
        rng: of the noise.
    """
    options = {"delta": 0.0, **settings}
    delta = options["delta"]
    learner = learner_of(options.pop("model"), target=domain.target, **options)
    task = Task(domain, len(codes), epsilon, delta, categorical=rows.encoder.categorical)
    learner.check(rows.features, task)
    ledger = Ledger(Budget(epsilon, delta))
    curator = Curator(LabelCodes(codes), domain=domain, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # no label here is private
        return fit_repeatably(learner, rows.features, curator, task, rng=rng).value


def score(model: Any, features: NDArray[np.float64], codes: NDArray[Any], domain: Classes | Interval) -> float:
    """Return how good a model is on labels that are known, in the unit of `labeldp.fit.Expected`."""
    if domain.target == "numbers":
        labels = domain.decode(codes)
        return 100 * float(np.sqrt(np.mean((model.predict(features) - labels) ** 2)) / max(np.std(labels), 1e-300))
    probabilities = model.predict_proba(features)
    if domain.size > 2:
        return 100 * float(np.mean(probabilities.argmax(axis=1) == codes))
    ranks, ones = rankdata(probabilities[:, 1]), codes == 1
    pairs = ones.sum() * (~ones).sum()
    return 50.0 if not pairs else 100 * float((ranks[ones].sum() - ones.sum() * (ones.sum() + 1) / 2) / pairs)


def check_balance(balance: Any, domain: Classes | Interval) -> tuple[float, ...]:
    """Return the share of each class.

    Raises:
        InputError: not positive shares of all classes with the sum 1.
    """
    try:
        shares = tuple(float(share) for share in balance)
    except (TypeError, ValueError):
        shares = ()
    if domain.target == "numbers":
        raise InputError("is of classes: numbers have a range", argument="balance")
    if len(shares) != domain.size or not all(0 < share < 1 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        raise InputError(
            f"must hold {domain.size} positive shares, one for each class, with the sum 1", argument="balance"
        )
    return shares


def _normal_scores(rows: DryRunRows, rng: np.random.Generator) -> Signals:
    """Return each column spread like a normal one; categories get a random value, what is missing the middle."""
    columns = []
    for column, categorical in zip(rows.features.T, rows.encoder.categorical, strict=True):
        present, scores = np.isfinite(column), np.zeros(len(column))
        values = column[present]
        if categorical and len(values):
            values = rng.normal(size=int(values.max()) + 1)[values.astype(np.int64)]
        if len(values):
            scores[present] = ndtri((rankdata(values) - 0.5) / len(values))
        columns.append(_standardized(scores))
    return np.column_stack(columns)


def _standardized(values: Signals) -> Signals:
    """Return values with mean 0 and deviation 1; zeros where all are alike."""
    spread = values.std()
    return (values - values.mean()) / spread if spread > 0 else np.zeros_like(values)


def _balanced(scores: Signals, shares: Signals) -> Signals:
    """Return probabilities of classes by their scores, with biases under which the classes have these shares."""
    bias = np.log(shares)
    for _ in range(100):
        likely = np.exp(scores + bias - (scores + bias).max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        bias = bias + np.log(shares / likely.mean(axis=0))
    return likely
