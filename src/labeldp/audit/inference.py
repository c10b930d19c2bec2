"""Lower bounds of epsilon from one training: how well its result guesses labels that were drawn at random."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.audit.black_box import LEVEL, LowerBound, check_level, guess_bound
from labeldp.privacy import Floats, InputError, Integers, check_integer

SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""The shares of guesses that are counted, surest first; each gets an even part of what confidence leaves."""


@final
@dataclass(frozen=True)
class Canaries:
    """Records whose labels were replaced by random ones, and between which labels was drawn; make one by `plant`.

    Args:
        labels: all labels as codes, with those of the canaries planted, shape (n,): what is to be trained on.
        rows: where the canaries are, shape (m,).
        choices: the labels between which was drawn for each, shape (m, of).
        drawn: which of them it is, shape (m,); for nobody who trains.
    """

    labels: Integers = field(repr=False)
    rows: NDArray[np.intp] = field(repr=False)
    choices: Integers = field(repr=False)
    drawn: Integers = field(repr=False)

    @classmethod
    def plant(cls, labels: Any, classes: int, count: int, *, rng: np.random.Generator, of: int = 2) -> "Canaries":
        """Draw records, for each of them a few classes, and one of these as its label: all uniformly.

        Args:
            labels: codes from 0 to classes - 1, shape (n,).
            classes: how many there are.
            count: of canaries.
            rng: whose draws nobody who trains may know.
            of: classes between which is drawn.

        Raises:
            InputError: labels that are not such codes, or a count above the number of records.
        """
        codes = np.array(labels)
        if (
            codes.ndim != 1
            or codes.dtype.kind not in "iu"
            or (len(codes) and not 0 <= codes.min() <= codes.max() < classes)
        ):
            raise InputError("must be codes below classes, shape (n,)", argument="labels")
        many = check_integer(count, "count", high=len(codes))
        between = check_integer(of, "of", low=2, high=classes)
        rows = rng.choice(len(codes), many, replace=False)
        choices = rng.permuted(np.tile(np.arange(classes), (many, 1)), axis=1)[:, :between]
        drawn = rng.integers(0, between, many)
        codes[rows] = choices[np.arange(many), drawn]
        return cls(codes, rows, choices, drawn)

    def bound(self, scores: Any, *, delta: float = 0.0, level: float = LEVEL) -> LowerBound:
        """Return a lower bound of epsilon from one result of training.

        Args:
            scores: how likely each class is as the label that a canary was trained with, shape (m, classes), from
                anything but the draws: log-probabilities of a model at the canaries' features, released labels.
            delta: of the claim; above 0 only where two labels were drawn between.
            level: the confidence.

        Guarantee (bound): for a training that is (epsilon, delta)-DP for each label the bound is above epsilon with
            probability 1 - level at most.
        """
        table = _scores(scores, len(self.rows))
        if table.shape[1] <= int(self.choices.max()):
            raise InputError("must have a column for each class", argument="scores")
        of = self.choices.shape[1]
        offered = np.take_along_axis(table, self.choices, axis=1)
        ordered = np.sort(offered, axis=1)
        right = offered.argmax(axis=1) == self.drawn
        return _most(right, ordered[:, -1] - ordered[:, -2], delta, check_level(level), of, "canaries")


def audit_training(
    learn: Callable[[Integers], Any],
    labels: Any,
    classes: int,
    *,
    canaries: int,
    rng: np.random.Generator,
    of: int = 2,
    delta: float = 0.0,
    level: float = LEVEL,
) -> LowerBound:
    """Return a lower bound of epsilon from one training, with canaries.

    Args:
        learn: called once with all labels as codes, shape (n,); trains, and returns for each record how likely each
            class is as the label that it was trained with, shape (n, classes).
        labels: codes, shape (n,). Those of the canaries are replaced, so that the result is for the audit alone.
        classes: how many there are.
        canaries: how many labels are replaced.
        rng, of, delta, level: as for `Canaries`.

    Source: SteinkeAudit, for labels.
    """
    planted = Canaries.plant(labels, classes, canaries, rng=rng, of=of)
    return planted.bound(_scores(learn(planted.labels), len(planted.labels))[planted.rows], delta=delta, level=level)


