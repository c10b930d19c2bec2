"""Advice for tables, arrays and files: from what is public alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.advice import choose_file
from labeldp.privacy import InputError

TWO = ldp.Classes(("no", "yes"))


def asked(path: Path, **changes: Any) -> str:
    """The advice for a file as JSON text."""
    arguments: dict[str, Any] = {"label": "bought", "id_column": "id", "trust": "central", "delta": 1e-6} | changes
    return json.dumps(choose_file(str(path), TWO, 1, **arguments).to_json())


@pytest.mark.guarantee("labeldp.advice:choose_file", "no_label")
def test_labels_in_another_order_get_the_same_advice(people: Path) -> None:
    table = pd.read_csv(people / "people.csv")
    found = asked(people / "people.csv")
    changes: dict[str, Any] = {
        "permuted": np.random.default_rng(0).permutation(table.bought),
        "constant": "yes",
        "undeclared": "perhaps",
        "missing": None,
    }
    for name, labels in changes.items():
        folder = people / name
        folder.mkdir()
        table.assign(bought=labels).to_csv(folder / "people.csv", index=False)
        assert asked(folder / "people.csv") == found, name


@pytest.mark.slow
def test_a_rehearsal_of_permuted_labels_is_the_same(people: Path) -> None:
    """Beside the order, what a dry run finds is the same to the byte."""
    table = pd.read_csv(people / "people.csv").head(220)
    texts = []
    for name, labels in {"one": table.bought, "other": table.bought.to_numpy()[::-1]}.items():
        (people / name).mkdir()
        table.assign(bought=labels).to_csv(people / name / "people.csv", index=False)
        advice = choose_file(
            str(people / name / "people.csv"),
            ldp.Interval(0, 1),
            4,
            label="bought",
            id_column="id",
            trust="local",
            dry_run=True,
        )
        texts.append(json.dumps(advice.to_json()))
    assert texts[0] == texts[1] and '"rehearsed": 220' in texts[0]


@pytest.mark.guarantee("labeldp.advice:choose", "public_advice")
@pytest.mark.guarantee("labeldp.advice:choose", "free")
def test_a_table_an_array_a_size_and_a_file_agree(people: Path) -> None:
    table = pd.read_csv(people / "people.csv").drop(columns=["id", "bought"])
    found = [
        ldp.advice.choose(features, TWO, 0.5, 1e-6, "central")
        for features in (table, (600, 4), [600, 4], np.random.default_rng(0).normal(size=(600, 4)))
    ]
    assert found[0] == found[1] == found[2] == found[3]
    assert (
        ldp.advice.choose(features=table, domain=TWO, epsilon=0.5, delta=1e-6, trust="central", dry_run=False)
        == found[0]
    )
    file = choose_file(str(people / "people.csv"), TWO, 0.5, 1e-6, "central", label="bought", id_column="id")
    assert [each.expected for each in file.options] == [each.expected for each in found[0].options]
    assert "--id id" in file.best.command and "people.csv --label bought --classes no,yes" in file.best.command
    assert "fit DATA --label LABEL" in found[0].best.command
    assert not list(people.glob("*.ledger")), "nothing is charged"


def test_categories_of_a_table_and_of_a_file_are_counted(tmp_path: Path) -> None:
    """A pair of sizes is one of numbers."""
    codes = np.random.default_rng(0).integers(0, 4, size=(4000, 3))
    table = pd.DataFrame(codes, columns=["age", "town", "job"]).assign(town=lambda e: "t" + e.town.astype(str))
    table["job"] = "j" + table.job.astype(str)
    table.assign(bought="no").to_csv(tmp_path / "people.csv", index=False)
    found = (
        ldp.advice.choose(table, TWO, 1, 1e-6, "central"),
        choose_file(str(tmp_path / "people.csv"), TWO, 1, 1e-6, "central", label="bought"),
        ldp.advice.choose((4000, 3), TWO, 1, 1e-6, "central"),
    )
    assert [advice.best.method for advice in found] == ["central linear", "central linear", "local mixture"]


def test_users_pay_for_all_their_answers(people: Path) -> None:
    """Three records a user: each answer has a third of epsilon, or one is used; sums count users."""
    table = pd.read_csv(people / "people.csv").assign(user=np.arange(600) // 3)
    table.to_csv(people / "people.csv", index=False)
    shared: dict[str, Any] = {"label": "bought", "id_column": "id"}
    of_users = shared | {"user_column": "user"}
    for trust, most, records, epsilon in [("local", 3, 600, 1), ("local", 1, 200, 3), ("central", None, 200, 3)]:
        found = choose_file(str(people / "people.csv"), TWO, 3, trust=trust, per_user=most, **of_users)
        plain = ldp.advice.choose((records, 4), TWO, epsilon, trust=trust)
        assert [each.expected.value for each in found.options] == pytest.approx(
            [e.expected.value for e in plain.options]
        )
        assert "--epsilon 3 " in found.best.command and "--user user" in found.best.command and found.dimension == 4
        assert ("--per-user" in found.best.command) == (most is not None)
    for changes, words in [
        ({"dry_run": True}, "dry_run does not go with --user"),
        ({"per_user": 2, "user_column": None}, "--per-user goes with --user"),
        ({"user_column": "id"}, "--user must be another column"),
        ({"user_column": "job"}, "the column 'job'"),
        ({"columns": "age,user"}, "--features must not hold the label column, the id column or the user column"),
    ]:
        with pytest.raises(InputError, match=words):
            choose_file(str(people / "people.csv"), TWO, 3, **(of_users | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dry_run": True}, "dry_run needs the features themselves, not their number"),
        ({"balance": (0.5, 0.5)}, "balance goes with dry_run"),
        ({"features": np.zeros((100, 2, 2))}, "features must be a table, an array of numbers"),
        ({"features": [["a", "b"]]}, "features must be a table, an array of numbers"),
        (
            {"features": np.random.default_rng(0).normal(size=(199, 2)), "dry_run": True},
            "dry_run needs at least 200 rows",
        ),
        ({"features": (0, 3)}, "records must be an integer, at least 1"),
        ({"domain": 2}, "domain must be Classes or an Interval"),
    ],
)
def test_bad_input_is_named(changes: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"features": (1000, 5), "domain": TWO, "epsilon": 1} | changes
    with pytest.raises(InputError, match=words):
        ldp.advice.choose(**arguments)
