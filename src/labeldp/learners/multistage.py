"""Classifiers from labels that are released in stages."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer

from labeldp.features import (
    check_rows,
    default_representation,
    described_features,
    encode,
    principal,
    row_table,
    take_rows,
)
from labeldp.learners.catalog import model_words
from labeldp.learners.classifiers import MODELS, SoftTrees, as_candidates, classifiers_of, indicators
from labeldp.learners.evaluation import HELD_OUT, evaluate
from labeldp.learners.evidence import Evidence, Probabilities, tempered
from labeldp.learners.model import Model, assigned, check_evaluation, held_out
from labeldp.learners.plan import (
    CLUSTER_PRIOR,
    EVALUATED,
    MIN_RECORDS,
    SIMULATED_DIRECTIONS,
    Learner,
    Progress,
    Task,
    no_progress,
    part,
    require_records,
)
from labeldp.learners.softmax import SoftmaxClassifier
from labeldp.learners.training import (
    CROSS_FITTING,
    CrossFit,
    Method,
    Training,
    cross_fit,
    dry_run,
    fit_and_measure,
    fit_noisy,
    is_noise_aware,
    learn,
    prior_rows,
    record_weights,
    released_anyway,
    with_initial_certificate,
)
from labeldp.mechanisms import (
    Classes,
    Domain,
    FiniteMechanism,
    LocalHashing,
    Mechanism,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    best_groups,
    public_seed,
)
from labeldp.privacy import (
    CuratorLike,
    InputError,
    NotInvertibleError,
    Plan,
    PrivacyLoss,
    Public,
    RandomSource,
    Release,
    Step,
    check_choice,
    check_curator,
    check_integer,
    float_above,
    gather,
    positive_epsilon,
)

SIMULATED_LABELS = "randomized at each ε, with a linear model of the features’ widest directions"
CALIBRATION_SHARE = 0.1
"""The share of a stage's records that calibrate the temperature of its model, before they are learned from."""

TEMPERATURES = np.geomspace(0.25, 8.0, 21)

STAGE_1 = "stage 1"
"""Names of releases in a ledger."""


def stage_name(number: int) -> str:
    """Return the name of a stage in a ledger."""
    return f"stage {number}"


STAGE_SHARES = {1: (1.0,), 2: (0.55, 0.45), 3: (0.4, 0.3, 0.3)}

CROSS_VALIDATED = "models of cross-validation, each trained on the other folds"
"""What is evaluated where models are cross-validated on released labels."""


Response = Literal["best", "randomized-response"]
"""How records are answered of which nothing is known."""


