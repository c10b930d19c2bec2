"""Fit_multistage, cluster_prior."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing

from labeldp.learners.classifiers import as_candidates
from labeldp.learners.evaluation import HELD_OUT, Evaluation
from labeldp.learners.evidence import FLOOR, Evidence, Probabilities, normalized, tempered
from labeldp.learners.features import check_rows, number_table, row_table
from labeldp.learners.model import Model
from labeldp.learners.training import (
    CrossFit,
    Method,
    Training,
    cross_fit,
    dry_run,
    is_noise_aware,
    learn,
    prior_rows,
    released_anyway,
    with_initial_certificate,
)
from labeldp.mechanisms import Classes, LaplaceHistogram, RandomizedResponse, RandomizedResponseWithPrior
from labeldp.privacy import (
    CuratorLike,
    InputError,
    NotInvertibleError,
    Public,
    RandomSource,
    Release,
    check_integer,
    float_below,
    gather,
    positive_epsilon,
)

EVALUATION = 0.1

CALIBRATION = 0.1
"""The share of a stage's records that calibrate the temperature of its model, and are learned from afterwards."""

TEMPERATURES = np.geomspace(0.25, 8.0, 21)

FRACTIONS = {1: (1.0,), 2: (0.55, 0.45), 3: (0.4, 0.3, 0.3)}

CROSS_VALIDATED = "models of cross-validation, each trained on the other folds"


def fit_multistage(
    features: Any,
    curator: CuratorLike,
    *,
    classifier: Any = None,
    epsilon: float,
    stages: int = 2,
    fractions: Sequence[float] | None = None,
    evaluation: float = EVALUATION,
    temperature: float | Literal["calibrated"] = 1.0,
    prior: Release[Any] | Public[Any] | None = None,
    training: Training | Method = "posterior",
    partition_seed: int = 0,
    rng: RandomSource,
) -> Release[Model]:
    """Learn a classifier from private labels, each of which is released once, with noise.

    One stage: plain randomized response for all. More: the records are split at random; the model of one stage is
    the prior of the next one's labels, which are then less noisy. An evaluation part is released by plain randomized
    response and never trained on, unless cross-validation on the released labels of one stage does.

    Args:
        features: public table or array, one row for each record, whatever the classifier accepts.
        curator: holds the labels.
        classifier: scikit-learn classifier with `predict_proba`, or several, of which the one that explains
            held-out released labels best is kept; by default `default_classifiers`, for numeric features. Or one that
            knows the noise itself, such as `labeldp.networks.NetworkClassifier`: each stage starts from the last one.
        epsilon: of every label's one release. A prior that was released before costs its own on top.
        stages: 1, 2, …
        fractions: shares of the training records for each stage, sum 1; by default a little more than half first.
        evaluation: share of the records kept for evaluation, in [0, 1); unused for one stage without a prior, except
            with a classifier that knows the noise.
        temperature: of the model's probabilities as a prior, positive; below 1 sharpens. "calibrated": the one that
            explains best the released labels of a tenth of the stage's records, which the model has not seen yet.
        prior: for the first stage, shape (n, K), such as `cluster_prior`.
        training: "posterior", "plain" (with which earlier labels outside a stage's top candidates are dropped, as
            in the paper), "reweighted", or `Training(...)`. The posterior needs no dropping: it weighs every label;
            stages after the first take one round more. A classifier that knows the noise has its own `loss` instead.
        partition_seed: of the random split. It may be public: the guarantee holds for every split that was
            fixed without the labels.
        rng: randomness of the noise.

    Returns:
        The model, with `model.evaluation`; its certificate holds every charge.

    Guarantee: epsilon-DP for each label, beside what the prior cost: every label is released once.

    Raises:
        InputError: an argument is wrong; nothing was charged.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 3 (LP-MST) and Algorithm 4.
    """
    features = row_table(features)
    check_rows(features, curator.records)
    if not isinstance(curator.domain, Classes):
        raise InputError("curator must hold classes: its domain is not Classes")
    if temperature != "calibrated" and not (isinstance(temperature, float | int) and 0 < temperature < np.inf):
        raise InputError('temperature must be positive and finite, or "calibrated"')
    candidates = as_candidates(classifier, features, curator.domain.size)
    rows = None if prior is None else prior_rows(prior, curator.records, curator.domain.size)
    plan = _Plan(features, curator.domain, epsilon, temperature, Training.of(training), rng, rows, prior)
    _refuse_early(plan, candidates, stages, evaluation)
    cross_validated = stages == 1 and prior is None and not is_noise_aware(candidates[0])
    share = 0.0 if cross_validated else evaluation
    parts = _partition(curator.records, stages, fractions, share, partition_seed)
    if np.count_nonzero(parts == 0) < 2:
        raise InputError("labels must hold more records: the first stage needs two, as one is held out of the other")
    fewest = _fewest(plan, int(np.count_nonzero(parts == 0)), candidates, stages, cross_validated)
    dry_run(candidates, features, plan.training, plan.plain(), records=fewest)
    if not parts.any():
        model = plan.run([(curator, np.arange(curator.records))], candidates, None, cross_validated)
        return with_initial_certificate(model, candidates[0])
    why = f"records are assigned at random from the public seed {partition_seed}, without their labels"
    curators = curator.split(Public(parts, why=why))
    places = [(part, np.flatnonzero(parts == number)) for number, part in enumerate(curators)]
    held = places[stages] if len(places) > stages else None
    return with_initial_certificate(plan.run(places[:stages], candidates, held, False), candidates[0])


