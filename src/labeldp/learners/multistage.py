"""Learning in stages: each stage's model says which answers the next labels may give."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from labeldp.learners.defaults import as_candidates
from labeldp.learners.evaluation import Evaluation
from labeldp.learners.evidence import Evidence
from labeldp.learners.features import check_rows
from labeldp.learners.model import Model
from labeldp.learners.probabilities import Probabilities, tempered
from labeldp.learners.training import (
    Guess,
    Method,
    Training,
    first_guess,
    learn,
    prior_rows,
    rehearse,
)
from labeldp.mechanisms import Classes, RandomizedResponse, RandomizedResponseWithPrior
from labeldp.privacy import CuratorLike, InputError, NotInvertibleError, Public, Release, gather

EVALUATION = 0.1
FRACTIONS = {1: (1.0,), 2: (0.55, 0.45), 3: (0.4, 0.3, 0.3)}
HELD_OUT = "the model, on records that it was not trained on"
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
    temperature: float = 1.0,
    prior: Release[Any] | Public[Any] | None = None,
    training: Training | Method = "posterior",
    partition_seed: int = 0,
    rng: Any,
) -> Release[Model]:
    """Learn a classifier from private labels, each of which is released once, with noise.

    One stage: plain randomized response for all. More: the records are split at random; the model of one stage is
    the prior of the next one's labels, which are then less noisy. An evaluation part is released by plain randomized
    response and never trained on, unless cross-validation on the released labels of one stage does.

    Args:
        features: public table or array, one row for each record, whatever the classifier accepts.
        curator: holds the labels.
        classifier: scikit-learn classifier with `predict_proba`, or several, of which the one that explains
            held-out released labels best is kept; by default `default_classifiers`, for numeric features.
        epsilon: of every label's one release. A prior that was released before costs its own on top.
        stages: 1, 2, …
        fractions: shares of the training records for each stage, sum 1; by default a little more than half first.
        evaluation: share of the records kept for evaluation, in [0, 1); unused for one stage without a prior.
        temperature: of the model's probabilities as a prior, positive; below 1 sharpens.
        prior: for the first stage, shape (n, K), such as `cluster_prior`.
        training: "posterior", "plain" (with which earlier labels outside a stage's top candidates are dropped, as
            in the paper), "reweighted", or `Training(...)`. The posterior needs no dropping: it weighs every label;
            stages after the first take one round more.
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
    check_rows(features, curator.records)
    if not isinstance(curator.domain, Classes):
        raise InputError("curator must hold classes: its domain is not Classes")
    if not 0 < temperature < np.inf:
        raise InputError("temperature must be positive and finite")
    candidates = as_candidates(classifier, features, curator.domain.size)
    rows = None if prior is None else prior_rows(prior, curator.records, curator.domain.size)
    plan = _Plan(features, curator.domain, epsilon, temperature, Training.of(training), rng, rows, prior)
    _refuse_early(plan, candidates, stages)
    share = _share(stages, evaluation, prior)
    parts = _partition(curator.records, stages, fractions, share, partition_seed)
    if not parts.any():
        return plan.run([(curator, np.arange(curator.records))], candidates, None, prior is None)
    why = f"records are assigned at random from the public seed {partition_seed}, without their labels"
    curators = curator.split(Public(parts, why=why))
    places = [(part, np.flatnonzero(parts == number)) for number, part in enumerate(curators)]
    return plan.run(places[:stages], candidates, places[stages] if len(places) > stages else None, False)


_Part = tuple[CuratorLike, NDArray[np.intp]]


@dataclass(frozen=True)
class _State:
    """What is known after some stages: the released labels, where they stand, and the model."""

    rows: NDArray[np.intp]
    evidence: Evidence
    guess: Guess
    model: Release[Model]
    releases: tuple[Release[Any], ...]


