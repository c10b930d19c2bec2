"""What every version is asked for in Python: the same requests find again what an older one released.

A request that stands here is part of the files of the versions beside: change none, add new ones.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import labeldp as ldp
from labeldp.learners import SoftmaxRegression
from labeldp.privacy import Charge

LEDGER = "python.ledger"
BUDGET = ldp.Budget(epsilon=1000, delta=0.5)
ROWS = 60
CLAIM = "going on from a snapshot"
"""The mechanism of a mark that costs nothing."""

PLACES = np.arange(ROWS)
FEATURES = np.column_stack([PLACES * 37 % 11, PLACES * 17 % 7, PLACES % 3 == 0]).astype(float)
"""Whole numbers: their sums are the same on every machine."""

THREE, FOUR, WORDS = ldp.Classes(3), ldp.Classes(4), ldp.Classes(("no", "yes"))
SIX, BITS, CLIPPED = ldp.Interval(-1, 1, grid=6), ldp.Interval(0, 1, grid=2), ldp.Interval(0, 50, clip=True)
LABELS: dict[Any, Any] = {
    THREE: PLACES % 3,
    FOUR: PLACES * 7 % 4,
    WORDS: np.where(PLACES * 5 % 8 > 2, "yes", "no"),
    SIX: (PLACES * 5 % 6) * 0.4 - 1,
    BITS: (PLACES * 3 % 5 > 1).astype(float),
    CLIPPED: PLACES * 1.0,
}
"""The labels that each domain is asked about."""


def public(values: Any) -> ldp.Public[Any]:
    """An array that no label went into."""
    return ldp.Public(np.asarray(values), why="written by hand for the files of a version")


X, GROUPS, HALVES = public(FEATURES), public(PLACES % 5), public(PLACES % 2)
PRIOR = public(np.array([[0.7, 0.2, 0.1], [0.34, 0.33, 0.33], [0.1, 0.45, 0.45]])[PLACES % 3])
OTHER_PRIOR = public(np.array([[0.1, 0.8, 0.1], [0.25, 0.25, 0.5]])[PLACES % 2])
CLASS_PRIOR = public([0.1, 0.4, 0.2, 0.3])
NUMBER_IDS, TEXT_IDS = PLACES * 13 % 61 + 1000, [f"person {place * 13 % 61}" for place in PLACES]


@dataclass(frozen=True)
class Asked:
    """One request of a curator.

    Args:
        domain: of `LABELS`.
        mechanism: made of the curator that is asked.
        dataset: its name in the ledger.
        curator: further arguments of the curator: ids, run.
        options: of the release: step.
        revision: of the labels, which then are `later` ones.
        parts: splits and the part of each that is asked.
        keyed: whether the noise is the ledger's own.
    """

    domain: Any
    mechanism: Callable[[ldp.Curator], Any]
    dataset: str = ""
    curator: tuple[tuple[str, Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    revision: str | None = None
    parts: tuple[tuple[Any, int], ...] = ()
    keyed: bool = False


def response(epsilon: Any = 1) -> Callable[[ldp.Curator], Any]:
    """Randomized response at one epsilon."""
    return lambda curator: ldp.RandomizedResponse(domain=curator.domain, epsilon=epsilon)


def fixed(kind: Any, *arguments: Any, **options: Any) -> Callable[[ldp.Curator], Any]:
    """A mechanism by its arguments."""
    return lambda curator: kind(*arguments, domain=curator.domain, **options)


def by_released_prior(curator: ldp.Curator) -> Any:
    """Candidate sets from an answer about the same labels."""
    counts = ldp.LaplaceHistogram(domain=THREE, epsilon=2, groups=GROUPS)
    found = curator.release(counts, rng=ldp.SystemRandomness())
    shares = found.map(lambda value: (np.maximum(value, 0) + 1) / (np.maximum(value, 0) + 1).sum(axis=1, keepdims=True))
    return ldp.RandomizedResponseWithPrior(domain=THREE, epsilon=1, prior=shares.map(lambda rows: rows[PLACES % 5]))


DELTA = {"epsilon": 1, "delta": 1e-6}
ASKED: dict[str, Asked] = {
    "two classes": Asked(WORDS, response()),
    "two classes, keyed": Asked(WORDS, response(2), keyed=True),
    "three classes": Asked(THREE, response()),
    "a third of epsilon": Asked(THREE, response(Fraction(1, 3))),
    "integer ids": Asked(THREE, response(), "integer ids", (("ids", NUMBER_IDS),)),
    "integer ids, keyed": Asked(THREE, response(2), "integer ids", (("ids", NUMBER_IDS),), keyed=True),
    "text ids": Asked(WORDS, response(), "text ids", (("ids", TEXT_IDS),)),
    "text ids, keyed": Asked(WORDS, response(2), "text ids", (("ids", TEXT_IDS),), keyed=True),
    "one half": Asked(THREE, response(), "halves", parts=((HALVES, 0),)),
    "the other half": Asked(THREE, response(), "halves", (("ids", NUMBER_IDS),), parts=((HALVES, 1),)),
    "a half of a half": Asked(
        THREE, response(), "halves", parts=((HALVES, 0), (public(PLACES[:30] % 2), 1)), keyed=True
    ),
    "a revision": Asked(THREE, response(), "revised", revision="corrected"),
    "before the revision": Asked(THREE, response(), "revised"),
    "top two": Asked(FOUR, fixed(ldp.mechanisms.RandomizedResponseTopK, epsilon=1, prior=CLASS_PRIOR, k=2)),
    "prior": Asked(THREE, fixed(ldp.RandomizedResponseWithPrior, epsilon=1, prior=PRIOR)),
    "released prior": Asked(THREE, by_released_prior, "priors"),
    "a stage": Asked(
        THREE,
        fixed(ldp.RandomizedResponseWithPrior, epsilon=1, prior=PRIOR),
        "stages",
        (("run", "a run"),),
        (("step", "stage 1"),),
    ),
    "a stage with groups": Asked(
        THREE,
        fixed(ldp.LaplaceHistogram, epsilon=1, groups=GROUPS),
        "stages",
        (("run", "a run"), ("ids", NUMBER_IDS)),
        (("step", "counts"),),
    ),
    "bits": Asked(FOUR, fixed(ldp.UnaryEncoding, epsilon=1)),
    "grid of six": Asked(SIX, fixed(ldp.DiscreteLaplace, epsilon=1)),
    "clipped": Asked(CLIPPED, fixed(ldp.DiscreteLaplace, epsilon=1)),
    "exponential": Asked(THREE, fixed(ldp.mechanisms.ExponentialMechanism, epsilon=1, groups=GROUPS)),
    "permute and flip": Asked(FOUR, fixed(ldp.mechanisms.PermuteAndFlip, epsilon=1, groups=GROUPS)),
    "histogram": Asked(THREE, fixed(ldp.LaplaceHistogram, epsilon=1, groups=GROUPS)),
    "sum": Asked(SIX, fixed(ldp.mechanisms.LaplaceSum, epsilon=1, groups=GROUPS)),
    "sum of two classes": Asked(WORDS, fixed(ldp.mechanisms.LaplaceSum, epsilon=1, groups=GROUPS)),
    "gaussian moment": Asked(THREE, fixed(ldp.GaussianMoment, features=X, resolution=64, **DELTA), "moments"),
    "gaussian moment, clipped": Asked(
        SIX, fixed(ldp.GaussianMoment, features=X, clip=4.0, resolution=64, **DELTA), "moments of numbers"
    ),
    "laplace moment": Asked(
        THREE, fixed(ldp.mechanisms.LaplaceMoment, epsilon=1, features=X, resolution=64), "moments"
    ),
    "gaussian indicators": Asked(THREE, fixed(ldp.mechanisms.GaussianOneHot, **DELTA), "indicators"),
    "bag sum": Asked(SIX, fixed(ldp.BagSum, 6, epsilon=1, features=X), "bag sum"),
    "bag sum at random": Asked(WORDS, fixed(ldp.BagSum, 6, bags="random", epsilon=1, features=X), "bag sum 2"),
    "gaussian bag sum": Asked(BITS, fixed(ldp.BagSum, 6, noise="gaussian", features=X, **DELTA), "bag sum 3"),
    "bags of one's own": Asked(SIX, fixed(ldp.BagSum, 6, bags=GROUPS, epsilon=1, features=X), "bag sum 4"),
    "signed bags": Asked(SIX, fixed(ldp.NoisyWeightedLLP, 8, 4, 1, features=X), "llp 1"),
    "normal bags": Asked(BITS, fixed(ldp.NoisyWeightedLLP, 8, 4, 1, "gaussian", features=X), "llp 2"),
    "the paper's bags": Asked(SIX, fixed(ldp.NoisyWeightedLLP, 8, 4, 1, features=X, paper_faithful=True), "llp 3"),
    "secret weights": Asked(SIX, fixed(ldp.WeightedLBA, 20, features=X, **DELTA), "lba 1"),
    "secret weights, several rows": Asked(BITS, fixed(ldp.WeightedLBA, 30, 2, features=X, **DELTA), "lba 2"),
    "secret weights on condition": Asked(
        SIX, fixed(ldp.WeightedLBA, 20, bag_noise=0, assumed_residual_square=1, features=X), "lba 3"
    ),
}
"""Requests by name: every mechanism, every kind of ids, parts, revisions, stages, both kinds of noise."""


def later(labels: Any) -> Any:
    """The labels of a revision: those of the first two records changed places."""
    found = np.array(labels)
    found[[0, 1]] = found[[1, 0]]
    return found


def account(folder: Path, dataset: str, revision: str | None = None) -> Any:
    """The dataset of the ledger that lies in a folder."""
    return ldp.LedgerFile(folder / LEDGER).dataset(dataset, revision=revision)


def dataset_of(asked: Asked) -> str:
    """The dataset of a request: by default one for each domain."""
    return asked.dataset or f"column {list(LABELS).index(asked.domain)}"


def ask(folder: Path, asked: Asked) -> ldp.Release[Any]:
    """Ask a curator of the ledger in a folder."""
    ledger = account(folder, dataset_of(asked), asked.revision)
    labels = LABELS[asked.domain] if asked.revision is None else later(LABELS[asked.domain])
    curator = ldp.Curator(labels, domain=asked.domain, ledger=ledger, **dict(asked.curator))
    for split, part in asked.parts:
        curator = curator.split(split)[part]
    rng = ledger.randomness if asked.keyed else ldp.SystemRandomness()
    return curator.release(asked.mechanism(curator), rng=rng, **dict(asked.options))


def ask_stage_again(folder: Path) -> ldp.Release[Any]:
    """The request "a stage" with other candidate sets: a stage is found again whatever its arrays are."""
    curator = ldp.Curator(LABELS[THREE], domain=THREE, ledger=account(folder, "stages"), run="a run")
    again = ldp.RandomizedResponseWithPrior(domain=THREE, epsilon=1, prior=OTHER_PRIOR)
    return curator.release(again, rng=ldp.SystemRandomness(), step="stage 1")


def of_words(folder: Path, dataset: str) -> ldp.Curator:
    """A curator of two classes under a run's name."""
    return ldp.Curator(LABELS[WORDS], domain=WORDS, ledger=account(folder, dataset), run="learning", ids=NUMBER_IDS)