def fit_multistage(
    features: Any,
    curator: CuratorLike,
    *,
    classifier: Any = None,
    epsilon: float,
    stages: int | None = None,
    fractions: Sequence[float] | None = None,
    evaluation: float | None = None,
    temperature: float | Literal["calibrated"] = 1.0,
    prior: Release[Any] | Public[Any] | None = None,
    training: Training | Method = "posterior",
    response: Response = "best",
    partition_seed: int = 0,
    sample_weight: Any = None,
    rng: RandomSource,
    progress: Progress | None = None,
) -> Release[Model]:
    """Learn a classifier from private labels, each of which is released once, with noise.

    One stage releases all labels by plain randomized response, which is the default and measured best. With more
    stages, records are split at random, and the model of each stage is the prior of the next one's labels, which are
    then less noisy. Labels for the evaluation are released by plain randomized response and never trained on; with one
    stage and no prior, cross-validation on the released labels takes their place, unless `evaluation` asks for a part.

    Args:
        features: public table or array, one row for each record, whatever the classifier accepts.
        curator: holds the private labels and charges them: `Curator(y, domain=Classes(("no", "yes")), budget=…)`.
            `LabelDPClassifier` takes `y` itself.
        classifier: scikit-learn classifier with `predict_proba`, or several, of which the one that explains
            held-out released labels best is kept; by default `MixtureClassifier`, for numeric features.
            Or another noise-aware one, such as `labeldp.networks.NetworkClassifier`: each stage starts from the last.
        epsilon: cost of every label's one release; a prior that was released before costs its own on top. If the
            curator has users, a user pays so much for each label: see `Curator.limited`.
        stages: number of stages, at least 1. By default as many as there are `fractions`, else 1.
        fractions: share of the training records in each stage, sum 1; by default a little more than half first.
        evaluation: share of the records, in [0, 1), that the model does not learn from, but is measured on. By default
            a tenth; with one stage and no prior none, unless the classifier is noise-aware: then models of
            cross-validation are measured, and no interval is known for the model itself, which learns from all records.
            There a part costs records and no epsilon: what is released is the same with it and without.
        temperature: temperature of the model's probabilities as a prior, positive; below 1 sharpens. "calibrated" finds
            the one that best explains the released labels of a tenth of the stage's records, before they are used.
        prior: prior of the first stage, shape (n, K), such as `cluster_prior`.
        training: "posterior", "plain" (which drops earlier labels outside a stage's top candidates, as in the paper),
            "consensus", or `Training(...)`. The posterior drops none, but weighs every label; stages after the first
            take one more round. A noise-aware classifier has its own `loss` instead.
        response: how records are answered of which nothing is known. "best": by `LocalHashing` where its answers
            tell more bits than those of randomized response, and training takes sets of classes.
        partition_seed: seed of the random split and of the partitions of classes, which may be public: the guarantee
            holds for all that were fixed without the labels.
        sample_weight: public weights of the records in training, shape (n,); results count all records alike.
        rng: randomness of the noise.
        progress: called with what is being done, in words, and the share of the learning that is done, in [0, 1].

    Returns:
        The model, with `model.evaluation`; its certificate holds every charge.

    Guarantee (pure): epsilon-DP for each label, beside what the prior cost: every label is released once.

    Raises:
        InputError: an argument is wrong; nothing was charged.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 3 (LP-MST) and Algorithm 4.
    """
    check_curator(curator)
    learner = Multistage(
        "multistage", stages, prior, fractions, temperature, training, response, partition_seed, classifier
    )
    task = replace(Task.of(curator, epsilon, evaluation=evaluation), weights=sample_weight)
    return learner.fit(features, curator, task, rng=rng, progress=progress or no_progress)