_Part = tuple[CuratorLike, NDArray[np.intp]]


@dataclass(frozen=True)
class _State:
    """What is known after some stages: the released labels, where they stand, and the model."""

    rows: NDArray[np.intp]
    evidence: Evidence
    guess: CrossFit
    model: Release[Model]
    releases: tuple[Release[Any], ...]
    temperature: float = 1.0


@dataclass(frozen=True)
class _Plan:
    """What all stages share."""

    features: Any
    domain: Classes
    epsilon: float
    temperature: float | Literal["calibrated"]
    training: Training
    rng: RandomSource
    prior_rows: Probabilities | None
    prior: Any

    def run(
        self, stages: list[_Part], candidates: list[Any], held: _Part | None, cross_validated: bool
    ) -> Release[Model]:
        """All stages, then the evaluation."""
        with released_anyway(candidates):
            return self._run(stages, candidates, held, cross_validated)

    def _run(
        self, stages: list[_Part], candidates: list[Any], held: _Part | None, cross_validated: bool
    ) -> Release[Model]:
        state = self._first(*stages[0], candidates, cross_validated, len(stages))
        for number, (curator, rows) in enumerate(stages[1:], start=2):
            state = self._next(state, curator, rows, number, len(stages))
        if held is not None:
            return self._evaluated(state, *held)
        if cross_validated:
            probabilities = state.guess.probabilities
            assert probabilities is not None
            seen = Evaluation(state.releases[-1], probabilities, CROSS_VALIDATED, stages[0][1])
            return state.model.map(lambda model: replace(model, evaluation=seen))
        return state.model

    def _first(
        self, curator: CuratorLike, rows: NDArray[np.intp], candidates: list[Any], always: bool, stages: int
    ) -> _State:
        """Plain randomized response, or one with the prior that was given."""
        known = None if self.prior_rows is None else self.prior_rows[rows]
        mechanism = self.plain() if known is None else self._with_prior(_rewrapped(self.prior, known))
        release = curator.release(mechanism, rng=self.rng, step="stage 1")
        releases = (self.prior, release) if isinstance(self.prior, Release) else (release,)
        evidence, table = Evidence.of(release), _safe_indexing(self.features, rows)
        guess = cross_fit(table, evidence, candidates, self.training, prior=known, always=always)
        return self._state(1, stages, rows, evidence, guess, releases, None)

    def _next(self, state: _State, curator: CuratorLike, rows: NDArray[np.intp], stage: int, stages: int) -> _State:
        """Labels with the last model as prior; then a model of all labels so far."""
        table = _safe_indexing(self.features, rows)
        prior = state.model.map(lambda model: model.predict_proba(table))
        prior = prior.map(lambda given: tempered(given, state.temperature))
        mechanism = self._with_prior(prior)
        release = curator.release(mechanism, rng=self.rng, step=f"stage {stage}")
        old, old_rows, known = state.evidence, state.rows, state.guess.probabilities
        if self._takes_for_true(state.guess.classifier):
            kept = self._inside(state, release.mechanism)
            old, old_rows, known = old.take(kept), old_rows[kept], None if known is None else known[kept]
        guess = (
            state.guess if known is None else replace(state.guess, probabilities=np.concatenate([known, prior.value]))
        )
        evidence = old.joined(Evidence.of(release))
        releases = (*state.releases, release)
        return self._state(stage, stages, np.concatenate([old_rows, rows]), evidence, guess, releases, state.model)

    def _takes_for_true(self, classifier: Any) -> bool:
        """Whether released labels are learned from as if they were true: then unlikely ones are dropped."""
        if is_noise_aware(classifier):
            return bool(classifier.loss == "cross-entropy")
        return self.training.method == "plain"

    def _inside(self, state: _State, mechanism: Any) -> NDArray[np.intp]:
        """Earlier labels among the classes that the last model ranks first, as many as this stage's mean set."""
        size = int(np.rint(mechanism.sizes.mean()))
        ranked = state.model.value.predict_proba(_safe_indexing(self.features, state.rows))
        order = np.argsort(-ranked, axis=1, kind="stable")[:, :size]
        return np.flatnonzero((order == state.evidence.codes[:, None]).any(axis=1))

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
        """A model of all labels so far; but where it is to be calibrated, some of the newest ones wait for the next."""
        size = len(releases[-1].value)
        waiting = self.waiting(size) if stage < stages else np.zeros(size, dtype=np.bool_)
        seen = np.flatnonzero(np.concatenate([np.ones(len(rows) - size, dtype=np.bool_), ~waiting]))
        table, known = _safe_indexing(self.features, rows[seen]), guess.probabilities
        part = CrossFit(guess.classifier, None if known is None else known[seen])
        # The first probabilities of later stages know little of the newest labels: one more round lets them in.
        recipe = self.training if stage == 1 else replace(self.training, rounds=self.training.rounds + 1)
        start = None if last is None else last.value.estimator

        def build(*_: Any) -> Model:
            return learn(table, evidence.take(seen), part, recipe, self.domain, start=start, stage=stage)

        model = gather(releases, build)
        held = np.setdiff1d(np.arange(len(rows)), seen)
        best = self._calibrated(model.value, rows[held], evidence.take(held)) if len(held) else self.temperature
        return _State(rows, evidence, guess, model, releases, 1.0 if best == "calibrated" else float(best))

    def waiting(self, size: int) -> NDArray[np.bool_]:
        """The newest records that are kept for calibration, chosen at random from a public seed, shape (size,)."""
        if self.temperature != "calibrated":
            return np.zeros(size, dtype=np.bool_)
        waiting = np.random.default_rng(self.training.seed).random(size) < CALIBRATION
        return waiting & ~waiting.all()  # of very few records some are learned from

    def _calibrated(self, model: Model, rows: NDArray[np.intp], evidence: Evidence) -> float:
        """The temperature that explains released labels best which the model has not seen."""
        given = model.predict_proba(_safe_indexing(self.features, rows))
        return float(max(TEMPERATURES.tolist(), key=lambda each: evidence.score(tempered(given, each))))

    def _evaluated(self, state: _State, curator: CuratorLike, rows: NDArray[np.intp]) -> Release[Model]:
        release = curator.release(self.plain(), rng=self.rng, step="evaluation")
        table = _safe_indexing(self.features, rows)

        def judge(model: Model, _: Any) -> Model:
            return replace(model, evaluation=Evaluation(release, model.predict_proba(table), HELD_OUT, rows))

        return gather([state.model, release], judge)

    def plain(self) -> RandomizedResponse:
        """What answers records of which nothing is known."""
        return RandomizedResponse(domain=self.domain, epsilon=self.epsilon)

    def _with_prior(self, prior: Any) -> RandomizedResponseWithPrior:
        return RandomizedResponseWithPrior(domain=self.domain, epsilon=self.epsilon, prior=prior)