@dataclass(frozen=True)
class _Plan:
    """What all stages share."""

    features: Any
    domain: Classes
    epsilon: float
    temperature: float
    training: Training
    rng: Any
    prior_rows: Probabilities | None
    prior: Any

    def run(
        self, stages: list[_Part], candidates: list[Any], held: _Part | None, cross_validated: bool
    ) -> Release[Model]:
        """All stages, then the evaluation."""
        state = self._first(*stages[0], candidates, cross_validated)
        for number, (curator, rows) in enumerate(stages[1:], start=2):
            state = self._next(state, curator, rows, f"stage {number}")
        if held is not None:
            return self._evaluated(state, *held)
        if cross_validated:
            probabilities = state.guess.probabilities
            assert probabilities is not None
            seen = Evaluation(state.releases[-1], probabilities, CROSS_VALIDATED, stages[0][1])
            return state.model.map(lambda model: replace(model, evaluation=seen))
        return state.model

    def _first(self, curator: CuratorLike, rows: NDArray[np.intp], candidates: list[Any], always: bool) -> _State:
        """Plain randomized response, or one with the prior that was given."""
        known = None if self.prior_rows is None else self.prior_rows[rows]
        mechanism = self.plain() if known is None else self._with_prior(_rewrapped(self.prior, known))
        release = curator.release(mechanism, rng=self.rng, step="stage 1")
        releases = (self.prior, release) if isinstance(self.prior, Release) else (release,)
        evidence, table = Evidence.of(release), _safe_indexing(self.features, rows)
        guess = first_guess(table, evidence, candidates, self.training, prior=known, always=always)
        return self._state("stage 1", rows, evidence, guess, releases)

    def _next(self, state: _State, curator: CuratorLike, rows: NDArray[np.intp], step: str) -> _State:
        """Labels with the last model as prior; then a model of all labels so far."""
        table = _safe_indexing(self.features, rows)
        prior = state.model.map(lambda model: model.predict_proba(table))
        mechanism = self._with_prior(prior.map(lambda given: tempered(given, self.temperature)))
        release = curator.release(mechanism, rng=self.rng, step=step)
        old, old_rows, known = state.evidence, state.rows, state.guess.probabilities
        if self.training.method == "plain":
            kept = self._inside(state, release.mechanism)
            old, old_rows = old.take(kept), old_rows[kept]
        guess = (
            state.guess if known is None else replace(state.guess, probabilities=np.concatenate([known, prior.value]))
        )
        evidence = old.joined(Evidence.of(release))
        return self._state(step, np.concatenate([old_rows, rows]), evidence, guess, (*state.releases, release))

    def _inside(self, state: _State, mechanism: Any) -> NDArray[np.intp]:
        """Earlier labels among the classes that the last model ranks first, as many as this stage's mean set."""
        size = int(np.rint(mechanism.sizes.mean()))
        ranked = state.model.value.predict_proba(_safe_indexing(self.features, state.rows))
        order = np.argsort(-ranked, axis=1, kind="stable")[:, :size]
        return np.flatnonzero((order == state.evidence.codes[:, None]).any(axis=1))

    def _state(
        self, step: str, rows: NDArray[np.intp], evidence: Evidence, guess: Guess, releases: tuple[Release[Any], ...]
    ) -> _State:
        table = _safe_indexing(self.features, rows)
        # The first probabilities of later stages know little of the newest labels: one more round lets them in.
        recipe = self.training if step == "stage 1" else replace(self.training, rounds=self.training.rounds + 1)
        model = gather(releases, lambda *_: learn(table, evidence, guess, recipe, self.domain))
        return _State(rows, evidence, guess, model, releases)

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


def _refuse_early(plan: _Plan, candidates: list[Any], stages: int) -> None:
    """Refuse before anything is charged what could not be finished after it."""
    plan.plain()
    if plan.training.method == "debiased" and (stages != 1 or plan.prior is not None):
        raise NotInvertibleError('training="debiased" needs one stage without a prior: other noise has no inverse')
    rehearse(candidates, plan.features, plan.training, plan.domain.size)


def _rewrapped(prior: Any, rows: Probabilities) -> Any:
    """Some rows of a prior, as public or as released as all of it."""
    return prior.map(lambda _: rows) if isinstance(prior, Release) else Public(rows, why=prior.why)


def _share(stages: Any, evaluation: float, prior: Any) -> float:
    """The share of the evaluation part; none where cross-validation can do it."""
    if isinstance(stages, bool) or not isinstance(stages, int) or stages < 1:
        raise InputError("stages must be a positive integer")
    if not 0 <= evaluation < 1:
        raise InputError("evaluation must be a share of the records, in [0, 1)")
    return 0.0 if stages == 1 and prior is None else float(evaluation)


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