@dataclass(frozen=True)
class Staged(Learner):
    """Classifiers that learn in stages from labels that are randomized one by one: see `fit_multistage`.

    Args:
        prior: as in `fit_multistage`; "clusters" spends a part of epsilon on a `cluster_prior`, by a trusted curator.
        stages, fractions, temperature, training, response, partition_seed: as in `fit_multistage`.
    """

    stages: int | None = None
    prior: Any = None
    fractions: Sequence[float] | None = None
    temperature: float | Literal["calibrated"] = 1.0
    training: Training | Method = "posterior"
    response: Response = "best"
    partition_seed: int = 0

    @abstractmethod
    def candidates(self, features: Any, task: Task) -> list[Any]:
        """Return the unfitted classifiers to choose from."""

    @abstractmethod
    def prior_features(self, features: Any, task: Task) -> NDArray[Any]:
        """Return features that clusters of records are found by, shape (n, any)."""

    @property
    @abstractmethod
    def noise_aware(self) -> bool:
        """Whether all candidates learn from released labels themselves: see `is_noise_aware`."""

    @property
    def count(self) -> int:
        """The number of stages."""
        if self.stages is None:
            return 1 if self.fractions is None else len(self.fractions)
        return check_integer(self.stages, "stages")

    @property
    def at_once(self) -> bool:
        """Whether all labels are released at once, and none is kept for the evaluation alone."""
        return self.count == 1 and self.prior is None and not self.noise_aware

    def share(self, task: Task) -> float:
        """Return the share of the records that the model does not learn from."""
        if task.evaluation is None:
            return 0.0 if self.at_once else EVALUATED
        return task.evaluation

    def plan(self, task: Task) -> Plan:
        """Return a cluster prior where there is one, then the stages and the evaluation: parts of the records."""
        prior_epsilon, epsilon = self.shares(task)
        first = self.answer(task, epsilon)
        if self.at_once:
            return Plan(self.name, (Step(path=(), loss=first.privacy_loss(), name=STAGE_1),))
        names = [stage_name(number + 1) for number in range(self.count)]
        if self.share(task):
            names.append("evaluation")
        loss = PrivacyLoss.pure(epsilon)
        steps = tuple(Step(path=part(number), loss=loss, name=name) for number, name in enumerate(names))
        if prior_epsilon is None:
            return Plan(self.name, steps)
        counts = PrivacyLoss.response(positive_epsilon(prior_epsilon) / 2, 2) * 2
        return Plan(self.name, (Step(path=(), loss=counts, name=CLUSTER_PRIOR), *steps))

    def shares(self, task: Task) -> tuple[float | None, float]:
        """Return the epsilon of the cluster prior, where there is one, and what is left for the labels."""
        if not isinstance(self.prior, str):
            return None, task.epsilon
        total = positive_epsilon(task.epsilon)
        from labeldp.learners.cluster_prior import default_clusters, default_epsilon

        clusters = default_clusters(task.records, task.domain.size)
        spent = float_above(min(positive_epsilon(default_epsilon(task.records, clusters)), total / 5))
        return spent, float_above(total - positive_epsilon(spent))

    def answer(self, task: Task, epsilon: float) -> FiniteMechanism:
        """Return what answers records of which nothing is known."""
        if task.domain.target != "classes":
            raise InputError("curator must hold classes: its domain is not Classes")
        return first_response(task.domain, epsilon, response=self.response, partition_seed=self.partition_seed)

    def answers(self, task: Task) -> Mapping[str, Mechanism]:
        """Return the one release of all labels, which every fit at this epsilon shares."""
        return {STAGE_1: self.answer(task, task.epsilon)} if self.at_once else {}

    def fit(
        self, features: Any, curator: CuratorLike, task: Task, *, rng: RandomSource, progress: Progress = no_progress
    ) -> Release[Model]:
        """See `fit_multistage`."""
        prior, (prior_epsilon, epsilon) = self.prior, self.shares(task)
        if prior_epsilon is not None:
            from labeldp.learners.cluster_prior import cluster_prior

            prior = cluster_prior(self.prior_features(features, task), curator, epsilon=prior_epsilon, rng=rng)
        features = row_table(features)
        check_rows(features, curator.records)
        if curator.domain.target != "classes":
            raise InputError("curator must hold classes: its domain is not Classes")
        temperature = self.temperature
        if temperature != "calibrated" and not (isinstance(temperature, float | int) and 0 < temperature < np.inf):
            raise InputError('temperature must be positive and finite, or "calibrated"')
        check_choice(self.response, "response", ("best", "randomized-response"))
        candidates = self.candidates(features, task)
        prior_table = None if prior is None else prior_rows(prior, curator.records, curator.domain.size)
        recipe = Training.of(self.training)
        weights = record_weights(task.weights, curator.records, candidates)
        options = (self.partition_seed, self.response, progress, weights)
        run = MultistageRun(features, curator.domain, epsilon, temperature, recipe, rng, prior_table, prior, *options)
        if any(map(run.drops_unlikely, candidates)):
            run = replace(run, response="randomized-response")
        stages, share, at_once = self.count, self.share(task), self.at_once
        _refuse_early(run, candidates, stages, share)
        if at_once and share:
            return _measured(run, curator, candidates, share)
        parts = assigned(curator, lambda count: _partition(count, stages, self.fractions, share, self.partition_seed))
        if np.count_nonzero(parts == 0) < 2:
            raise InputError(
                "labels must hold more records: the first stage needs two, as one is held out of the other"
            )
        fewest = _fewest(run, int(np.count_nonzero(parts == 0)), candidates, stages, at_once)
        made_up = RandomizedResponse(domain=curator.domain, epsilon=epsilon)
        dry_run(candidates, features, run.training, made_up, records=fewest)
        if not parts.any():
            model = run.run([(curator, np.arange(curator.records))], candidates, None, at_once)
            return with_initial_certificate(model, candidates[0])
        curators = curator.split(Public(parts, why=RANDOM_PARTS.format(seed=self.partition_seed)))
        holders = [(holder, np.flatnonzero(parts == number)) for number, holder in enumerate(curators)]
        held = holders[stages] if len(holders) > stages else None
        return with_initial_certificate(run.run(holders[:stages], candidates, held, False), candidates[0])

    def encoded(self, features: Any, task: Task) -> NDArray[Any]:
        """Return features as linear models encode them by default, shape (n, any)."""
        return np.asarray(encode(default_representation(features, task.categorical), features, None).table)

    def fit_simulated(self, features: NDArray[Any], curator: CuratorLike, task: Task, *, rng: RandomSource) -> Model:
        """Return a linear model from one release of all labels."""
        release = curator.release(first_response(curator.domain, task.epsilon), rng=rng)
        return fit_noisy(features, release, classifier=SoftmaxClassifier(FunctionTransformer())).value

    def words(self) -> str:
        """Return how many stages there are."""
        return "one stage" if self.count == 1 else f"{self.count} stages"

    def describe_noise(self, task: Task) -> str:
        """Return the probability of the true label, or of its class group."""
        epsilon = self.shares(task)[1]
        first = self.answer(task, epsilon)
        if self.count == 1 and self.prior is None:
            return first.describe_noise()
        # A record with a prior has fewer candidates, and keeps its label more often.
        classes = RandomizedResponse(domain=first.domain, epsilon=epsilon).describe_noise()
        classes = classes.removesuffix(".") + ", if every class is a candidate."
        if isinstance(first, RandomizedResponse):
            return classes
        return f"{classes} {first.describe_noise().replace('Each record', 'Each record without a prior', 1)}"


