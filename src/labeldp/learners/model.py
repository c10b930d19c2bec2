"""A classifier that was learnt from released labels."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners.evaluation import Evaluation
from labeldp.learners.probabilities import Probabilities, expanded, unmixed
from labeldp.mechanisms import Classes


@dataclass(frozen=True)
class Model:
    """Class probabilities and predictions in the user's class names.

    Args:
        domain: the declared classes, in order.
        estimator: the fitted scikit-learn classifier; its classes are codes of the domain.
        noise: P(z | y), shape (K, K), where the estimator predicts the noisy label: it is undone. None
            where it predicts the true one.
        evaluation: how good the model is, from released labels alone.
    """

    domain: Classes
    estimator: Any = field(repr=False)
    noise: NDArray[np.float64] | None = field(default=None, repr=False)
    evaluation: Evaluation | None = field(default=None, repr=False)

    @property
    def classes(self) -> tuple[str | int, ...]:
        """Class names in the order of the columns of `predict_proba`."""
        return self.domain.names

    def predict_proba(self, features: Any) -> Probabilities:
        """Probabilities of the true class, shape (n, K), in the order of the domain."""
        given = expanded(self.estimator, features, self.domain.size)
        return given if self.noise is None else unmixed(given, self.noise)

    def predict(self, features: Any) -> NDArray[Any]:
        """The most likely class of each record, as names, shape (n,); ties to the first class."""
        return self.domain.decode(self.predict_proba(features).argmax(axis=1))

    def __repr__(self) -> str:
        return f"Model(domain={self.domain!r}, estimator={type(self.estimator).__name__})"
