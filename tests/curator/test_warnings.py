"""A weak promise and a new ledger are told, in Python and on the command line, and nothing is told twice."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import labeldp as ldp
from labeldp.privacy import NewLedgerWarning, PrivacyWarning

LABELS = np.array(["no", "yes"] * 50)
CLASSES = ldp.Classes(("no", "yes"))


def release(budget: ldp.Budget | None = None, ledger: object = None) -> None:
    curator = ldp.Curator(LABELS, domain=CLASSES, budget=budget, ledger=ledger)  # type: ignore[arg-type]
    curator.release(ldp.RandomizedResponse(domain=CLASSES, epsilon=1), rng=ldp.SystemRandomness())


def told(path: Path | None, budget: ldp.Budget) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release(*((budget,) if path is None else (None, ldp.LedgerFile(path).dataset("people", budget=budget))))
    return [str(warning.message) for warning in caught if warning.category is PrivacyWarning]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (ldp.Budget(100), ["epsilon = 100 is a weak guarantee: the odds about one label can change 10^44-fold"]),
        (ldp.Budget(1, 0.5), ["delta = 0.5 is not below 1/100"]),
        (ldp.Budget(1, 0.01), ["delta = 0.01 is not below 1/100"]),
        (ldp.Budget(1, 0.009), []),
        (ldp.Budget(10), []),
    ],
)
def test_a_weak_budget_is_told_when_it_is_charged(
    tmp_path: Path, durable: bool, budget: ldp.Budget, words: list[str]
) -> None:
    sentences = told(tmp_path / "l.ledger" if durable else None, budget)
    assert len(sentences) == len(words) and all(word in text for word, text in zip(words, sentences, strict=True))


def test_a_new_ledger_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "l.ledger"
    with pytest.warns(NewLedgerWarning, match=r"Created .*l\.ledger .*: the budget of 'people' is"):
        release(ledger=ldp.LedgerFile(path).dataset("people", budget=ldp.Budget(1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release(ledger=ldp.LedgerFile(path).dataset("people"))


def test_a_mistyped_ledger_of_an_estimator_is_told(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(100, 2))
    model = ldp.LabelDPClassifier(classes=["no", "yes"], epsilon=1, ledger=tmp_path / "typo.ledger", dataset="people")
    with pytest.warns(NewLedgerWarning, match=r"Created .*typo\.ledger "):
        model.fit(features, LABELS)


def test_the_command_line_tells_weak_promises_once(tmp_path: Path) -> None:
    rows = "".join(f"{row},{label}\n" for row, label in enumerate(LABELS))
    (tmp_path / "people.csv").write_text(f"id,bought\n{rows}")
    words = "release people.csv --label bought --classes no,yes --epsilon 20 --new-budget 20 --out o.csv"
    code = "import sys; from labeldp.cli import main; sys.argv = ['labeldp', *sys.argv[1:]]; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split()], cwd=tmp_path, env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is a weak guarantee") == 1
    assert "Warning" not in done.stderr and done.stderr.count("Created people.ledger") == 1