@final
@dataclass(frozen=True)
class Multistage(Staged):
    """Classifiers of scikit-learn, or noise-aware ones, of labels that are randomized one by one.

    Args:
        classifier: as in `fit_multistage`; None for the classifiers of its name, see `classifiers_of`.
    """

    classifier: Any = None
    simulation: ClassVar[str] = SIMULATED_LABELS

    @property
    def noise_aware(self) -> bool:
        """Whether the classifiers are."""
        classifiers = self.classifier if isinstance(self.classifier, list | tuple) else [self.classifier]
        return all(map(is_noise_aware, classifiers))

    def candidates(self, features: Any, task: Task) -> list[Any]:
        """Return the given classifiers, or the classifiers that the name stands for."""
        if self.classifier is None and self.name in MODELS:
            mask = np.zeros(features.shape[1], np.bool_) if task.categorical is None else task.categorical
            return classifiers_of(self.name, features, mask, task.domain.size)
        return as_candidates(self.classifier, features)

    def check(self, features: Any, task: Task) -> None:
        """Refuse before a cluster prior is released what would be refused after it."""
        if self.prior is not None:
            require_records("--prior clusters", task.records)
            response = RandomizedResponse(domain=task.domain, epsilon=self.shares(task)[1])
            dry_run(self.candidates(features, task), features, Training(), response)

    def prior_features(self, features: Any, task: Task) -> NDArray[Any]:
        """Return numbers, and an indicator for each category."""
        return features if task.categorical is None else indicators(features, task.categorical)

    def prepare_simulation(self, model: Model, features: NDArray[Any], task: Task) -> NDArray[Any]:
        """Return the widest directions of the features as linear models encode them: found once, not at each ε."""
        return principal(self.encoded(features, task), SIMULATED_DIRECTIONS)

    def refit(self, model: Model, features: NDArray[Any], release: Release[Any]) -> Model:
        """Return the chosen classifier, fitted again."""
        return fit_noisy(features, release, classifier=clone(chosen(model.estimator)), training="plain").value

    def describe(self, model: Model, task: Task) -> str:
        """Return the classifier that was chosen, and the stages."""
        return f"{model_words(chosen(model.estimator))}, learned in {self.words()}"


