"""A scikit-learn estimator that a program holds, as a learner of randomized labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from sklearn.base import is_regressor

from labeldp.learners.adapters import NoisyNumberRegressor
from labeldp.learners.catalog import AUTO, names_of
from labeldp.learners.multistage import Multistage
from labeldp.learners.plan import MIN_RECORDS, Learner, Progress, Task, no_progress
from labeldp.learners.released import ReleasedLabels
from labeldp.learners.training import dry_run_regressor, record_weights
from labeldp.mechanisms import Mechanism
from labeldp.privacy import CuratorLike, InputError, Plan, RandomSource, Release


@final
@dataclass(frozen=True)
class WrappedEstimator(Learner):
    """Learns by the likelihood of randomized classes, or from randomized numbers that are unbiased.

    Args:
        estimator: an unfitted classifier with `predict_proba`, or several, of which the best is kept; or an unfitted
            regressor of a squared loss.
    """

    name: str = "estimator"
    estimator: Any = None

    @property
    def estimators(self) -> list[Any]:
        """The unfitted estimators."""
        return list(self.estimator) if isinstance(self.estimator, list | tuple) else [self.estimator]

    def inner(self, task: Task) -> Multistage | ReleasedLabels:
        """Return the learner of the catalog with the same releases."""
        if task.domain.target == "classes":
            return Multistage(self.name, stages=1, classifier=self.estimators)
        return ReleasedLabels(self.name, regressors=tuple(map(NoisyNumberRegressor, self.estimators)))

    def plan(self, task: Task) -> Plan:
        """Return one release of all labels, or those of `Numbers`; a noise-aware classifier is measured on a part."""
        return self.inner(task).plan(task)

    def answers(self, task: Task) -> Mapping[str, Mechanism]:
        """Return the release of all labels, which every fit that asks for the same one shares."""
        return self.inner(task).answers(task)

    def shares_releases(self, task: Task) -> bool:
        """Return True: the release depends neither on the features nor on the estimator."""
        return True

    def check(self, features: Any, task: Task) -> None:
        """Refuse an estimator of another kind, one that fails on some of the features, and weights that it cannot use.

        Raises:
            InputError: what is wrong; nothing was charged.
        """
        numbers, estimators = task.domain.target == "numbers", self.estimators
        if numbers and task.records < 3 * MIN_RECORDS:
            raise InputError(f"must hold at least {3 * MIN_RECORDS} records for numbers", argument="X")
        usable = [_is_usable(estimator, task) for estimator in estimators]
        if not all(usable) or not usable or (numbers and len(usable) > 1):
            kind = "one regressor, such as Ridge()" if numbers else "a classifier with predict_proba"
            names = ", ".join([AUTO, *names_of("local", task.domain.target)])
            raise InputError(f"must be {kind}, or one of {names}", argument="estimator")
        weights = record_weights(task.weights, task.records, estimators)
        if numbers:
            dry_run_regressor(estimators[0], features, task.domain, weights)

    def fit(
        self, features: Any, curator: CuratorLike, task: Task, *, rng: RandomSource, progress: Progress = no_progress
    ) -> Release[Any]:
        """Release all labels once, and learn from the release."""
        return self.inner(task).fit(features, curator, task, rng=rng, progress=progress)

    def describe(self, model: Any, task: Task) -> str:
        """Return the name of the estimator's class."""
        return f"{type(model.estimator).__name__}, learned from one release of noisy labels"

    def describe_noise(self, task: Task) -> str:
        """Return the noise of a released label."""
        return self.inner(task).describe_noise(task)


def _is_usable(estimator: Any, task: Task) -> bool:
    """Return whether this is an unfitted estimator, and no class, for the labels of a task."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        return False
    return is_regressor(estimator) if task.domain.target == "numbers" else hasattr(estimator, "predict_proba")