def audit_observed(
    scores: Any,
    labels: Any,
    proxy: Any,
    *,
    rng: np.random.Generator,
    slack: float = 0.0,
    delta: float = 0.0,
    level: float = LEVEL,
) -> LowerBound:
    """Return a lower bound of epsilon from a training that is there already, without canaries.

    For each record another label is drawn from a law of labels given features, and the result of the training guesses
    which of the two it was trained with. Use it where no training for an audit is possible.

    Args:
        scores: how likely each class is as the label of a record, shape (n, classes), from the result of the training.
        labels: the labels that were trained with, as codes, shape (n,).
        proxy: P(class | features) as far as anybody knows who did not see these labels, shape (n, classes), rows sum
            to 1: a model of other records.
        rng: draws the other labels, and was not used before.
        slack: how far the proxy may be off: at most a factor e^slack in P(a) Q(b) / (P(b) Q(a)) for two labels of a
            record, where P is the law that labels were drawn from and Q the proxy.
        delta, level: of the claim, and the confidence.

    Guarantee (bound): for a training that is (epsilon, delta)-DP for each label the bound is above epsilon with
        probability 1 - level at most, on condition that labels were drawn independently given features, from laws
        within the slack of the proxy.

    Source: Kalemaj; `docs/proofs/audit.md`.
    """
    law = _scores(proxy, None)
    table, codes = _scores(scores, len(law)), np.asarray(labels)
    if table.shape != law.shape or codes.shape != (len(law),) or codes.dtype.kind not in "iu":
        raise InputError("must be codes, one for each row of scores and proxy", argument="labels")
    if bool((law < 0).any()) or bool((np.abs(law.sum(axis=1) - 1) > 1e-6).any()):
        raise InputError("must have rows that are not negative and sum to 1", argument="proxy")
    if slack < 0:
        raise InputError("must not be negative", argument="slack")
    ends = np.cumsum(law, axis=1)
    drawn = np.minimum((rng.random(len(law))[:, None] * ends[:, -1:] >= ends).sum(axis=1), law.shape[1] - 1)
    apart = np.flatnonzero(drawn != codes)
    with np.errstate(divide="ignore"):
        adjusted = table - np.maximum(np.log(law), -50)
    gap = adjusted[apart, codes[apart]] - adjusted[apart, drawn[apart]]
    # Ties are decided by a coin, not in favor of the label.
    right = np.where(gap == 0, rng.random(len(gap)) < 0.5, gap > 0)
    bound = _most(right, np.abs(gap), delta, check_level(level), 2, "pairs of a label and one of the proxy")
    how = f"{bound.how}; if labels were drawn within e^{slack:g} of the proxy"
    return LowerBound(max(0.0, bound.epsilon - slack), bound.delta, bound.level, how)


def _most(right: NDArray[np.bool_], sure: Floats, delta: float, level: float, of: int, what: str) -> LowerBound:
    """Return the best bound of a few shares of the surest guesses, each at an even part of what confidence leaves."""
    order = np.argsort(-sure, kind="stable")
    best, how = 0.0, ""
    for share in SHARES:
        guesses = int(np.ceil(share * len(right)))
        hits = int(right[order[:guesses]].sum())
        miss = (1 - level) / len(SHARES)
        bound = guess_bound(hits, guesses, miss=miss, delta=delta, secrets=len(right), of=of)
        if bound > best or not how:
            best, how = bound, f"{hits:,} of the {guesses:,} surest guesses were right, of {len(right):,} {what}"
    return LowerBound(best, float(delta), level, how)


def _scores(scores: Any, rows: int | None) -> Floats:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or (rows is not None and len(table) != rows) or bool(np.isnan(table).any()):
        raise InputError("must be numbers, a row for each record and a column for each class", argument="scores")
    return np.nan_to_num(table, posinf=1e300, neginf=-1e300)