def _refuse_early(plan: _Plan, candidates: list[Any], stages: Any, evaluation: float) -> None:
    """Refuse before anything is charged what could not be finished after it."""
    check_integer(stages, "stages")
    if not 0 <= evaluation < 1:
        raise InputError("evaluation must be a share of the records, in [0, 1)")
    losses = plan.training.method, *(getattr(each, "loss", None) for each in candidates if is_noise_aware(each))
    if "debiased" in losses and (stages != 1 or plan.prior is not None):
        raise NotInvertibleError('"debiased" training needs one stage without a prior: other noise has no inverse')


def _fewest(plan: _Plan, size: int, candidates: list[Any], stages: int, cross_validated: bool) -> int:
    """From how many of the first stage's records a classifier learns when it learns from the fewest."""
    waiting = int(np.count_nonzero(plan.waiting(size))) if stages > 1 else 0
    crossed = cross_validated or len(candidates) > 1 or plan.training.method not in ("plain", "debiased")
    return size - max(waiting, -(-size // min(plan.training.folds, size)) if crossed else 0)


def _rewrapped(prior: Any, rows: Probabilities) -> Any:
    """Some rows of a prior, as public or as released as all of it."""
    return prior.map(lambda _: rows) if isinstance(prior, Release) else Public(rows, why=prior.why)


def _partition(records: int, stages: int, fractions: Any, held: float, seed: int) -> NDArray[np.int64]:
    """The part of each record: 0 to stages - 1, then the evaluation part where there is one, shape (n,)."""
    shares = FRACTIONS.get(stages, (1 / stages,) * stages) if fractions is None else tuple(fractions)
    if len(shares) != stages or not all(share > 0 for share in shares) or abs(sum(shares) - 1) > 1e-9:
        raise InputError("fractions must be one positive share for each stage, sum 1")
    ends = np.rint(np.cumsum(shares) * (1 - held) * records).astype(np.int64)
    ends[-1] = records if held == 0 else ends[-1]
    sizes = np.diff([0, *ends.tolist()] + ([records] if held else []))
    if not np.all(sizes > 0):
        raise InputError("labels must hold more records: some stage, or the evaluation part, would be empty")
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    return np.random.default_rng(seed).permutation(numbers).astype(np.int64)


DIMENSIONS = 20

RECORDS_PER_CLUSTER = 50


def cluster_prior(
    features: Any,
    curator: CuratorLike,
    *,
    clusters: int | None = None,
    clusterings: int = 1,
    epsilon: float | None = None,
    rng: RandomSource,
    seed: int = 0,
) -> Release[Probabilities]:
    """Class probabilities for each record from the noisy class counts of its cluster.

    Use it as the `prior` of `fit_multistage` where clusters of the features say much about the label. Its cost
    comes on top of the epsilon of that training, which uses the same labels again. Several clusterings share the
    epsilon: worth it where clusters are large enough for a part of it, as with 400 records and epsilon = 0.3; below,
    one clustering with fewer clusters is better.

    Args:
        features: numbers, shape (n, d), NaN counted as the mean; category codes should be indicators. Or an embedding
            that no private label had a say in, as it is: columns are scaled, which would spoil principal components.
        curator: holds the n labels.
        clusters: how many in each clustering; from n and K by default.
        clusterings: how many, with seeds that follow each other. Their class shares are joined by a geometric mean,
            the best of three rules on made-up records (`docs/results/representations.md`).
        epsilon: spent on all counts together; from n and the number of clusters by default.
        rng: randomness of the noise.
        seed: of the first clustering, public.

    Returns:
        Prior, shape (n, K); uniform in a cluster whose noisy counts show nothing.

    Guarantee: epsilon-DP for each label; clusters depend on the features alone.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: the budget does not admit all clusterings; nothing was charged.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 4.
    """
    check_rows(features, curator.records)
    classes = curator.domain.size
    count = default_clusters(curator.records, classes) if clusters is None else clusters
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= curator.records:
        raise InputError("clusters must be an integer from 1 to the number of records")
    clusterings = check_integer(clusterings, "clusterings")
    spent = default_epsilon(curator.records, int(count)) if epsilon is None else epsilon
    part = float_below(positive_epsilon(spent) / clusterings)
    why = "k-means on the public features, with a public seed"
    plain = (clusters, clusterings, seed) == (None, 1, 0)
    mechanisms = {}
    for each in range(seed, seed + clusterings):
        groups = Public(feature_clusters(features, int(count), each), why=why)
        step = "cluster prior" if plain else f"cluster prior of {count}, seed {each}"
        mechanisms[step] = LaplaceHistogram(domain=curator.domain, epsilon=part, groups=groups)
    curator.require({step: mechanism.privacy_loss() for step, mechanism in mechanisms.items()})
    releases = [curator.release(mechanism, rng=rng, step=step) for step, mechanism in mechanisms.items()]
    places = [release.mechanism.arrays() for release in releases]
    return gather(releases, lambda *counts: _joined([_shares(c)[at] for c, at in zip(counts, places, strict=True)]))


def _shares(counts: NDArray[Any]) -> Probabilities:
    """Class shares of each cluster, shape (clusters, K); uniform where no count is positive."""
    return normalized(np.maximum(counts, 0))


def _joined(shares: list[Probabilities]) -> Probabilities:
    """The geometric mean of several opinions about each record, of which none may exclude a class; one stays as it is.

    Their sum keeps what noise is in each; their product takes opinions of the same labels for independent ones.
    """
    if len(shares) == 1:
        return shares[0]
    logarithms = sum(np.log(np.maximum(each, FLOOR)) for each in shares) / len(shares)
    return normalized(np.exp(logarithms))


def default_clusters(records: int, classes: int) -> int:
    """How many clusters: about 50 records in each, at most 100, at least two for each class where n allows."""
    return int(np.clip(records // RECORDS_PER_CLUSTER, min(2 * classes, max(records // 10, 1)), 100))


def default_epsilon(records: int, clusters: int) -> float:
    """The epsilon at which noise moves a class share of an average cluster by about a tenth: 25 over its records.

    Two decimals, at least 0.01 and at most 0.2.
    """
    return float(np.clip(ceil(2500 * clusters / records) / 100, 0.01, 0.2))


def feature_clusters(features: Any, clusters: int, seed: int) -> NDArray[np.int64]:
    """k-means clusters 0 to clusters - 1 of scaled features, at most 20 principal components, shape (n,)."""
    table = np.asarray(number_table(features), dtype=np.float64)
    scaled = np.nan_to_num(StandardScaler().fit_transform(table))
    if min(scaled.shape) > DIMENSIONS:
        scaled = PCA(DIMENSIONS, random_state=seed).fit_transform(scaled)
    means = MiniBatchKMeans(clusters, random_state=seed, n_init=3, batch_size=4096)
    return means.fit_predict(scaled).astype(np.int64)