@final
@dataclass(frozen=True)
class SoftmaxStages(Staged):
    """A linear softmax of labels that are randomized one by one, fitted by their likelihood.

    Args:
        representation: as in `SoftmaxClassifier`.
    """

    temperature: float | Literal["calibrated"] = "calibrated"
    representation: Any = None
    one_thread: ClassVar[str] = "all"
    simulation: ClassVar[str] = SIMULATED_LABELS

    @property
    def noise_aware(self) -> bool:
        """It is."""
        return True

    def candidates(self, features: Any, task: Task) -> list[Any]:
        """Return the unfitted classifier."""
        default = self.representation or default_representation(features, task.categorical)
        return [SoftmaxClassifier(default)]

    def check(self, features: Any, task: Task) -> None:
        """Refuse features that nothing can be learned from, and too few records for the stages."""
        [classifier] = self.candidates(features, task)
        classifier.dry_run(features, task.domain.size)
        fewest = MIN_RECORDS * (self.count + 1)
        if task.records < fewest:
            raise InputError(f"{self.words()} and an evaluation need at least {fewest} records")

    def prior_features(self, features: Any, task: Task) -> NDArray[Any]:
        """Return what the representation makes of features."""
        return self.encoded(features, task)

    def prepare_simulation(self, model: Model, features: NDArray[Any], task: Task) -> NDArray[Any]:
        """Return the widest directions of the encoded features: found once, not at each epsilon."""
        return principal(model.estimator.head_.mapped(features), SIMULATED_DIRECTIONS)

    def describe(self, model: Model, task: Task) -> str:
        """Return the model and the stages."""
        features = described_features(model.estimator.head_.representation)
        return f"a linear model of {features}, learned from noisy labels in {self.words()}"


def chosen(estimator: Any) -> Any:
    """Return the form of a classifier that is fitted to classes."""
    return estimator.trees if isinstance(estimator, SoftTrees) else estimator


def _measured(run: "MultistageRun", curator: CuratorLike, candidates: list[Any], share: float) -> Release[Model]:
    """Release all labels at once, and learn from all but a share of the records, which the model is measured on."""
    held = held_out(curator, share, run.partition_seed)
    fewest = _fewest(run, int(np.count_nonzero(~held)), candidates, 1, False)
    if fewest < 1:
        raise InputError("labels must hold more records: the training part needs two, as one is held out of the other")
    made_up = RandomizedResponse(domain=curator.domain, epsilon=run.epsilon)
    dry_run(candidates, run.features, run.training, made_up, records=fewest)
    with released_anyway(candidates):
        release = curator.release(run.plain(), rng=run.rng, step=STAGE_1)
        model = release.map(
            lambda _: fit_and_measure(
                run.features, release, candidates, run.training, held, weights=run.weights, callback=run.progress
            )
        )
    return with_initial_certificate(model, candidates[0])


def first_response(
    domain: Domain, epsilon: float, *, response: Response = "best", partition_seed: int = 0
) -> FiniteMechanism:
    """Return what answers records of which nothing is known beforehand, as `fit_multistage` takes it.

    Args:
        domain: of the labels.
        epsilon: of each answer.
        response: "best" is `LocalHashing` where its answers tell more bits than those of randomized response.
        partition_seed: number that the public seed of the partitions follows from.
    """
    if response == "randomized-response" or best_groups(domain.size, epsilon) == domain.size:
        return RandomizedResponse(domain=domain, epsilon=epsilon)
    return LocalHashing(domain=domain, epsilon=epsilon, seed=public_seed(partition_seed))


_Part = tuple[CuratorLike, NDArray[np.intp]]


@dataclass(frozen=True)
class _State:
    """What is known after some stages: released labels, the rows of their records, and the model."""

    rows: NDArray[np.intp]
    evidence: Evidence
    guess: CrossFit
    model: Release[Model]
    releases: tuple[Release[Any], ...]
    temperature: float = 1.0