def of_numbers(folder: Path, dataset: str) -> ldp.Curator:
    """The same of numbers."""
    return ldp.Curator(LABELS[SIX], domain=SIX, ledger=account(folder, dataset), run="learning")


def multistage(folder: Path, **stages: int | None) -> ldp.Release[Any]:
    """Clusters, two stages and an evaluation: each a release of its own."""
    from sklearn.tree import DecisionTreeClassifier

    curator, noise = of_words(folder, "multistage"), {"rng": ldp.SystemRandomness()}
    prior = ldp.cluster_prior(FEATURES, curator, clusters=4, clusterings=2, epsilon=1, **noise)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    return ldp.fit_multistage(
        FEATURES, curator, classifier=tree, epsilon=1, prior=prior, **({"stages": 2} | stages), **noise
    )


LEARNED: dict[str, Callable[[Path], ldp.Release[Any]]] = {
    "multistage": multistage,
    "cells": lambda folder: ldp.fit_cells(
        FEATURES, of_words(folder, "cells"), epsilon=1, rng=ldp.SystemRandomness(), evaluation=0.2
    ),
    "cells of numbers": lambda folder: ldp.fit_cells(
        FEATURES,
        of_numbers(folder, "cells of numbers"),
        epsilon=1,
        rng=ldp.SystemRandomness(),
        partition=ldp.learners.MedianPartition(4),
    ),
    "response sgd": lambda folder: ldp.lp_rr_sgd(
        FEATURES,
        of_words(folder, "response sgd"),
        loss=SoftmaxRegression(2),
        epsilon=1,
        diameter=2,
        rng=ldp.SystemRandomness(),
    ),
    "normal sgd": lambda folder: ldp.learners.lp_normal_sgd(
        FEATURES,
        of_words(folder, "normal sgd"),
        loss=SoftmaxRegression(2),
        epsilon=1,
        delta=1e-6,
        diameter=2,
        rng=ldp.SystemRandomness(),
    ),
    "linear": lambda folder: ldp.fit_linear(
        FEATURES, of_words(folder, "linear"), epsilon=1, delta=1e-6, rng=ldp.SystemRandomness(), evaluation=0.2
    ),
    "linear, pure": lambda folder: ldp.fit_linear(
        FEATURES, of_numbers(folder, "linear, pure"), epsilon=1, rng=ldp.SystemRandomness()
    ),
}
"""Private learners on a durable ledger, by the name of their dataset; a model by what it predicts for `FEATURES`."""

