"""A scikit-learn estimator that a program holds, which learns from randomized labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor

from labeldp.fit.local import NoisyLabels, ReleasedLabels
from labeldp.fit.recipe import MIN_RECORDS, WHICH_ARE_TRUE, Recipe, StageRecipe, Step, TrainingContext
from labeldp.fit.registry import RECIPES, recipe_of
from labeldp.fit.rows import GivenRows, Rows
from labeldp.fit.settings import FitSettings
from labeldp.learners import (
    HELD_OUT,
    Model,
    NoisyNumberRegressor,
    boosted_regression,
    classifiers_of,
    dry_run_regressor,
    evaluate,
    fit_multistage,
    fit_numbers,
    held_out,
    record_weights,
    take_rows,
    with_given,
)
from labeldp.mechanisms import Classes, Interval
from labeldp.privacy import CuratorLike, InputError, Public, RandomSource, Release

WEIGHTED = "boosting", "logistic", "forest"
"""Names of learners that use weights of records; of numbers the first alone."""


@final
@dataclass(frozen=True)
class WrappedEstimator(Recipe):
    """Learns by the likelihood of randomized classes, or from randomized numbers that are unbiased.

    Args:
        estimator: an unfitted classifier with `predict_proba`, or several, of which the best is kept; an unfitted
            regressor of a squared loss; or a name in `WEIGHTED`.
        features: what it takes, in the order in which rows were given; None for the encoded table.
        weights: public weights of the rows in that order, shape (n,); None where all count alike.
    """

    estimator: Any
    features: Any = field(default=None, repr=False)
    weights: Any = field(default=None, repr=False)
    secret: ClassVar[tuple[str, ...]] = (WHICH_ARE_TRUE,)

    @property
    def _labels(self) -> NoisyLabels | ReleasedLabels:
        """The recipe of a named learner with the same releases."""
        return (ReleasedLabels if isinstance(self.settings.domain, Interval) else NoisyLabels)(self.settings)

    @property
    def shares_releases(self) -> bool:
        """Return True: what is released depends neither on the features nor on the estimator."""
        return True

    def steps(self, records: int) -> tuple[Step, ...]:
        """Return the releases of a named learner; a noise-aware classifier is measured on a part of its own."""
        labels = self._labels
        if isinstance(labels, NoisyLabels) and hasattr(self.estimator, "fit_released"):
            return StageRecipe.steps(labels, records)
        return labels.steps(records)

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Refuse an estimator of another kind, one that fails on some of the features, and weights that it cannot use.

        Raises:
            InputError: what is wrong; nothing was charged.
        """
        assert isinstance(rows, GivenRows)
        numbers, records = isinstance(self.settings.domain, Interval), len(rows.order)
        if numbers and records < 3 * MIN_RECORDS:
            raise InputError(f"must hold at least {3 * MIN_RECORDS} records for numbers", argument="X")
        estimators = self._estimators(rows)
        usable = [_is_usable(estimator, self.settings.domain) for estimator in estimators]
        if not all(usable) or not usable or (numbers and len(usable) > 1):
            kind = "one regressor, such as Ridge()" if numbers else "a classifier with predict_proba"
            raise InputError(
                f"must be {kind}, or one of {', '.join(learner_names(self.settings))}", argument="estimator"
            )
        weights = record_weights(self.weights, records, estimators)
        if isinstance(self.settings.domain, Interval):
            ordered = None if weights is None else weights[rows.order]
            dry_run_regressor(estimators[0], self._table(rows), self.settings.domain, ordered)

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
        """Release all labels once, and learn from what was released."""
        assert isinstance(rows, GivenRows)
        features, settings = self._table(rows), self.settings
        weights = None if self.weights is None else np.asarray(self.weights, dtype=np.float64)[rows.order]
        if isinstance(settings.domain, Classes):
            model = fit_multistage(
                features,
                curator,
                classifier=self._estimators(rows),
                epsilon=settings.epsilon,
                stages=1,
                evaluation=settings.evaluation,
                sample_weight=weights,
                rng=rng,
                progress=context.show,
            )
        elif self._labels.staged:  # type: ignore[union-attr]
            model = fit_numbers(
                features,
                curator,
                epsilon=settings.epsilon,
                rng=rng,
                classifiers=(),
                regressors=[NoisyNumberRegressor(self._estimators(rows)[0])],
                evaluation=self.share,
                sample_weight=weights,
            )
        else:
            release = curator.release(self._labels.mechanism, rng=rng, step="labels")  # type: ignore[union-attr]
            model = self._learn_numbers(rows, curator, release, weights)
        given = None if weights is None else Public(weights, why="who called fit says so")
        return with_given(model, given, "sample weights do")

    def _learn_numbers(
        self, rows: GivenRows, curator: CuratorLike, release: Release[Any], weights: NDArray[np.float64] | None
    ) -> Release[Model]:
        """Learn from unbiased numbers, but for those of the records that the model is measured on."""
        features, held = self._table(rows), held_out(curator, self.share, 0)
        seen, answers = (replace(release, value=release.value[mask]) for mask in (~held, held))
        kept = None if weights is None else weights[~held]
        regressor = NoisyNumberRegressor(self._estimators(rows)[0]).fit(take_rows(features, ~held), seen, kept)
        model = Model(self.settings.domain, regressor)
        evaluation = evaluate(answers, model.predict(take_rows(features, held)), HELD_OUT, np.flatnonzero(held))
        return release.map(lambda _: replace(model, evaluation=evaluation))

    def _table(self, rows: GivenRows) -> Any:
        """Return what the estimator takes of these rows."""
        return rows.features if self.features is None else take_rows(self.features, rows.order)

    def _estimators(self, rows: GivenRows) -> Sequence[Any]:
        """Return the unfitted estimators."""
        if isinstance(self.estimator, str):
            if isinstance(self.settings.domain, Interval):
                return [boosted_regression(len(rows.features), rows.encoder.categorical)]
            return classifiers_of(self.estimator, rows.features, rows.encoder.categorical, self.settings.domain.size)
        return self.estimator if isinstance(self.estimator, list | tuple) else [self.estimator]

    def without_rows(self) -> "WrappedEstimator":
        """Return what a fitted estimator keeps: neither features nor weights."""
        return replace(self, features=None, weights=None)

    def describe(self, model: Model) -> str:
        """Return the name of the estimator's class."""
        return f"{type(model.estimator).__name__}, learned from one release of noisy labels"

    def describe_noise(self, records: int) -> str:
        """Return the noise of a released label."""
        return self._labels.describe_noise(records)