@dataclass(frozen=True)
class MultistageRun:
    """What all stages of a fit share, and their order."""

    features: Any
    domain: Classes
    epsilon: float
    temperature: float | Literal["calibrated"]
    training: Training
    rng: RandomSource
    prior_rows: Probabilities | None
    prior: Any
    partition_seed: int
    response: Response
    progress: Progress
    weights: NDArray[np.float64] | None

    def run(
        self, stages: list[_Part], candidates: list[Any], held: _Part | None, cross_validated: bool
    ) -> Release[Model]:
        """Run all stages, then the evaluation."""
        with released_anyway(candidates):
            state = self._first(*stages[0], candidates, cross_validated, len(stages))
            for number, (curator, rows) in enumerate(stages[1:], start=2):
                state = self._next(state, curator, rows, number, len(stages))
            if held is not None:
                return self._evaluated(state, *held)
            if cross_validated:
                probabilities = state.guess.probabilities
                assert probabilities is not None
                fold = state.guess.fold
                other = fold and (Model(self.domain, fold.estimator, fold.matrix), fold.rows)
                evaluation = evaluate(state.releases[-1], probabilities, CROSS_VALIDATED, stages[0][1], other)
                return state.model.map(lambda model: replace(model, evaluation=evaluation))
            return state.model

    def _first(
        self, curator: CuratorLike, rows: NDArray[np.intp], candidates: list[Any], always: bool, stages: int
    ) -> _State:
        """Run the first stage: plain randomized response, or one with the prior that was given."""
        prior = None if self.prior_rows is None else self.prior_rows[rows]
        release = curator.release(self.first(rows), rng=self.rng, step=STAGE_1)
        releases = (self.prior, release) if isinstance(self.prior, Release) else (release,)
        evidence, table = self._evidence(release, rows), take_rows(self.features, rows)
        guess = cross_fit(
            table, evidence, candidates, self.training, prior=prior, always=always, callback=self.progress
        )
        return self._state(1, stages, rows, evidence, guess, releases, None)

    def _next(self, state: _State, curator: CuratorLike, rows: NDArray[np.intp], stage: int, stages: int) -> _State:
        """Run a later stage: release labels with the last model as prior, and learn from all labels so far."""
        table = take_rows(self.features, rows)
        prior = state.model.map(lambda model: model.predict_proba(table))
        prior = prior.map(lambda probabilities: tempered(probabilities, state.temperature))
        mechanism = self._with_prior(prior)
        release = curator.release(mechanism, rng=self.rng, step=stage_name(stage))
        old, old_rows, guess = state.evidence, state.rows, replace(state.guess, fitted=None)
        if self.drops_unlikely(guess.classifier):
            inside = self._inside(state, release.mechanism)
            old, old_rows, guess = old.take(inside), old_rows[inside], guess.take(inside)
        if guess.probabilities is not None:
            guess = replace(guess, probabilities=np.concatenate([guess.probabilities, prior.value]))
        evidence = old.joined(self._evidence(release, rows))
        releases = (*state.releases, release)
        return self._state(stage, stages, np.concatenate([old_rows, rows]), evidence, guess, releases, state.model)

    def _evidence(self, release: Release[Any], rows: NDArray[np.intp]) -> Evidence:
        """Return what a release says of these records, with their weights in training."""
        return replace(Evidence.of(release), weights=None if self.weights is None else self.weights[rows])

    def drops_unlikely(self, classifier: Any) -> bool:
        """Return whether released labels are learned from as if they were true, so that unlikely ones are dropped."""
        if is_noise_aware(classifier):
            return bool(classifier.loss == "cross-entropy")
        return self.training.method == "plain"

    def _inside(self, state: _State, mechanism: Any) -> NDArray[np.intp]:
        """Return the earlier labels among the top classes of the last model, as many as this stage's sets hold."""
        size = int(np.rint(mechanism.sizes.mean()))
        ranked = state.model.value.predict_proba(take_rows(self.features, state.rows))
        order = np.argsort(-ranked, axis=1, kind="stable")[:, :size]
        codes = state.evidence.codes_for('training="plain"')
        return np.flatnonzero((order == codes[:, None]).any(axis=1))

    def _state(
        self,
        stage: int,
        stages: int,
        rows: NDArray[np.intp],
        evidence: Evidence,
        guess: CrossFit,
        releases: tuple[Release[Any], ...],
        last: Release[Model] | None,
    ) -> _State:
        """Learn from all labels so far, but for the newest ones that calibrate the model's temperature first."""
        size = len(releases[-1].value)
        waiting = self.waiting(size) if stage < stages else np.zeros(size, dtype=np.bool_)
        seen = np.flatnonzero(np.concatenate([np.ones(len(rows) - size, dtype=np.bool_), ~waiting]))
        table, part = take_rows(self.features, rows[seen]), guess.take(seen)
        # The first probabilities of later stages have seen few of the newest labels: one more round uses them.
        recipe = self.training if stage == 1 else replace(self.training, rounds=self.training.rounds + 1)
        start = None if last is None else last.value.estimator

        def build(*_: Any) -> Model:
            return learn(table, evidence.take(seen), part, recipe, self.domain, start=start, stage=stage)

        done = CROSS_FITTING + (1 - CROSS_FITTING) * (stage - 1) / stages
        self.progress(f"training: stage {stage} of {stages}", done)
        model = gather(releases, build)
        held = np.setdiff1d(np.arange(len(rows)), seen)
        best = self._calibrated(model.value, rows[held], evidence.take(held)) if len(held) else self.temperature
        return _State(rows, evidence, guess, model, releases, 1.0 if best == "calibrated" else float(best))

    def waiting(self, size: int) -> NDArray[np.bool_]:
        """Return which of the newest records are kept for calibration, by a public seed, shape (size,)."""
        if self.temperature != "calibrated":
            return np.zeros(size, dtype=np.bool_)
        waiting = np.random.default_rng(self.training.seed).random(size) < CALIBRATION_SHARE
        return waiting & ~waiting.all()  # of very few records some are learned from

    def _calibrated(self, model: Model, rows: NDArray[np.intp], evidence: Evidence) -> float:
        """Return the temperature that best explains released labels which the model has not seen."""
        probabilities = model.predict_proba(take_rows(self.features, rows))
        return float(max(TEMPERATURES.tolist(), key=lambda value: evidence.score(tempered(probabilities, value))))

    def _evaluated(self, state: _State, curator: CuratorLike, rows: NDArray[np.intp]) -> Release[Model]:
        release = curator.release(self.plain(), rng=self.rng, step="evaluation")
        table = take_rows(self.features, rows)

        def judge(model: Model, _: Any) -> Model:
            return replace(model, evaluation=evaluate(release, model.predict_proba(table), HELD_OUT, rows))

        return gather([state.model, release], judge)

    def first(self, rows: NDArray[np.intp]) -> FiniteMechanism:
        """Return what answers these records in the first stage."""
        if self.prior_rows is None:
            return self.plain()
        part = self.prior_rows[rows]
        is_released = isinstance(self.prior, Release)
        return self._with_prior(self.prior.map(lambda _: part) if is_released else Public(part, why=self.prior.why))

    def plain(self) -> FiniteMechanism:
        """Return what answers records of which nothing is known."""
        return first_response(self.domain, self.epsilon, response=self.response, partition_seed=self.partition_seed)

    def _with_prior(self, prior: Any) -> RandomizedResponseWithPrior:
        return RandomizedResponseWithPrior(domain=self.domain, epsilon=self.epsilon, prior=prior)


