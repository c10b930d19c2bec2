"""What was learned from released labels."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners.errors import NumberEvaluation
from labeldp.learners.evaluation import Evaluation
from labeldp.learners.probabilities import Probabilities, expanded, unmixed
from labeldp.mechanisms import Classes, Interval
from labeldp.privacy import InputError


@dataclass(frozen=True)
class Model:
    """Class probabilities and predictions in the user's class names, or predicted numbers.

    Args:
        domain: the declared classes, in order, or the interval of the numbers.
        estimator: the fitted scikit-learn classifier, whose classes are codes of the domain, or regressor.
        noise: P(z | y), shape (K, K), where the estimator predicts the noisy label: it is undone. None
            where it predicts the true one.
        evaluation: how good the model is, from released labels alone.
    """

    domain: Any  # Classes or Interval
    estimator: Any = field(repr=False)
    noise: NDArray[np.float64] | None = field(default=None, repr=False)
    evaluation: Evaluation | NumberEvaluation | None = field(default=None, repr=False)

    @property
    def classes(self) -> tuple[str | int, ...]:
        """Class names in the order of the columns of `predict_proba`."""
        return self._classes.names

    def predict_proba(self, features: Any) -> Probabilities:
        """Probabilities of the true class, shape (n, K), in the order of the domain."""
        given = expanded(self.estimator, features, self._classes.size)
        return given if self.noise is None else unmixed(given, self.noise)

    def predict(self, features: Any) -> NDArray[Any]:
        """The likeliest class of each record, as names, shape (n,), ties to the first; or numbers, kept in range."""
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