SUMS = {"linear": 1e-6, "linear, pure": 0, "secret weights": 1e-6, "secret weights, several rows": 1e-6}
"""Requests whose sums other machines may compute with other last bits; the delta of a budget that they fill."""

GOES_ON = 7
"""The seed of the coins of a learner that goes on from a snapshot: a simulation, so that its actions are known."""


def losses(rounds: int, experts: int = 3) -> Any:
    """Losses of some rounds: multiples of 1/5."""
    return (np.arange(rounds)[:, None] * 3 + np.arange(experts) * 2) % 6 / 5


def go_on(folder: Path, snapshot: bytes, dataset: str) -> list[int]:
    """The actions of the learner that goes on from a snapshot, charged to a ledger in a folder."""
    learner = ldp.PrivateExperts.from_state_dict(
        ldp.online.load_state(snapshot), rng=np.random.default_rng(GOES_ON), ledger=account(folder, dataset)
    )
    return [int(action) for action in learner.update(losses(30))]


def digest(value: Any) -> str:
    """Tells released values apart."""
    return hashlib.sha256(json.dumps(plain(value)).encode()).hexdigest()


def plain(value: Any) -> Any:
    """An array or a table as plain JSON values."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def charges(ledger: Path) -> dict[str, list[list[Any]]]:
    """Every charge of a ledger file: its id, part and mechanism; marks that cost nothing are left out."""

    def told(charge: Charge) -> list[Any]:
        return [charge.id, [list(part) for part in charge.path], charge.mechanism["mechanism"]]

    file = ldp.LedgerFile(ledger)
    named = {name: file.dataset(name).charges for name in file.datasets()}
    return {
        name: [told(each) for each in found if each.mechanism["mechanism"] != CLAIM] for name, found in named.items()
    }


def bits() -> str:
    """Tells machines apart that round sums and eigenvectors otherwise."""
    matrix = np.sin(np.arange(60 * 17).reshape(60, 17))
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    rest = np.linalg.svd(matrix, full_matrices=False)[0], np.exp(matrix) @ vectors
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(each).tobytes() for each in (values, vectors, *rest))
    ).hexdigest()
