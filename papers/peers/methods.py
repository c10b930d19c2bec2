"""The methods of other papers, each small, with the mechanisms of this library; and our own defaults beside them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import FunctionTransformer

from labeldp.bags import NoisyWeightedLLP, fit_bags, random_bags
from labeldp.curator import Curator, Ledger
from labeldp.learners import (
    Evidence,
    LinearTask,
    first_response,
    fit_linear,
    fit_noisy,
    fit_numbers,
    imported,
    label_head,
)
from labeldp.mechanisms import (
    DiscreteLaplace,
    GaussianMoment,
    LaplaceHistogram,
    RandomizedResponse,
    ResponseOnBins,
    UnaryEncoding,
    UnbiasedNumbers,
    debias,
)
from labeldp.privacy import Budget, Floats, Public, Release, gather
from papers.peers.footing import FACTORS, Footing
from papers.peers.priors import number_prior

Rng = np.random.Generator
Outcome = Release[Floats]
"""Scores (t, K) or numbers (t,) of test records, with the certificate of what they were learned from."""

Learn = Callable[[Footing, float, float, Rng], Outcome]

POSTERIOR_ROUNDS = 3
"""How often ALIBI's posterior is computed under the model of the round before."""

CLUSTERS = 100
"""Clusters of the features, for cluster resampling."""

TAUGHT = 50
"""Records of one of PATE's teachers, who have disjoint parts."""

QUERIES = (32, 64, 128, 256, 512)
"""Records that PATE's teachers are asked about: the most whose noise is at most a quarter of the teachers."""

NEIGHBORS, SPREADS = 10, 30
"""Of each record in the graph that answers spread over for PATE's student, and how often they do."""

BAG = 16
"""Records in a bag of weighted LLP."""

FIRST = 0.1
"""The share of the records that the prior of RR-on-bins rests on."""


def constants() -> dict[str, Any]:
    """Return what this file fixes for every run."""
    names = ("POSTERIOR_ROUNDS", "CLUSTERS", "TAUGHT", "QUERIES", "NEIGHBORS", "SPREADS", "BAG", "FIRST")
    return {name: globals()[name] for name in names}


