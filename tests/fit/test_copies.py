"""Copies of the label among the features: found in what was released, and in nothing else."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer

import labeldp as ldp
from labeldp.encoders import ImageShape
from labeldp.fit.suggestions import copy_warnings
from labeldp.learners import evaluate
from labeldp.tables import TableEncoder
from learners.data import released

RNG = np.random.default_rng(0)
SIZE = 1500
HOURS = RNG.uniform(0, 100, SIZE)
NAMES = ("a", "b", "c")
CLASS = np.array(NAMES)[RNG.choice(3, SIZE, p=[0.5, 0.3, 0.2])]
NOISE = RNG.normal(size=SIZE)

COPIES: dict[str, tuple[str, Any]] = {
    "of numbers": ("hours", HOURS),
    "of numbers, monotone": ("hours", np.exp(HOURS / 20)),
    "of numbers, falling, some missing": ("hours", np.where(NOISE > 3, np.nan, -np.sqrt(HOURS))),
    "of numbers, in classes": ("hours", np.char.add("from ", (HOURS // 10).astype(int).astype(str))),
    "of classes": ("class", CLASS),
    "of classes, as other texts": ("class", np.char.add("level ", CLASS)),
    "of classes, as numbers": ("class", np.searchsorted(NAMES, CLASS)),
    "of classes, jittered": ("class", np.searchsorted(NAMES, CLASS) + RNG.uniform(0, 0.9, SIZE)),
}
LEGITIMATE: dict[str, tuple[str, Any]] = {
    "of numbers": ("hours", HOURS + RNG.normal(0, 20, SIZE)),
    "of classes": ("class", np.where(NOISE > 0.7, "a", CLASS)),
}


def measured(codes: Any, classes: int, epsilon: float) -> Any:
    """A model of which nothing is known but the released labels that it was measured on."""
    release = released(codes, classes, epsilon=epsilon, seed=1)
    size = len(codes)
    return SimpleNamespace(evaluation=evaluate(release, np.full((size, classes), 0.5), "nothing", np.arange(size)))


def warnings_of(what: str, column: Any, trust: str) -> tuple[str, ...]:
    frame = pd.DataFrame({"noise": NOISE, "days": column})
    given = {"epsilon": 20.0, "trust": trust, "evaluation": 0.5}
    if what == "class" and trust == "local":
        encoder = TableEncoder.fit(frame, label="class")
        return copy_warnings(measured(np.searchsorted(NAMES, CLASS), 3, 20), encoder.transform(frame), encoder)
    if what == "class":
        made = ldp.LabelDPClassifier(classes=NAMES, estimator="linear", **given)
        return made.fit(frame, CLASS).summarize(frame).warnings
    return ldp.LabelDPRegressor(range=(0, 100), **given).fit(frame, HOURS).summarize(frame).warnings


@pytest.mark.parametrize("trust", ["local", "central"])
@pytest.mark.parametrize(("what", "column"), COPIES.values(), ids=COPIES)
def test_a_copy_of_the_label_is_named(what: str, column: Any, trust: str) -> None:
    named = [each for each in warnings_of(what, column, trust) if "check that 'days' is not a copy of it" in each]
    assert len(named) == 1 and "'noise'" not in named[0]


@pytest.mark.parametrize("trust", ["local", "central"])
@pytest.mark.parametrize(("what", "column"), LEGITIMATE.values(), ids=LEGITIMATE)
def test_a_good_feature_is_no_copy(what: str, column: Any, trust: str) -> None:
    assert "copy" not in " ".join(warnings_of(what, column, trust))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_a_table_where_single_features_do_well_has_no_copy(epsilon: float) -> None:
    frame = load_breast_cancer(as_frame=True).frame
    table = pa.Table.from_pandas(frame)
    encoder = TableEncoder.fit(table)  # with the label, which is the one copy that is there
    model = measured(frame["target"].to_numpy(), 2, epsilon)
    named = " ".join(copy_warnings(model, encoder.transform(table), encoder))
    assert named.count("copy") == named.count("that 'target' is not a copy") == (epsilon == 8)


def test_too_few_labels_and_images_name_nothing() -> None:
    codes = np.arange(150) % 2
    table = pa.table({"copy": codes})
    encoder, model = TableEncoder.fit(table), measured(codes, 2, 20)
    assert copy_warnings(model, encoder.transform(table), encoder) == ()
    assert copy_warnings(model, np.zeros((150, 8, 8)), ImageShape((8, 8))) == ()