def _is_usable(estimator: Any, domain: Any) -> bool:
    """Return whether this is an unfitted estimator, and no class, for labels in a domain."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        return False
    return is_regressor(estimator) if isinstance(domain, Interval) else hasattr(estimator, "predict_proba")


def learner_names(settings: FitSettings) -> list[str]:
    """Return the names of the learners of tables that take such labels under such trust."""
    return [
        name
        for name, choice in RECIPES.items()
        if "tables" in choice.data and (name == "auto" or any(source.takes(settings) for source in choice.sources))
    ]


def recipe_with(settings: FitSettings, estimator: Any, features: Any, weights: Any) -> Recipe:
    """Return how a named learner, or an estimator that a program holds, learns.

    Args:
        settings: what is asked for.
        estimator: a name, or an unfitted scikit-learn estimator; None for the default learner.
        features: what an estimator takes, in the order of the rows.
        weights: public weights of the rows, or None.

    Raises:
        InputError: another learner than labels, trust and weights allow.
    """
    local, names = settings.trust == "local", learner_names(settings)
    if estimator is not None and not isinstance(estimator, str):
        if not local:
            raise InputError(
                "learns from randomized labels, so it needs trust='local'; with trust='central' name one of "
                f"{', '.join(names)}",
                argument="estimator",
            )
        return WrappedEstimator(settings, estimator, features, weights)
    name = estimator or "auto"
    if name not in names:
        raise InputError(
            f"must be one of {', '.join(names)} with trust={settings.trust!r}, or with trust='local' an unfitted "
            "scikit-learn estimator",
            argument="estimator",
        )
    if weights is None:
        return recipe_of(replace(settings, model=name))
    weighted = WEIGHTED if settings.target == "classes" else WEIGHTED[:1]
    if not local or name not in ("auto", *weighted):
        raise InputError(
            f"goes with trust='local' and estimator={' or '.join(map(repr, weighted))}, or with a scikit-learn "
            "estimator whose fit takes it",
            argument="sample_weight",
        )
    return WrappedEstimator(settings, weighted[0] if name == "auto" else name, None, weights)