def _refuse_early(run: MultistageRun, candidates: list[Any], stages: Any, evaluation: float) -> None:
    """Refuse, before anything is charged, what could not be finished afterwards."""
    check_integer(stages, "stages")
    check_evaluation(evaluation)
    losses = [run.training.method, *(getattr(item, "loss", None) for item in candidates if is_noise_aware(item))]
    if "debiased" in losses and (stages != 1 or run.prior is not None):
        raise NotInvertibleError('"debiased" training needs one stage without a prior: other noise has no inverse')


def _fewest(run: MultistageRun, size: int, candidates: list[Any], stages: int, cross_validated: bool) -> int:
    """Return the smallest number of the first stage's records that a classifier learns from."""
    waiting = int(np.count_nonzero(run.waiting(size))) if stages > 1 else 0
    crossed = cross_validated or len(candidates) > 1 or run.training.method not in ("plain", "debiased")
    return size - max(waiting, -(-size // run.training.parts(size)) if crossed else 0)


def _partition(records: int, stages: int, fractions: Any, held: float, seed: int) -> NDArray[np.int64]:
    """Return the part of each record: 0 to stages - 1, then the evaluation part if there is one, shape (n,)."""
    shares = STAGE_SHARES.get(stages, (1 / stages,) * stages) if fractions is None else tuple(fractions)
    if len(shares) != stages or not all(share > 0 for share in shares) or abs(sum(shares) - 1) > 1e-9:
        raise InputError("fractions must be one positive share for each stage, sum 1")
    ends = np.rint(np.cumsum(shares) * (1 - held) * records).astype(np.int64)
    ends[-1] = records if held == 0 else ends[-1]
    sizes = np.diff([0, *ends.tolist()] + ([records] if held else []))
    if not np.all(sizes > 0):
        raise InputError("labels must hold more records: some stage, or the evaluation part, would be empty")
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    return np.random.default_rng(seed).permutation(numbers).astype(np.int64)


RANDOM_PARTS = "records are assigned at random from the public seed {seed}, without their labels"
"""Why the parts of a random split are public."""
