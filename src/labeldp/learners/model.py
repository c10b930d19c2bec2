"""The models that learners return, and their evaluation on held-out records."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners.evaluation import HELD_OUT, Evaluation, NumberEvaluation, evaluate, evaluation_mechanism
from labeldp.learners.evidence import Probabilities, expanded, unmixed
from labeldp.mechanisms import Classes, Interval
from labeldp.privacy import CuratorLike, InputError, Public, RandomSource, Release, gather


@dataclass(frozen=True)
class Model:
    """A fitted estimator that predicts class names with their probabilities, or numbers.

    Args:
        domain: the declared classes, in order, or the interval of the numbers.
        estimator: fitted scikit-learn regressor, or classifier whose classes are codes of the domain.
        noise: P(z | y), shape (K, K), if the estimator predicts noisy labels, so that the noise is inverted; None if it
            predicts true ones.
        evaluation: how good the model is, from released labels alone.
    """

    domain: Any
    estimator: Any = field(repr=False)
    noise: NDArray[np.float64] | None = field(default=None, repr=False)
    evaluation: Evaluation | NumberEvaluation | None = field(default=None, repr=False)

    @property
    def classes(self) -> tuple[str | int, ...]:
        """Class names, in the order of the columns of `predict_proba`."""
        return self._classes.names

    def predict_proba(self, features: Any) -> Probabilities:
        """Return probabilities of the true class, shape (n, K), in the order of the domain."""
        given = expanded(self.estimator, features, self._classes.size)
        return given if self.noise is None else unmixed(given, self.noise)

    def predict(self, features: Any) -> NDArray[Any]:
        """Return the name of the likeliest class, ties to the first, or numbers clipped to the range, shape (n,)."""
        if isinstance(self.domain, Interval):
            return np.clip(self.estimator.predict(features), self.domain.low, self.domain.high)
        return self.domain.decode(self.predict_proba(features).argmax(axis=1))

    @property
    def _classes(self) -> Classes:
        if not isinstance(self.domain, Classes):
            raise InputError("a model of numbers has no classes: use predict")
        return self.domain

    def __repr__(self) -> str:
        return f"Model(domain={self.domain!r}, estimator={type(self.estimator).__name__})"


def fit_and_evaluate(
    curator: CuratorLike,
    epsilon: float,
    learn: Callable[[CuratorLike, NDArray[np.bool_]], tuple[Release[Model], Any]],
    *,
    share: float,
    seed: int,
    rng: RandomSource,
) -> Release[Model]:
    """Learn a model and evaluate it on records that are kept from it, and answered one by one.

    Args:
        curator: holds all labels.
        epsilon: cost of the labels for the evaluation.
        learn: function of the curator of the other records and the mask of those that are kept; it returns the model
            and its probabilities for them, or predicted numbers.
        share: share of the records that is kept, in (0, 1).
        seed: public seed of the random split.
        rng: randomness of the noise.

    Raises:
        InputError: one of the two parts would be empty; nothing was charged.
    """
    held = np.random.default_rng(seed).permutation(curator.records) < share * curator.records
    if held.all() or not held.any():
        raise InputError("labels must hold more records: the training or the evaluation part would be empty")
    why = f"records are assigned at random from the public seed {seed}, without their labels"
    training, kept = curator.split(Public(held.astype(np.int64), why=why))
    response = evaluation_mechanism(kept.domain, epsilon)
    kept.require({"evaluation": response.privacy_loss()})
    model, predicted = learn(training, held)
    release = kept.release(response, rng=rng, step="evaluation")
    seen = evaluate(release, predicted, HELD_OUT, np.flatnonzero(held))
    return gather([model, release], lambda model, _: replace(model, evaluation=seen))


def check_evaluation(share: Any) -> None:
    """Raise an `InputError` unless this is a share of the records that leaves some to learn from."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 <= share < 1:
        raise InputError("evaluation must be a share of the records, in [0, 1)")
