"""The one place that says how each `--model` is learnt, and under which `--trust`."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from labeldp.learners import (
    Model,
    TableMap,
    cluster_prior,
    default_clusters,
    default_epsilon,
    fit_linear,
    fit_multistage,
    fit_noisy,
)
from labeldp.mechanisms import CrossMoment, GaussianMoment, LaplaceMoment, RandomizedResponse
from labeldp.privacy import (
    CuratorLike,
    InputError,
    PrivacyLoss,
    Public,
    Release,
    Trust,
    positive_epsilon,
    shortest_float,
)
from labeldp.workflows.classifiers import MODELS, classifiers_of, indicators, kind_of
from labeldp.workflows.fit_data import PrivateRows
from labeldp.workflows.fit_settings import FitSettings
from labeldp.workflows.plan import Plan, Step

EVALUATED = 0.1
"""The share of the records that a model of noisy sums is measured on, and not learnt from."""

DIRECTIONS = 500
"""At most so many of the features that a simulation learns from."""


def plan_of(settings: FitSettings) -> Plan:
    """How these settings are learnt.

    Raises:
        InputError: no such model, another model than the trust allows, or an option that does not go with it.
    """
    if settings.model not in PLANS:
        raise InputError(f"--model must be one of {', '.join(PLANS)}")
    kind = PLANS[settings.model]
    if kind.trust.name.lower() != settings.trust:
        others = [name for name, other in PLANS.items() if other.trust.name.lower() == settings.trust]
        if not others:
            raise InputError("--trust must be local or central")
        raise InputError(
            f"--model {settings.model} goes with --trust {kind.trust.name.lower()}; "
            f"with --trust {settings.trust} take --model {' or '.join(others)}"
        )
    return kind(settings)


@final
@dataclass(frozen=True)
class NoisyLabels(Plan):
    """A scikit-learn classifier of labels that are randomized one by one, in stages or at once."""

    trust: ClassVar[Trust] = Trust.LOCAL
    secret: ClassVar[tuple[str, ...]] = ("Which of the randomized labels are true.",)
    simulated: ClassVar[str] = (
        "randomized anew at each epsilon and learnt from in one stage by plain training of the classifier that was "
        "chosen"
    )

    def __post_init__(self) -> None:
        if self.settings.delta:
            raise InputError(
                "--delta goes with --trust central: randomized labels need none; "
                "labeldp ledger add gives a dataset's budget one"
            )

    def steps(self, records: int) -> tuple[Step, ...]:
        """A cluster prior where there is one, then the stages and the evaluation: parts of the records."""
        settings, (prior_epsilon, epsilon) = self.settings, self.shares(records)
        if prior_epsilon is None and settings.stages == 1:
            plain = RandomizedResponse(domain=settings.domain, epsilon=epsilon)
            return (Step("stage 1", plain.privacy_loss(), mechanism=plain.specification()),)
        names = [*(f"stage {number + 1}" for number in range(settings.stages)), "evaluation"]
        parts = tuple(Step(name, PrivacyLoss.pure(epsilon), part) for part, name in enumerate(names))
        if prior_epsilon is None:
            return parts
        return Step("cluster prior", PrivacyLoss.response(positive_epsilon(prior_epsilon) / 2, 2) * 2), *parts

    def shares(self, records: int) -> tuple[float | None, float]:
        """The epsilon of the cluster prior, where there is one, and what is left for the labels."""
        settings = self.settings
        if settings.prior == "none":
            return None, settings.epsilon
        total = positive_epsilon(settings.epsilon)
        wanted = positive_epsilon(default_epsilon(records, default_clusters(records, settings.domain.size)))
        spent = min(wanted, total / 5)
        return shortest_float(spent), shortest_float(total - positive_epsilon(shortest_float(spent)))

    def learn(self, rows: PrivateRows, curator: CuratorLike, *, rng: Any) -> Release[Model]:
        """See `fit_multistage`."""
        settings, categorical = self.settings, rows.encoder.categorical
        prior, (prior_epsilon, epsilon) = None, self.shares(curator.records)
        if prior_epsilon is not None:
            prior = cluster_prior(indicators(rows.features, categorical), curator, epsilon=prior_epsilon, rng=rng)
        classifiers = classifiers_of(settings.model, rows.features, categorical, settings.domain.size)
        return fit_multistage(
            rows.features,
            curator,
            classifier=classifiers,
            epsilon=epsilon,
            stages=settings.stages,
            prior=prior,
            rng=rng,
        )

    def prepared(self, model: Model, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """As they are."""
        return features

    def relearn(
        self, model: Model, features: NDArray[np.float64], curator: CuratorLike, *, epsilon: float, rng: Any
    ) -> Model:
        """The chosen classifier from one release of all labels."""
        release = curator.release(RandomizedResponse(domain=curator.domain, epsilon=epsilon), rng=rng)
        return fit_noisy(features, release, classifier=clone(model.estimator), training="plain").value

    def described(self, model: Model) -> str:
        """The classifier that was chosen, and the stages."""
        count = self.settings.stages
        return f"{kind_of(model.estimator)}, learnt in {'one stage' if count == 1 else f'{count} stages'}"

    def noise(self, records: int) -> str:
        """The chance that a released label is the true one."""
        response = RandomizedResponse(domain=self.settings.domain, epsilon=self.shares(records)[1])
        return (
            f"A label was released as it is with a probability of {response.keep_probability:.3f} where every class "
            "could be the answer, else as another class."
        )


@final
@dataclass(frozen=True)
class NoisySums(Plan):
    """A linear model of one noisy sum of rows times labels, by somebody who may see the labels."""

    trust: ClassVar[Trust] = Trust.CENTRAL
    secret: ClassVar[tuple[str, ...]] = (
        "The sums as they were before noise was added.",
        "Which of the randomized labels of the evaluation are true.",
    )
    simulated: ClassVar[str] = (
        "summed with fresh noise at each epsilon and the same delta, and learnt from as this model was"
    )

    def __post_init__(self) -> None:
        if self.settings.stages != 1 or self.settings.prior != "none":
            raise InputError("--stages and --prior are for randomized labels: --model linear learns from one release")

    def steps(self, records: int) -> tuple[Step, ...]:
        """The sums of most records, and plain randomized response for the others."""
        settings = self.settings
        response = RandomizedResponse(domain=settings.domain, epsilon=settings.epsilon)
        return Step("linear", self._moment().privacy_loss(), 0), Step("evaluation", response.privacy_loss(), 1)

    def _moment(self) -> CrossMoment:
        """Sums of a single row: what they cost is what any sums cost, as their noise is set to keep epsilon and delta.

        Two such losses differ by the rounding of the noise to an integer: in the fifth digit.
        """
        row = Public(np.ones((1, 1)), why="one row of norm one")
        asked: dict[str, Any] = {"domain": self.settings.domain, "epsilon": self.settings.epsilon, "features": row}
        return GaussianMoment(**asked, delta=self.settings.delta) if self.settings.delta else LaplaceMoment(**asked)

    def learn(self, rows: PrivateRows, curator: CuratorLike, *, rng: Any) -> Release[Model]:
        """See `fit_linear`: on one thread, since the same sums are found again by rows that are the same to the bit."""
        representation = TableMap(categorical=rows.encoder.categorical)
        with threadpool_limits(1):
            return fit_linear(
                rows.features,
                curator,
                epsilon=self.settings.epsilon,
                delta=self.settings.delta,
                rng=rng,
                representation=representation,
                evaluation=EVALUATED,
            )

    def prepared(self, model: Model, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """The widest directions of the features as they were mapped: found once, not at each epsilon."""
        table = model.estimator.representation.transform(features)
        return np.asarray(PCA(min(DIRECTIONS, *table.shape), svd_solver="covariance_eigh").fit_transform(table))

    def relearn(
        self, model: Model, features: NDArray[np.float64], curator: CuratorLike, *, epsilon: float, rng: Any
    ) -> Model:
        """The same at another epsilon, without an evaluation."""
        delta, plain = self.settings.delta, FunctionTransformer()
        return fit_linear(features, curator, epsilon=epsilon, delta=delta, rng=rng, representation=plain).value

    def described(self, model: Model) -> str:
        """The model and the one release."""
        return "a linear model of numbers, categories and random trees’ leaves, learnt from one release of noisy sums"

    def noise(self, records: int) -> str:
        """The standard deviation, in units of what one label can do."""
        moment = self._moment()
        kind, most, move = "Gaussian", "the length", moment.sensitivity_square**0.5
        if not self.settings.delta:
            kind, most, move = "Two-sided geometric", "the sum of the amounts", moment.sensitivity_sum
        ratio = moment.noise_stddev / (move * moment.rows.unit)
        return (
            f"{kind} noise was added to every sum: its standard deviation is {ratio:.3g} times {most} by which one "
            "label can move all sums together."
        )


PLANS: dict[str, type[Plan]] = {**dict.fromkeys(MODELS, NoisyLabels), "linear": NoisySums}
"""How each `--model` is learnt."""
