"""Rewards from private preferences: the choice between A and B is private, texts and candidates are public."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.preprocessing import FunctionTransformer

from labeldp.features import check_rows, encode, row_table
from labeldp.learners.evaluation import Evaluation
from labeldp.learners.evidence import Evidence
from labeldp.learners.linear import fit_linear
from labeldp.learners.model import Model, check_evaluation, fit_and_evaluate
from labeldp.learners.softmax import SoftmaxClassifier, label_head
from labeldp.learners.training import with_given
from labeldp.mechanisms import Classes, RandomizedResponse
from labeldp.privacy import CuratorLike, Floats, InputError, RandomSource, Release, check_choice, check_curator, decimal


@dataclass(frozen=True)
class RewardModel:
    """Linear rewards under which preferences are Bradley-Terry: P(A is better) = sigmoid(reward of A - reward of B).

    Args:
        domain: the two classes; the first one says that A is better.
        direction: of the reward in encoded features, shape (d,).
        position: what is added to the reward of A because it was shown as A. Predictions leave it out.
        representation: fitted transformer that encodes features.
        evaluation: how often the model says which was preferred, from released labels alone; it knows the position.
    """

    domain: Classes
    direction: Floats = field(repr=False)
    position: float = 0.0
    representation: Any = field(default=None, repr=False)
    evaluation: Evaluation | None = field(default=None, repr=False)

    def rewards(self, features: Any) -> Floats:
        """Return the reward of each answer, shape (n,), up to a constant that all have in common.

        Args:
            features: of n answers, such as embeddings of texts, shape (n, d).
        """
        return np.asarray(self.representation.transform(row_table(features)) @ self.direction, dtype=np.float64)

    def predict_proba(self, features_a: Any, features_b: Any) -> Floats:
        """Return the chance that A is better than B in each pair, in the order of `domain`, shape (n, 2)."""
        first = expit(self.rewards(features_a) - self.rewards(features_b))
        return np.stack([first, 1 - first], axis=1)

    def predict(self, features_a: Any, features_b: Any) -> NDArray[Any]:
        """Return the name of the likelier class of each pair, shape (n,)."""
        return self.domain.decode(self.predict_proba(features_a, features_b).argmax(axis=1))


def preferences(
    features_a: Any,
    features_b: Any,
    curator: CuratorLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    rng: RandomSource,
    trust: Literal["central", "local"] = "central",
    representation: Any = None,
    evaluation: float = 0.0,
    partition_seed: int = 0,
) -> Release[RewardModel]:
    """Learn rewards of public answers from private preferences between two of them.

    With a trusted curator one noisy sum of differences times preferences is released, as by `fit_linear`. Where nobody
    is trusted each preference is randomized, and learned from by its likelihood, which knows how often it is true.

    Args:
        features_a, features_b: public features of both answers of n pairs, such as embeddings, shape (n, d) each.
        curator: holds n preferences: two classes. The first of `domain.names`, which are sorted, says that A is better.
        epsilon: cost of the release.
        delta: of the release; 0 where nobody is trusted.
        rng: randomness of the noise.
        trust: "central" if the curator may see the preferences, "local" if each of them is randomized on its own.
        representation: unfitted transformer of single answers, fitted to those of both sides alone; or a fitted one, as
            `Public(encoder, why="…")`. By default features are taken as they are.
        evaluation: share of the pairs that is kept from the model and answered by randomized response at the same
            epsilon, for its `evaluation`.
        partition_seed: public seed of the random split.

    Guarantee (approximate, pure): (epsilon, delta)-DP for each preference; (epsilon, 0)-DP where nobody is trusted.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: nothing was charged.

    Source: BradleyTerry, for the model; `docs/results/preferences.md` compares the losses.

    Examples:
        >>> import labeldp as ldp
        >>> rng = np.random.default_rng(0)
        >>> a, b = rng.normal(size=(2, 500, 3))
        >>> better = np.where(a[:, 0] > b[:, 0], "A", "B")
        >>> curator = ldp.Curator(better, domain=ldp.Classes(("A", "B")), budget=ldp.Budget(2))
        >>> release = preferences(a, b, curator, epsilon=2, rng=rng)
        >>> bool(np.mean(release.value.predict(a, b) == better) > 0.9)
        True
    """
    check_curator(curator)
    check_choice(trust, "trust", ("central", "local"))
    check_evaluation(evaluation)
    if curator.domain.target != "classes" or curator.domain.size != 2:
        raise InputError(
            'curator must hold two classes, such as Classes(("A", "B")), the first of its names for "A is better"'
        )
    if trust == "local" and decimal(delta, "delta"):
        raise InputError('must be 0 with trust="local": randomized preferences need none', argument="delta")
    sides = [row_table(features) for features in (features_a, features_b)]
    for side in sides:
        check_rows(side, curator.records)
    if np.shape(sides[0]) != np.shape(sides[1]):
        raise InputError("must have the columns of features_a", argument="features_b")
    both = np.concatenate([np.asarray(side) for side in sides])
    encoded = encode(FunctionTransformer() if representation is None else representation, both, None)
    table = np.asarray(encoded.table[: curator.records] - encoded.table[curator.records :])
    plain = FunctionTransformer()
    if trust == "central":
        model = fit_linear(
            table, curator, epsilon=epsilon, delta=delta, rng=rng, representation=plain, evaluation=evaluation,
            partition_seed=partition_seed,
        )  # fmt: skip
    else:

        def learn(training: CuratorLike, held: NDArray[np.bool_]) -> tuple[Release[Model], Any]:
            SoftmaxClassifier(plain).dry_run(table[~held], curator.domain.size)  # refuses before the charge
            release = training.release(mechanism, rng=rng, step="labels")
            head = label_head(table[~held], Evidence.of(release), representation=plain)
            model = release.map(lambda _: Model(curator.domain, head.classifier))
            return model, model.value.predict_proba(table[held])

        mechanism = RandomizedResponse(domain=curator.domain, epsilon=epsilon)
        if evaluation:
            model = fit_and_evaluate(curator, epsilon, learn, share=evaluation, seed=partition_seed, rng=rng)
        else:
            model = learn(curator, np.zeros(curator.records, dtype=np.bool_))[0]
    fitted = with_given(model, representation, "representation does")
    return fitted.map(lambda result: _rewards(result, encoded.transformer))


def _rewards(model: Model, transformer: Any) -> RewardModel:
    linear = model.estimator
    scores = linear.confidence * np.column_stack([linear.coefficients.T, linear.offset])
    direction = scores[0] - scores[1]
    return RewardModel(model.domain, direction[:-1], float(direction[-1]), transformer, model.evaluation)
