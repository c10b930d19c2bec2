"""The models that learners return, and their evaluation on held-out records."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score

from labeldp.inference import debiased_accuracy, evaluate_numbers
from labeldp.learners.evaluation import (
    HELD_OUT,
    Evaluation,
    error_shares,
    evaluate,
    evaluation_mechanism,
    release_errors,
)
from labeldp.learners.evidence import Probabilities, expanded, unmixed
from labeldp.mechanisms import Mechanism
from labeldp.privacy import (
    Certificate,
    CuratorLike,
    InputError,
    Public,
    RandomSource,
    Release,
    float_below,
    gather,
    positive_epsilon,
)


@dataclass(frozen=True)
class Model:
    """A fitted estimator that predicts class names with their probabilities, or numbers.

    Args:
        domain: the declared classes, or the interval of the numbers.
        estimator: fitted scikit-learn regressor, or classifier whose classes are codes of the domain.
        noise: P(z | y), shape (K, K), if the estimator predicts noisy labels, so that the noise is inverted; None if it
            predicts true ones.
        evaluation: how good the model is, from released labels alone; None where there is none, as of a loaded model.
        encoder: what `transform`s features as they are given, such as data frames, into what the estimator takes; None
            if it takes them as they are.
        certificate: what the labels behind a loaded model cost; None where a `Release` holds the model and says so.
    """

    domain: Any
    estimator: Any = field(repr=False)
    noise: NDArray[np.float64] | None = field(default=None, repr=False)
    evaluation: Evaluation | None = field(default=None, repr=False)
    encoder: Any = field(default=None, repr=False)
    certificate: Certificate | None = field(default=None, repr=False)

    @property
    def classes(self) -> tuple[str | int, ...]:
        """Class names, in the order of the columns of `predict_proba`."""
        return self._classes.names

    @property
    def classes_(self) -> NDArray[Any]:
        """Class names as an array, shape (K,), as scikit-learn calls them."""
        return self._classes.decode(np.arange(self._classes.size))

    def predict_proba(self, features: Any) -> Probabilities:
        """Return probabilities of the true class, shape (n, K), in the order of the domain."""
        columns = expanded(self.estimator, self._encoded(features), self._classes.size)
        return columns if self.noise is None else unmixed(columns, self.noise)

    def predict(self, features: Any) -> NDArray[Any]:
        """Return the name of the likeliest class, ties to the first, or numbers clipped to the range, shape (n,)."""
        if self.domain.target == "numbers":
            return np.clip(self.estimator.predict(self._encoded(features)), *self.domain.ends)
        return self.domain.decode(self.predict_proba(features).argmax(axis=1))

    def score(self, features: Any, labels: Public[Any] | Release[Any]) -> float:
        """Return the accuracy of predicted classes, or R squared of predicted numbers.

        Args:
            features: features, shape (n, d), that the model did not learn from.
            labels: `Public(array, why="…")`, true labels, shape (n,). Or a `Release` of labels that the model did not
                learn from, for the debiased score, which is unbiased for that on the true labels.

        Raises:
            InputError: labels are neither. A score on private labels is a function of them that nobody charged.
        """
        if isinstance(labels, Release):
            return self._debiased_score(features, labels)
        if not isinstance(labels, Public):
            raise InputError(
                'must be Public(array, why="…") or a Release: a score on private labels is not private. Use the '
                "evaluation of the fit: `evaluation_` of an estimator, `evaluation` of a model",
                argument="labels",
            )
        if self.domain.target == "numbers":
            return float(r2_score(labels.value, self.predict(features)))
        return float(accuracy_score(self.domain.encode(labels.value), self.predict_proba(features).argmax(axis=1)))

    def _debiased_score(self, features: Any, release: Release[Any]) -> float:
        """Return the score that a release of labels lets expect."""
        if release.mechanism is None or release.mechanism.domain != self.domain:
            raise InputError(f"labels must be a release of labels on the domain of the model, {self.domain!r}")
        if self.domain.target == "numbers":
            return float(evaluate_numbers(release, self.predict(features)).explained().value)
        return float(debiased_accuracy(release, self.predict_proba(features).argmax(axis=1)).value)

    def _encoded(self, features: Any) -> Any:
        return features if self.encoder is None else self.encoder.transform(features)

    @property
    def _classes(self) -> Any:
        if self.domain.target != "classes":
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
    errors: Literal["summed", "labels"] = "labels",
) -> Release[Model]:
    """Learn a model and evaluate it on records that are kept from it, and answered one by one, or summed.

    If the curator has users, so many of them are kept with all their records, and one record of each is answered.

    Args:
        curator: holds all labels.
        epsilon: cost of the labels for the evaluation.
        learn: function of the curator of the other records and the mask of those that are kept; it returns the model
            and its probabilities for those, or predicted numbers.
        share: share of the records that is kept, in (0, 1).
        seed: public seed of the random split.
        rng: randomness of the noise.
        errors: "labels" answers each record that is kept; "summed", for numbers, releases noisy sums of squared errors
            by a trusted curator (`release_errors`).

    Raises:
        InputError: one of the two parts would be empty; nothing was charged.
    """
    held = held_out(curator, share, seed)
    why = f"records are assigned at random from the public seed {seed}, without their labels"
    training, measured = curator.split(Public(held.astype(np.int64), why=why))
    summed = errors == "summed" and curator.users is None
    steps = evaluation_steps(measured.domain, epsilon, summed=summed)
    if len(steps) > 1:
        measured.require(steps)
        model, predicted = learn(training, held)
        public = model.map(lambda _: np.asarray(predicted))
        sums = release_errors(measured, public, epsilon=epsilon, about=HELD_OUT, rows=np.flatnonzero(held), rng=rng)
        releases = [model, sums.errors, sums.constant_errors]
        return gather(releases, lambda model, *_: replace(model, evaluation=sums))
    rows = np.arange(measured.records)
    if curator.users is not None:
        measured, rows = measured.limited(1)
    [(name, response)] = steps.items()
    measured.require(steps)
    model, predicted = learn(training, held)
    release = measured.release(response, rng=rng, step=name)
    seen = evaluate(release, predicted[rows], HELD_OUT, np.flatnonzero(held)[rows])
    return gather([model, release], lambda model, _: replace(model, evaluation=seen))


def evaluation_steps(domain: Any, epsilon: float, *, summed: bool) -> dict[str, Mechanism]:
    """Return what an evaluation on held-out records releases, by step.

    Sums of errors need predictions: the noise of single labels stands for them, which costs as much.
    """
    shares = error_shares(epsilon) if summed and domain.target == "numbers" else {"evaluation": epsilon}
    return {name: evaluation_mechanism(domain, share) for name, share in shares.items()}


def assigned(curator: CuratorLike, assign: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    """Return the number that `assign` gives each record, shape (n,); records of one user have the same."""
    if curator.users is None:
        return assign(curator.records)
    _, numbers = np.unique(curator.users.value, return_inverse=True)
    return np.asarray(assign(int(numbers.max()) + 1)[numbers])


def label_epsilon(curator: CuratorLike, epsilon: Any) -> float:
    """Return the epsilon of one label at which no one pays more than another epsilon for all their labels."""
    if curator.users is None:
        return float_below(positive_epsilon(epsilon))
    return float_below(positive_epsilon(epsilon) / int(np.bincount(curator.users.value).max()))


def held_out(curator: CuratorLike, share: float, seed: int) -> NDArray[np.bool_]:
    """Return which records are kept for the evaluation, all records of a user or none, shape (n,).

    Args:
        curator: has the number of records, and the user of each.
        share: of the records, or of the users, in [0, 1).
        seed: public seed of the draw.

    Raises:
        InputError: one of the two parts would be empty.
    """
    return np.asarray(assigned(curator, lambda count: kept_apart(count, share, seed)), dtype=np.bool_)


def kept_apart(records: int, share: float, seed: int) -> NDArray[np.bool_]:
    """Return which records, or users, are kept for the evaluation, by a public seed, shape (records,).

    Raises:
        InputError: one of the two parts would be empty.
    """
    held = np.random.default_rng(seed).permutation(records) < share * records
    if share and (held.all() or not held.any()):
        raise InputError("labels must hold more records: the training or the evaluation part would be empty")
    return held


def check_evaluation(share: Any) -> None:
    """Raise an `InputError` unless this is a share of the records that leaves some to learn from."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 <= share < 1:
        raise InputError("must be a share of the records, in [0, 1)", argument="evaluation")
