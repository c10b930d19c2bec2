"""A column with private labels is no public column of another release of the same account."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Ran
from labeldp.curator import LedgerFile

TABLE = "id,age,visited,size\n" + "".join(f"{i},{i * 37 % 53},{'yes' if i % 3 else 'no'},{i % 7}\n" for i in range(60))
VISITED = ("--label", "visited", "--classes", "no,yes", "--epsilon", "1")


@pytest.fixture
def table(tmp_path: Path, labeldp: Callable[..., Ran], people: Path) -> Path:
    """A table whose ages were released as private labels."""
    (people / "t.csv").write_text(TABLE)
    first = labeldp(
        "release", "t.csv", "--label", "age", "--range", "0,99", "--mechanism", "unbiased-numbers", "--epsilon", "1",
        "--out", "a.csv", "--new-budget", "5",
    )  # fmt: skip
    assert first.status == 0, first.err
    return people


@pytest.mark.parametrize(
    "more",
    [
        ("release", "t.csv", *VISITED, "--in-place", "--out", "b.csv"),
        ("release", "t.csv", *VISITED, "--id", "age", "--other-ids", "--out", "b.csv"),
        ("release", "t.csv", *VISITED, "--mechanism", "bag-sum", "--size", "5", "--bags", "age", "--out", "b.csv"),
        ("release", "t.csv", *VISITED, "--mechanism", "bag-sum", "--size", "5", "--out", "b.csv"),
        ("fit", "t.csv", *VISITED, "--model", "linear", "--out", "model"),
        ("fit", "t.csv", *VISITED, "--id", "age", "--features", "size", "--other-ids", "--out", "model"),
        ("release", "t.csv", *VISITED, "--user", "age", "--out", "b.csv"),
    ],
    ids=["in place", "ids", "bags", "features of bags", "features", "ids of a fit", "users"],
)
def test_private_labels_are_no_public_column(table: Path, labeldp: Callable[..., Ran], more: tuple[str, ...]) -> None:
    file = LedgerFile(table / "t.ledger")
    ran = labeldp(*more)
    assert ran.status == 1 and "'age' holds private labels of 't'" in ran.err, ran
    assert not (table / "b.csv").exists() and not (table / "model").exists()
    assert len(file.dataset("t/visited").charges) == 1, "that of the ages"


def test_another_column_of_the_account_is_released(table: Path, labeldp: Callable[..., Ran]) -> None:
    done = labeldp("release", "t.csv", *VISITED, "--out", "b.csv")
    assert done.status == 0, done.err
    assert (table / "b.csv").read_text().splitlines()[0] == "visited"


@pytest.mark.parametrize("columns", [("age", "visited"), ("visited", "age")])
@pytest.mark.parametrize("named", [(False, True), (True, False), (False, False)])
def test_labels_of_a_dataset_without_column_names_are_no_features(
    people: Path, labeldp: Callable[..., Ran], columns: tuple[str, str], named: tuple[bool, bool]
) -> None:
    """Whichever column comes first, and whether its account is t or t/COLUMN: the second fit must not learn from it."""
    (people / "t.csv").write_text(TABLE)
    for number, (column, name) in enumerate(zip(columns, named, strict=True)):
        domain = (
            ("--classes", "no,yes") if column == "visited" else ("--range", "0,99", "--mechanism", "unbiased-numbers")
        )
        account = ("--dataset", f"t/{column}" if name else "t", "--ledger", "l.ledger", "--epsilon", "1")
        if not number:
            first = labeldp(
                "release", "t.csv", "--label", column, *domain, *account, "--out", "a.csv", "--new-budget", "5"
            )
            assert first.status == 0, first.err
        else:
            ran = labeldp("fit", "t.csv", "--label", column, *domain[:2], *account, "--other-ids", "--out", "model")
    assert ran.status == 1 and f"{columns[0]!r} holds private labels of 't'" in ran.err, ran
    assert len(LedgerFile(people / "l.ledger").dataset("t").read().entries) == 1 and not (people / "model").exists()