def response(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Learn from randomized response by cross-entropy, as if answers were labels."""
    release = holder(side, epsilon).release(RandomizedResponse(domain=side.domain, epsilon=epsilon), rng=rng)
    return release.map(lambda noisy: side.scores(side.one_hot(noisy)))


def alibi(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Learn from indicators with Laplace noise: cross-entropy of their posterior under the model so far.

    Laplace noise of scale 2 / epsilon on an indicator is post-processing of unary bits: see `blurred`.

    Source: Malek, Section 4 (ALIBI).
    """
    release = holder(side, epsilon).release(UnaryEncoding(domain=side.domain, epsilon=epsilon), rng=rng)

    def learn(noisy: Any) -> Floats:
        bits = release.mechanism.named(noisy)
        return _by_posterior(side, np.exp(epsilon / 2 * (2 * blurred(bits, epsilon / 2, rng) - 1)))

    return release.map(learn)


def blurred(bits: Any, rate: float, rng: Rng) -> Floats:
    """Return the indicators with Laplace noise that unary bits stand for, cut to [0, 1], shape of the bits.

    For an indicator t, let b be t with probability e^rate / (e^rate + 1), else 1 - t. What is drawn here given b has
    the law of t plus Laplace noise of this rate, cut to [0, 1]; beyond the ends all values say the same of t.

    Args:
        bits: randomized bits.
        rate: their epsilon, and 1 / scale of the noise.
        rng: of the blur, which needs no secret: it sees no label.
    """
    uniform = rng.random(np.shape(bits))
    inside = np.arccosh(1 + np.minimum(uniform, -math.expm1(-rate) / 2) * math.expm1(rate)) / rate
    own = np.where(uniform > -math.expm1(-rate) / 2, 1.0, inside)
    return np.where(bits, own, 1 - own)


def _by_posterior(side: Footing, likelihood: Floats) -> Floats:
    evidence = Evidence(None, likelihood, None)
    prior: Floats = np.full(likelihood.shape, 1 / side.classes)
    factor = side.best_factor(evidence.posterior(prior))
    for _ in range(POSTERIOR_ROUNDS):
        weights = side.softmax(evidence.posterior(prior), factor)
        prior = softmax(side.rows @ weights, axis=1)
    return np.asarray(side.test_rows @ weights)


def vlp(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Learn each unary bit by a logistic regression of its own; the class is the one of the largest score.

    Source: ZhaoVector.
    """
    release = holder(side, epsilon).release(UnaryEncoding(domain=side.domain, epsilon=epsilon), rng=rng)

    def learn(noisy: Any) -> Floats:
        bits = release.mechanism.named(noisy).astype(np.float64)
        pairs = [np.column_stack([1 - bit, bit]) for bit in bits.T]
        factor = side.best_factor(pairs[0])
        both = [side.scores(pair, factor) for pair in pairs]
        return np.column_stack([scores[:, 1] - scores[:, 0] for scores in both])

    return release.map(learn)


def consensus(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Learn from randomized response, then again from the records whose answer is what the model predicts.

    Source: Das, with models that did not see the record's own answer.
    """
    release = holder(side, epsilon).release(RandomizedResponse(domain=side.domain, epsilon=epsilon), rng=rng)
    scale, learners = np.sqrt(side.signal), [_logistic(factor) for factor in FACTORS]
    model = fit_noisy(side.rows * scale, release, classifier=learners, training="consensus")
    return model.map(lambda found: np.asarray(found.predict_proba(side.test_rows * scale)))


def _logistic(factor: float = 1.0) -> LogisticRegression:
    """Return the learner of `Footing.softmax` for rows that are scaled by the roots of `signal`."""
    return LogisticRegression(C=1 / factor, fit_intercept=False, max_iter=2000)


def resampling(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Draw each label anew from the noisy class shares of its cluster of features, and learn by cross-entropy.

    Source: EsfandiariClusters.
    """
    count = min(CLUSTERS, len(side.columns) // 10)
    groups = MiniBatchKMeans(count, random_state=0, n_init=3, batch_size=4096).fit_predict(side.columns)
    public = Public(groups.astype(np.int64), why="k-means on the public features, with a public seed")
    release = holder(side, epsilon).release(
        LaplaceHistogram(domain=side.domain, epsilon=epsilon, groups=public), rng=rng
    )

    def learn(counts: Any) -> Floats:
        positive = np.maximum(counts, 0) + 1e-9
        upper = np.cumsum(positive / positive.sum(axis=1, keepdims=True), axis=1)
        drawn = (rng.random(len(groups))[:, None] > upper[groups]).sum(axis=1)
        return side.scores(side.one_hot(np.minimum(drawn, side.classes - 1)))

    return release.map(learn)


def pate(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Teach a semi-supervised student by the noisy votes of teachers on disjoint parts of the records.

    A label moves the votes of one teacher, so each question is a sum over teachers with Gaussian noise, and all
    questions together cost (epsilon, delta), whatever the votes are.

    Source: Papernot, and Malek, Section 3 (PATE-FM), with a graph of neighbors in the place of FixMatch.
    """
    teachers = len(side.columns) // TAUGHT
    parts = np.random.default_rng(0).permutation(len(side.columns)) % teachers
    task = LinearTask.of(side.domain, epsilon, delta)
    why = "each teacher learns from one public part of the records, so that a label moves the votes of one teacher"
    each = Public(np.ones((teachers, 1)), why=why)
    fitting = [count for count in QUERIES if _vote_noise(task, count, each) <= teachers / 4]
    queries = np.random.default_rng(1).permutation(len(side.columns))[: max(fitting, default=QUERIES[0])]
    votes = np.stack([_teach(side, parts == part, side.rows[queries]) for part in range(teachers)])
    shared = task.shared(len(queries))
    ledger, mechanism = Ledger(Budget(epsilon, delta), name="votes"), shared.mechanism(each, 1.0)
    curators = [Curator(side.domain.decode(column), domain=side.domain, ledger=ledger) for column in votes.T]
    curators[0].require({f"question {number}": mechanism for number in range(len(curators))})
    answers = [curator.release(mechanism, rng=rng) for curator in curators]

    def learn(*sums: Any) -> Floats:
        given = np.zeros((len(side.columns), side.classes))
        given[queries] = side.one_hot([noisy[0].argmax() for noisy in sums])
        return side.scores(spread(side.columns, given), 1.0)

    return gather(answers, learn)


def spread(columns: Floats, given: Floats) -> Floats:
    """Return soft labels for all records: those of a few records, spread over a graph of nearest neighbors, (n, K).

    Args:
        columns: features, shape (n, d).
        given: class indicators of the few, zeros for the others, shape (n, K).
    """
    graph = kneighbors_graph(columns, NEIGHBORS)
    graph = graph.maximum(graph.T)
    degrees = np.asarray(graph.sum(axis=1))
    soft = given
    for _ in range(SPREADS):
        soft = 0.9 * (graph @ soft) / degrees + 0.1 * given
    total = soft.sum(axis=1, keepdims=True)
    return np.where(total > 0, soft / np.where(total > 0, total, 1), 1 / given.shape[1])


def _vote_noise(task: LinearTask, queries: int, each: Public[Any]) -> float:
    return task.shared(queries).mechanism(each, 1.0).noise_stddev


def _teach(side: Footing, part: Any, asked: Floats) -> Any:
    """Return what a teacher who learned from some of the labels answers, shape (queries,)."""
    codes = side.domain.encode(side.labels[part])
    return (asked @ side.softmax(side.one_hot(codes), 1.0, side.rows[part])).argmax(axis=1)


def walr(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Put noisy sums of rows times labels in the place of true ones in the gradient of logistic regression.

    Rows are cut to the root of their mean square norm, and the penalty is as large as the noise of a sum.

    Source: YuanLazarsfeld.
    """
    clip = math.sqrt(side.rows.shape[1])
    rows = Public(side.rows, why="principal directions of public features")
    mechanism = GaussianMoment(domain=side.domain, epsilon=epsilon, delta=delta, features=rows, clip=clip)
    release = holder(side, epsilon, delta).release(mechanism, rng=rng)
    ridge = release.mechanism.noise_stddev

    def learn(noisy: Any) -> Floats:
        return side.test_rows @ fit_walr(release.mechanism.values(), release.mechanism.moment(noisy), ridge)

    return release.map(learn)


def label_sgd(side: Footing, epsilon: float, delta: float, rng: Rng, project: bool = False) -> Outcome:
    """Take gradient steps whose noise is on what labels choose alone, from zero weights.

    Rows are cut to norm one. A step is as long as the largest curvature of the mean loss allows.
    """
    torch_room, scale = imported("labeldp.networks"), np.sqrt(side.signal)
    rows, tested = (_within_one(each * scale) for each in (side.rows, side.test_rows))
    curvature = float(np.linalg.norm(rows, ord=2)) ** 2 / len(rows) / 2
    module = torch_room.linear_module(rows.shape[1], side.classes)
    model = torch_room.fit_descent(
        rows,
        holder(side, epsilon, delta),
        module=Public(module, why="zeros"),
        epsilon=epsilon,
        delta=delta,
        rng=rng,
        rate=1 / curvature,
        project=project,
    )
    return model.map(lambda found: np.asarray(found.predict_proba(tested)))


def projections(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Take the steps of `label_sgd`, each projected to what labels of other records could make of it.

    Source: Huang.
    """
    return label_sgd(side, epsilon, delta, rng, project=True)


def _within_one(rows: Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norms, 1))


def fit_walr(rows: Floats, moment: Floats, ridge: float) -> Floats:
    """Return the coefficients that minimize Σ log Z - ⟨W, M⟩ + ridge/2 |W|², shape (d, K).

    Source: YuanLazarsfeld.
    """

    def objective(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(moment.shape)
        scores = rows @ weights
        value = logsumexp(scores, axis=1).sum() - np.sum(weights * moment) + ridge / 2 * np.sum(weights**2)
        return value, (rows.T @ softmax(scores, axis=1) - moment + ridge * weights).ravel()

    found = minimize(objective, np.zeros(moment.size), jac=True, method="L-BFGS-B")
    return np.asarray(found.x.reshape(moment.shape))


def own_local(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Learn by the likelihood of what our default asks for: groups of classes where they tell more bits."""
    release = holder(side, epsilon).release(first_response(side.domain, epsilon), rng=rng)
    evidence = Evidence.of(release)
    return release.map(
        lambda _: label_head(side.columns, evidence, representation=_as_they_are()).classifier.predict_proba(side.test)
    )


def own_central(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Learn by `fit_linear` at its defaults."""
    curator = holder(side, epsilon, delta)
    model = fit_linear(side.columns, curator, epsilon=epsilon, delta=delta, rng=rng, representation=_as_they_are())
    if side.metric == "accuracy":
        return model.map(lambda found: np.asarray(found.predict_proba(side.test)))
    return model.map(lambda found: np.asarray(found.predict(side.test)))


def _as_they_are() -> FunctionTransformer:
    return FunctionTransformer()


def laplace(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Learn numbers with Laplace noise by a ridge regression."""
    release = holder(side, epsilon).release(DiscreteLaplace(domain=side.domain, epsilon=epsilon), rng=rng)
    return release.map(lambda noisy: side.numbers(debias(release.mechanism, noisy).values))


def bins(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Learn the values of bins that randomized response answered by a ridge regression, as if they were the numbers.

    The prior that cuts the bins comes from a tenth of the records, answered at the same epsilon.

    Source: GhaziBins.
    """
    first = np.arange(len(side.labels)) < FIRST * len(side.labels)  # records are in a random public order
    why = "the first records of a public order"
    few, others = holder(side, epsilon).split(Public(np.where(first, 0, 1), why=why))
    begun = few.release(UnbiasedNumbers(domain=side.domain, epsilon=epsilon), rng=rng)
    mechanism = ResponseOnBins(domain=side.domain, epsilon=epsilon, prior=number_prior([begun]))
    release = others.release(mechanism, rng=rng)
    return release.map(lambda noisy: side.numbers(release.mechanism.values(noisy), ~first))


def weighted(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Learn from sums over random bags with Gaussian weights, noise on all labels, by least squares.

    Source: Brahmbhatt, Fig. 2, with as little noise as (epsilon, delta) needs.
    """
    drawn = random_bags(len(side.labels), BAG, seed=0)
    mechanism = NoisyWeightedLLP.calibrated(
        BAG, epsilon=epsilon, delta=delta, domain=side.domain, bags=drawn, weights="gaussian"
    )
    release = holder(side, epsilon, delta).release(mechanism, rng=rng)
    columns = side.rows[:, 1:]
    model = fit_bags(columns, release, ridge=1.0)
    return model.map(lambda found: np.asarray(found.predict(side.test_rows[:, 1:])))


def own_numbers(side: Footing, epsilon: float, delta: float, rng: Rng) -> Outcome:
    """Learn by `fit_numbers` at its defaults."""
    model = fit_numbers(side.columns, holder(side, epsilon), epsilon=epsilon, rng=rng)
    return model.map(lambda found: np.asarray(found.predict(side.test)))


def labels_themselves(side: Footing) -> Floats:
    """Return what the same learner makes of the labels themselves: no method can be expected to do better."""
    if side.metric == "RMSE":
        return side.numbers(side.labels)
    return side.scores(side.one_hot(side.domain.encode(side.labels)))


def holder(side: Footing, epsilon: float, delta: float = 0.0) -> Curator:
    """Return a curator of the training labels whose budget is what a method may spend."""
    return Curator(side.labels, domain=side.domain, budget=Budget(epsilon, delta))
