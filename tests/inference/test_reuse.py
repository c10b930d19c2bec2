"""Released answers are refused as a public column beside themselves, under whatever names."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LinearRegression, LogisticRegression

import labeldp as ldp
from labeldp import inference, learners, mechanisms
from labeldp.inference import designs
from labeldp.privacy import InputError

N = 400
RNG = np.random.default_rng(0)
OTHER = RNG.integers(0, 3, N)


def released(mechanism: Any, seed: int = 1) -> Any:
    """Return answers of a mechanism for labels that are drawn."""
    rng = np.random.default_rng(seed)
    domain = mechanism.domain
    labels = domain.decode(rng.integers(0, domain.size, N))
    return ldp.Curator(labels, domain=domain, budget=ldp.Budget(10)).release(mechanism, rng=rng)


TWO = released(mechanisms.RandomizedResponse(ldp.Classes(("no", "yes")), 1.0))
SIX = released(mechanisms.RandomizedResponse(ldp.Classes(6), 2.0))
BITS = released(mechanisms.UnaryEncoding(ldp.Classes(4), 2.0))
GROUPS = released(mechanisms.LocalHashing(ldp.Classes(5), 2.0))
LAPLACE = released(mechanisms.DiscreteLaplace(ldp.Interval(0, 80), 1.0))
FEW = released(mechanisms.UnbiasedNumbers(ldp.Interval(0, 80, grid=9), 1.0))
BINS = released(mechanisms.ResponseOnBins(ldp.Interval(0, 80), 1.0))
ASKED = inference.answers(np.where(RNG.random(N) < 0.4, "yes", "no"), designs.warner(0.7))
FORCED = inference.answers(np.where(RNG.random(N) < 0.4, "yes", "no"), designs.matrix([[0.5, 0.5], [0.0, 1.0]]))
ANSWERS = {
    "two": TWO, "six": SIX, "bits": BITS, "groups": GROUPS, "laplace": LAPLACE, "few": FEW, "bins": BINS,
    "asked": ASKED, "forced": FORCED,
}  # fmt: skip


def codes_of(release: Any) -> Any:
    """Return one number for each distinct answer."""
    value = np.asarray(release.value)
    return value if value.ndim == 1 else np.unique(value, axis=0, return_inverse=True)[1].reshape(-1)


def shuffled(codes: Any) -> Any:
    """Return other numbers for the same answers, in no order."""
    return np.random.default_rng(3).permutation(int(codes.max()) + 1)[codes]


DISGUISES: dict[str, Callable[[Any], Any]] = {
    "codes": lambda codes: codes.copy(),
    "floats": lambda codes: 7.5 - 0.25 * codes,
    "texts": lambda codes: np.array([f"c{code}" for code in codes]),
    "text numbers": lambda codes: np.array([str(code) for code in codes]),
    "objects": lambda codes: np.array([f"c{code}" for code in codes], dtype=object),
    "shuffled": shuffled,
    "list": lambda codes: codes.tolist(),
    "pandas": lambda codes: pd.Series(codes, index=np.arange(N) + 0.5).astype("category"),
    "pandas texts": lambda codes: pd.Series([f"c{code}" for code in codes]),
    "polars": lambda codes: pl.Series([f"c{code}" for code in codes]),
    "arrow": lambda codes: pa.array(codes),
    "with another column": lambda codes: codes.astype(np.int64) * 3 + OTHER,
    "upper half": lambda codes: codes > np.median(codes) if len(np.unique(codes)) > 2 else codes.astype(bool),
}


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", ANSWERS)
def test_disguised_answers_are_no_groups(name: str, disguise: str) -> None:
    release = ANSWERS[name]
    if disguise == "shuffled" and name == "laplace":
        pytest.skip("nearly all noisy numbers differ: any column of distinct entries relates to them")
    if disguise in ("upper half", "with another column") and name in ("bits", "groups", "laplace"):
        pytest.skip("the order of codes of sets has no meaning, and a product has nearly as many values as records")
    column = DISGUISES[disguise](codes_of(release))
    with pytest.raises(InputError, match=r"^groups must not be made of the released answers"):
        inference.mean(release, groups=column)
    with pytest.raises(InputError, match=r"^users must not be made of the released answers"):
        inference.mean(release, users=column)


@pytest.mark.parametrize("name", ["two", "six", "bits", "groups"])
def test_one_class_of_the_answers_is_no_group(name: str) -> None:
    release = ANSWERS[name]
    for indicator in release.mechanism.named(release.value).T:
        for column in (indicator, ~indicator, indicator.astype(float), np.where(indicator, "a", "b")):
            with pytest.raises(InputError, match=r"^groups must not"):
                inference.mean(release, groups=column)


@pytest.mark.parametrize("name", ANSWERS)
def test_public_columns_are_taken(name: str) -> None:
    release = ANSWERS[name]
    for seed in range(2 if name in ("laplace", "few") else 30):
        rng = np.random.default_rng(seed)
        for column in (rng.integers(0, 2, N), np.arange(N) == seed, rng.permutation(N), np.arange(N) // 100):
            inference.mean(release, groups=column)


def test_true_labels_are_taken_where_noise_is_rare() -> None:
    domain, labels = ldp.Classes(2), RNG.integers(0, 2, 50)
    curator = ldp.Curator(labels, domain=domain, budget=ldp.Budget(9))
    release = curator.release(mechanisms.RandomizedResponse(domain, 9.0), rng=np.random.default_rng(0))
    assert np.array_equal(release.value, labels)
    inference.mean(release, groups=labels)
    inference.mean(ldp.Curator([0, 1, 1], domain=domain, budget=ldp.Budget(1)).release(
        mechanisms.RandomizedResponse(domain, 1.0), rng=np.random.default_rng(0)), groups=["a", "b", "b"])  # fmt: skip


def test_public_columns_are_refused_as_rarely_as_promised() -> None:
    """The labels that make agreement most likely: the column itself."""
    domain, column, refused = ldp.Classes(2), np.arange(12) % 2, 0
    mechanism = mechanisms.RandomizedResponse(domain, 1.0)
    for seed in range(1500):
        rng = np.random.default_rng(seed)
        release = ldp.Curator(column, domain=domain, budget=ldp.Budget(1)).release(mechanism, rng=rng)
        try:
            inference.reuse.refuse_reused(mechanism, release.value, groups=column)
        except InputError:
            refused += 1
    assert refused <= 40  # at most 1 % of 1,500, with a chance of 1e-6 of more


CODES = codes_of(TWO)
CHANCES = np.column_stack([0.9 - 0.8 * CODES, 0.1 + 0.8 * CODES])
X = np.random.default_rng(5).normal(size=(N, 2))
TABLE = np.column_stack([X, CODES])


def public(value: Any) -> Any:
    return ldp.Public(value, why="a test")


CALLS: dict[str, Callable[[], Any]] = {
    "quantile": lambda: inference.quantile(SIX, groups=codes_of(SIX)),
    "difference, treated": lambda: inference.difference(TWO, CODES == 1),
    "difference, groups": lambda: inference.difference(TWO, np.arange(N) % 2, groups=CODES),
    "difference, covariates": lambda: inference.difference(TWO, np.arange(N) % 2, covariates=TABLE),
    "difference, propensity": lambda: inference.difference(TWO, np.arange(N) % 2, propensity=public(0.3 + 0.1 * CODES)),
    "difference, users": lambda: inference.difference(TWO, np.arange(N) % 2, users=CODES),
    "odds ratio": lambda: inference.odds_ratio(TWO, CODES),
    "regression": lambda: inference.regression(TWO, TABLE),
    "regression, linear": lambda: inference.regression(LAPLACE, LAPLACE.value[:, None] * 0.1, kind="linear"),
    "monitor": lambda: inference.monitor(TWO, CODES),
    "evaluate": lambda: inference.evaluate(TWO, public(CHANCES)),
    "evaluate, second class": lambda: inference.evaluate(TWO, public(CODES * 0.5 + 0.25)),
    "evaluate, decisions": lambda: inference.evaluate(TWO, public(np.clip(CODES * 0.5 + X[:, 0] % 0.5, 0, 1))),
    "evaluate, groups": lambda: inference.evaluate(TWO, public(X[:, 0] % 1), groups=CODES).gap("accuracy"),
    "compare": lambda: inference.compare(SIX, public(codes_of(SIX).astype(int)), public(OTHER)),
    "compare, other": lambda: inference.compare(SIX, public(OTHER), public((codes_of(SIX).astype(int) + 1) % 6)),
    "conformal": lambda: inference.conformal(TWO, public(1 - CHANCES)),
    "conformal, decisions": lambda: inference.conformal(TWO, public(1 - CHANCES + 0.01 * X[:, :2])),
    "conformal, groups": lambda: inference.conformal(TWO, public(X), groups=CODES),
    "fit_noisy": lambda: learners.fit_noisy(TABLE, TWO, classifier=LogisticRegression()),
    "fit_noisy, pandas": lambda: learners.fit_noisy(
        pd.DataFrame({"a": X[:, 0], "y": np.where(CODES, "yes", "no")}), TWO, classifier=LogisticRegression()
    ),
    "fit_noisy, polars": lambda: learners.fit_noisy(
        pl.DataFrame({"a": X[:, 0], "y": CODES}), TWO, classifier=LogisticRegression()
    ),
    "fit_noisy, sparse": lambda: learners.fit_noisy(csr_matrix(TABLE), TWO, classifier=LogisticRegression()),
    "fit_noisy, prior": lambda: learners.fit_noisy(X, TWO, classifier=LogisticRegression(), prior=public(CHANCES)),
    "fit_noisy, weights": lambda: learners.fit_noisy(
        X, TWO, classifier=LogisticRegression(), sample_weight=1.0 + CODES
    ),
    "NoisyLabelClassifier": lambda: learners.NoisyLabelClassifier(LogisticRegression()).fit(TABLE, TWO),
    "NoisyNumberRegressor": lambda: learners.NoisyNumberRegressor(LinearRegression()).fit(
        np.column_stack([X, LAPLACE.value]), LAPLACE
    ),
    "CellClassifier": lambda: learners.CellClassifier().fit(TABLE, TWO),
    "CellRegressor": lambda: learners.CellRegressor().fit(np.column_stack([X, FEW.value]), FEW),
    "NeighborsClassifier": lambda: learners.NeighborsClassifier().fit(TABLE, TWO),
    "debiased_accuracy": lambda: inference.debiased_accuracy(TWO, CODES.copy()),
    "debiased_accuracy, names": lambda: inference.debiased_accuracy(TWO, TWO.mechanism.values(TWO.value)),
    "compare, scores": lambda: inference.evaluate(TWO, public(X[:, 0] % 1)).compare(CODES.copy()),
    "evaluate_numbers": lambda: inference.evaluate_numbers(LAPLACE, LAPLACE.mechanism.values(LAPLACE.value)),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_function_with_a_public_column_refuses_its_answers(call: str) -> None:
    with pytest.raises(InputError, match="must not be made of the released answers"):
        CALLS[call]()


def test_the_array_of_a_release_is_refused_at_any_epsilon() -> None:
    release = released(mechanisms.RandomizedResponse(ldp.Classes(2), 9.0))
    with pytest.raises(InputError, match=r"^groups must not"):
        inference.mean(release, groups=release.value)
