"""Dry runs: teachers that are the same again, labels with a declared balance, scores by hand, and too few rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import labeldp as ldp
from labeldp.advice.dry_run import (
    LEAST_ROWS,
    TEACHERS,
    DryRunRows,
    dry_run,
    fitted,
    made_up_labels,
    score,
)
from labeldp.fit import advise
from labeldp.privacy import InputError
from labeldp.tables import TableEncoder
from people import table_of_people

TWO, FOUR, NUMBERS = ldp.Classes(("no", "yes")), ldp.Classes(4), ldp.Interval(-10, 90)


def people(rows: int = 400) -> DryRunRows:
    """Public features with gaps and categories."""
    table = table_of_people(rows, seed=5).drop(columns=["id", "bought"])
    encoder = TableEncoder.fit(table)
    return DryRunRows(encoder, encoder.transform(table))


@pytest.mark.guarantee("labeldp.advice:made_up_labels", "public_labels")
@pytest.mark.parametrize("teacher", TEACHERS)
@pytest.mark.parametrize("domain", [TWO, FOUR, NUMBERS])
def test_teachers_are_the_same_again(teacher: str, domain: Any) -> None:
    rows = people()
    first, again = (made_up_labels(teacher, rows, domain, seed=3) for _ in range(2))
    assert np.array_equal(first, again) and first.shape == (400,)
    assert not np.array_equal(first, made_up_labels(teacher, rows, domain, seed=4))
    domain.decode(first)  # they are codes
    assert len(np.unique(first)) >= 2


@pytest.mark.parametrize("teacher", TEACHERS)
def test_classes_have_the_declared_balance(teacher: str) -> None:
    for balance in ((0.9, 0.1), (0.25, 0.75)):
        codes = made_up_labels(teacher, people(5000), TWO, balance=balance)
        assert np.bincount(codes) / 5000 == pytest.approx(balance, abs=0.03)
    assert np.bincount(made_up_labels(teacher, people(5000), FOUR)) / 5000 == pytest.approx([0.25] * 4, abs=0.04)


def test_numbers_fill_a_part_of_the_range() -> None:
    labels = NUMBERS.decode(made_up_labels("smooth", people(5000), NUMBERS))
    assert labels.min() >= -10 and labels.max() <= 90
    assert labels.mean() == pytest.approx(30, abs=3) and labels.std() == pytest.approx(20, abs=3)


def test_what_a_teacher_says_can_be_learned() -> None:
    """A linear model of the noisy sum finds the linear teacher, and not where its labels are given to other rows."""
    rows, rng = people(3000), np.random.default_rng(0)
    codes = made_up_labels("linear", rows, TWO)
    settings = {"trust": "central", "model": "linear", "delta": 1e-6}
    seen, other = (replace(rows, features=rows.features[part]) for part in (slice(2000), slice(2000, None)))
    model = fitted(settings, seen, codes[:2000], TWO, 4.0, rng)
    assert score(model, other.features, codes[2000:], TWO) > 80
    chance = fitted(settings, seen, rng.permutation(codes[:2000]), TWO, 4.0, rng)
    assert score(chance, other.features, codes[2000:], TWO) < 70


class Fixed:
    """A model whose answers are known."""

    def __init__(self, answers: Any) -> None:
        self.answers = np.asarray(answers)

    def predict(self, features: Any) -> Any:
        return self.answers

    def predict_proba(self, features: Any) -> Any:
        return self.answers


def test_scores_by_hand_and_as_scikit_learn_has_them() -> None:
    rng = np.random.default_rng(2)
    ones, codes = rng.integers(0, 5, 100) / 5, rng.integers(0, 2, 100)
    found = score(Fixed(np.column_stack([1 - ones, ones])), np.zeros((100, 1)), codes, TWO)
    assert found == pytest.approx(100 * roc_auc_score(codes, ones))
    assert score(Fixed([[1, 0]]), np.zeros((1, 1)), np.array([1]), TWO) == 50
    assert score(Fixed(np.eye(4)), np.zeros((4, 1)), np.array([0, 1, 3, 3]), FOUR) == 75
    numbers = NUMBERS.encode(np.array([0.0, 40.0]))
    assert score(Fixed([20.0, 20.0]), np.zeros((2, 1)), numbers, NUMBERS) == pytest.approx(100, rel=1e-2)


@pytest.mark.guarantee("labeldp.advice:dry_run", "no_label")
def test_a_rehearsal_ranks_what_it_tried() -> None:
    """It takes no labels and no ledger."""
    rows = people(200)
    advice = advise(200, 4, NUMBERS, 8, 1e-6, "central")
    central = replace(advice, options=tuple(o for o in advice.options if o.settings["trust"] == "central"))
    said: list[tuple[str, float]] = []
    found = dry_run(central, rows, NUMBERS, 8, progress=lambda *one: said.append(one))
    assert found.rehearsed == 200
    assert {each.method for each in found.options} == {each.method for each in central.options} and len(
        found.options
    ) > 1
    values = [each.expected.value for each in found.options]
    assert values == sorted(values) and all(
        e.expected.low <= e.expected.value <= e.expected.high for e in found.options
    )
    shares = [share for _, share in said]
    assert shares == sorted(shares) and 0 <= shares[0] < shares[-1] < 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": people(LEAST_ROWS - 1)}, "^dry_run needs at least 200 rows .*, not 199; without it the advice"),
        ({"domain": "no,yes"}, "domain must be Classes or an Interval"),
        ({"balance": (0.5, 0.6)}, "balance must hold 2 positive shares, one for each class, with the sum 1"),
        ({"balance": (1.0, 0.0)}, "balance must hold 2 positive shares"),
        ({"balance": "much"}, "balance must hold 2 positive shares"),
        ({"balance": (0.5, 0.5), "domain": NUMBERS}, "balance is of classes: numbers have a range"),
        ({"epsilon": 0}, "epsilon must be positive"),
    ],
)
def test_bad_input_is_named(changes: dict[str, Any], words: str) -> None:
    asked = {"rows": people(LEAST_ROWS), "domain": TWO, "epsilon": 1, "balance": None} | changes
    with pytest.raises(InputError, match=words):
        dry_run(advise(200, 4, TWO, 1), asked["rows"], asked["domain"], asked["epsilon"], balance=asked["balance"])
