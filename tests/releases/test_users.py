"""`--user`: whose each record is, how many of theirs are used, and what is refused."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import csv, parquet
from scipy.stats import binom

import labeldp as ldp
from labeldp.advice import choose, choose_file
from labeldp.bags import read_bags, release_bags
from labeldp.cli.audit import audit
from labeldp.cli.release import release
from labeldp.curator import NO_USER, LedgerFile
from labeldp.fit import fit_file, fit_request
from labeldp.mechanisms import response_bits
from labeldp.privacy import BudgetExceeded, InputError, LedgerError, PrivacyLoss, Unit, total_loss
from labeldp.releases import answer_epsilon, best_cap, owner_like, release_file

DOMAIN = ldp.Classes(("no", "yes"))
ASKED: dict[str, Any] = {"label": "good", "domain": DOMAIN, "epsilon": 2.0, "delta": 0.0, "dataset": "ratings"}
ASKED |= {"model": "linear", "id_column": "row", "user_column": "user"}


def ratings(users: int = 150) -> pa.Table:
    rng = np.random.default_rng(3)
    user = rng.permutation(np.repeat(np.arange(users), rng.integers(1, 5, users)))
    x = rng.normal(size=(len(user), 3))
    good = np.where(x[:, 0] + 0.5 * rng.normal(size=len(user)) > 0, "yes", "no")
    columns: dict[str, Any] = {"row": [f"r{each}" for each in range(len(user))], "user": [f"u{each}" for each in user]}
    return pa.table(columns | {f"x{each}": x[:, each] for each in range(3)} | {"good": good})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    parquet.write_table(ratings(), "ratings.parquet")
    return tmp_path


def fitted(out: str = "model", data: str = "ratings.parquet", **more: Any) -> tuple[Any, list[str]]:
    notes: list[str] = []
    return fit_file(fit_request(**ASKED | more), data, ledger="l.db", out=out, note=notes.append), notes


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"per_user": 3},
        {"model": "cells"},
        pytest.param({"model": "linear"}, marks=pytest.mark.slow),
        pytest.param({"model": "linear", "trust": "central"}, marks=pytest.mark.slow),
        {"model": "linear", "trust": "central", "delta": 1e-6},
        {"model": "cells", "trust": "central", "per_user": 2},
    ],
    ids=str,
)
def test_a_fit_costs_a_user_the_epsilon_that_was_asked_for(place: Path, more: dict[str, Any]) -> None:
    summary, notes = fitted(**more)
    assert "ε = 2, δ = " in summary.sentence and "all labels of one user of dataset" in summary.sentence
    account = LedgerFile("l.db").dataset("ratings")
    assert {each.certificate.neighbors for each in account.read().entries} == {Unit.ONE_USER}
    spent = total_loss(account.charges).epsilon(more.get("delta", 0))
    assert 2 * (1 - 1e-9) <= spent <= 2
    assert any("150 users have " in note for note in notes)
    again, _ = fitted(**more)
    assert again == summary and total_loss(account.charges).epsilon(more.get("delta", 0)) == spent
    fitted("other", **more)  # what was charged is found again
    assert total_loss(account.charges).epsilon(more.get("delta", 0)) == spent


def test_the_rows_that_are_learned_from_are_those_whose_labels_are_answered(place: Path) -> None:
    table = ratings()
    order = np.random.default_rng(0).permutation(table.num_rows)
    first, _ = fitted(per_user=2)
    parquet.write_table(table.take(pa.array(order)), "ratings.parquet")
    again, _ = fitted("other", per_user=2)
    assert again.accuracy == first.accuracy and again.accuracy.value > 0.6
    users = np.array(table["user"].to_pylist())
    assert sum(stage.records for stage in first.stages) == np.minimum(np.unique(users, return_counts=True)[1], 2).sum()


def test_another_map_and_no_map_are_refused_before_anything_is_charged(place: Path) -> None:
    fitted()
    account = LedgerFile("l.db").dataset("ratings")
    LedgerFile("l.db").change("ratings", budget=ldp.Budget(50))
    table = ratings()
    with pytest.raises(LedgerError, match="would protect one label only; nothing was charged"):
        fitted("other", user_column=None, features=("x0", "x1"))
    shifted = table["user"].to_pylist()
    other = table.set_column(1, "user", pa.array([*shifted[1:], shifted[0]]))
    parquet.write_table(other, "ratings.parquet")
    with pytest.raises(LedgerError, match="one map from records to users; nothing was charged"):
        fitted("other")
    assert account.spent.epsilon() == 2


def test_a_budget_for_single_records_is_too_small_for_users(place: Path) -> None:
    LedgerFile("l.db").add("ratings", ldp.Budget(1.9))
    with pytest.raises(BudgetExceeded):
        fitted()
    assert not LedgerFile("l.db").dataset("ratings").charges


@pytest.mark.parametrize("missing", [None, ""])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_user_column_with_missing_values_is_one_clear_error(place: Path, missing: Any, suffix: str) -> None:
    users = ratings()["user"].to_pylist()
    table = ratings().set_column(1, "user", pa.array([missing, *users[1:]]))
    (parquet.write_table if suffix == "parquet" else csv.write_csv)(table, f"gaps.{suffix}")
    with pytest.raises(InputError) as caught:
        fitted(data=f"gaps.{suffix}")
    assert str(caught.value) == f"--user: the column 'user' {NO_USER}"
    assert not Path("l.db").exists() and not Path("model").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"user_column": "good"}, "--user must be another column than the label and the ids"),
        ({"user_column": "row"}, "--user must be another column than the label and the ids"),
        ({"user_column": "who"}, "who"),
        ({"user_column": "x0"}, "must hold integers or texts, and it holds double"),
        ({"user_column": None, "per_user": 2}, "--per-user goes with --user COLUMN"),
        ({"per_user": 0}, "--per-user must be an integer, at least 1"),
        ({"features": ("x0", "user")}, "--features must not hold the user column"),
        ({"stages": 2}, "--stages and --prior do not go with --user"),
        ({"prior": "clusters", "trust": "central", "model": "mixture"}, "--stages and --prior do not go with --user"),
    ],
    ids=str,
)
def test_what_users_do_not_go_with_is_refused(place: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        fitted(**more)
    assert not Path("l.db").exists()


def test_a_column_that_looks_like_users_is_named_before_the_charge(place: Path) -> None:
    _, notes = fitted(user_column=None)
    assert [note for note in notes if note.endswith("To protect all labels of a user together: --user user")]
    for values, found in (([1, 2] * 40, None), (range(80), None), (list(range(40)) * 2, "userId")):
        assert owner_like(pa.table({"userId": list(values)}), ("userId",)) == found
    for name in ("age", "paid", "humid", "video"):
        assert owner_like(pa.table({name: list(range(40)) * 2}), (name,)) is None
    for name in ("id", "User", "customer_no", "patientID", "member id", "users"):
        assert owner_like(pa.table({name: list(range(40)) * 2}), (name,)) == name


def test_as_many_records_are_answered_as_tell_most_bits() -> None:
    sizes, domain = np.full(1000, 10), ldp.Classes(2)
    assert [best_cap(sizes, epsilon, 0, domain) for epsilon in (0.1, 1, 8)] == [1, 1, 3]
    assert best_cap(np.full(1000, 2), 30, 0, domain) == 2
    bits = [most * response_bits(2, 8 / most) for most in range(1, 11)]
    assert 1 + int(np.argmax(bits)) == 3


def released(out: str = "noisy.parquet", data: str = "ratings.parquet", **more: Any) -> Any:
    given = {"label": "good", "domain": DOMAIN, "epsilon": 2, "ledger": "l.db", "dataset": "ratings"}
    return release_file(data, **{**given, "out": out, "id_column": "row", "user_column": "user", **more})


def test_a_file_is_released_at_what_a_user_pays_for_all_of_theirs(place: Path) -> None:
    notes: list[str] = []
    certificate = released(note=notes.append)
    most = max(np.unique(ratings()["user"].to_pylist(), return_counts=True)[1])
    assert certificate.neighbors is Unit.ONE_USER and most == 4
    assert certificate.entries[0].mechanism["epsilon"] == "1/2" and certificate.epsilon() == 2
    assert "the users do not depend on the private labels" in certificate.at()
    assert notes[-1] == "a user has 4 records at most; each answer costs its user epsilon = 0.5"
    noisy = parquet.read_table("noisy.parquet")
    assert noisy.num_rows == ratings().num_rows and noisy.column_names == ["row", "good"]
    assert released() == certificate and released("again.parquet") == certificate
    assert parquet.read_table("again.parquet").equals(noisy)
    account = LedgerFile("l.db").dataset("ratings")
    assert account.spent.epsilon() == 2
    # A curator of the same users finds the answers of the file again.
    table = ratings()
    names = {"ids": table["row"].to_pylist(), "users": table["user"].to_pylist()}
    curator = ldp.Curator(table["good"].to_pylist(), domain=ldp.Classes(("no", "yes")), ledger=account, **names)
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=0.5)
    again = curator.release(mechanism, rng=account.randomness)
    assert again.certificate == certificate and account.spent.epsilon() == 2
    assert list(curator.domain.decode(again.value)) == noisy["good"].to_pylist()


@pytest.mark.parametrize(
    ("epsilon", "delta", "answers", "expected"),
    [(1, 1e-5, 10, (0.1, 0.171)), (1, 1e-5, 50, (0.0388, 0.0821)), (1, 1e-6, 50, (0.0343, 0.0721))],
)
def test_answers_to_a_user_share_a_delta_by_their_exact_law(
    epsilon: float, delta: float, answers: int, expected: tuple[float, float]
) -> None:
    """The law of all answers is the m-fold product; of two answers it is counted out by the binomial law."""
    losses = [PrivacyLoss.pure, lambda one: PrivacyLoss.response(one, 10)]
    found = tuple(answer_epsilon(epsilon, delta, answers, loss) for loss in losses)
    assert found == expected
    keep = 1 / (1 + np.exp(-found[0]))
    same = np.arange(answers + 1)
    losses_of = (2 * same - answers) * found[0]
    true = float(binom.pmf(same, answers, keep) @ np.maximum(0, -np.expm1(epsilon - losses_of)))
    assert true <= delta
    assert not (PrivacyLoss.pure(found[0] * 1.01) * answers).within(epsilon, delta)
    assert answer_epsilon(epsilon, 0, answers) == pytest.approx(epsilon / answers)


def test_with_a_delta_each_answer_of_a_user_gets_more(place: Path) -> None:
    table = ratings(40).take(pa.array(np.repeat(np.arange(60), 12)))
    table = table.set_column(0, "row", pa.array([f"r{row}" for row in range(table.num_rows)]))
    parquet.write_table(table, "many.parquet")
    most = max(np.unique(table["user"].to_pylist(), return_counts=True)[1])
    certificate = released(data="many.parquet", delta=1e-3)
    answer = Fraction(certificate.entries[0].mechanism["epsilon"])
    assert answer > Fraction(2, int(most)) * Fraction(11, 10)
    assert 1.9 < certificate.epsilon(1e-3) <= 2 and certificate.epsilon() == float(answer * most)
    assert certificate.request is not None and Fraction(certificate.request.delta) == Fraction("0.001")
    assert released(data="many.parquet", delta=1e-3) == certificate
    audited = CliRunner().invoke(audit, ["run", "noisy.parquet", "--data", "many.parquet", "--ledger", "l.db"])
    assert audited.exit_code == 0, audited.output
    with pytest.raises(InputError, match="delta goes with --user: one answer needs none"):
        released("one.parquet", user_column=None, delta=1e-3)
    with pytest.raises(BudgetExceeded):
        released("more.parquet", "many.parquet", delta=1e-3, epsilon=2.5)


def test_a_fit_of_answers_takes_a_delta_with_users(place: Path) -> None:
    fitted(delta=1e-3, per_user=4)
    loss = total_loss(LedgerFile("l.db").dataset("ratings").charges)
    assert loss.epsilon(1e-3) <= 2 < loss.epsilon()
    with pytest.raises(InputError, match="or with --user"):
        fitted("other", delta=1e-3, user_column=None, per_user=None)


def test_a_release_for_single_records_or_other_users_is_refused(place: Path) -> None:
    released()
    LedgerFile("l.db").change("ratings", budget=ldp.Budget(50))
    with pytest.raises(LedgerError, match="would protect one label only; nothing was charged"):
        released("other.parquet", user_column=None)
    users = ratings()["user"].to_pylist()
    parquet.write_table(ratings().set_column(1, "user", pa.array([*users[1:], users[0]])), "moved.parquet")
    with pytest.raises(LedgerError, match="one map from records to users; nothing was charged"):
        released("other.parquet", "moved.parquet")
    assert LedgerFile("l.db").dataset("ratings").spent.epsilon() == 2 and not Path("other.parquet").exists()


def test_what_a_release_for_users_refuses_charges_nothing(place: Path) -> None:
    Path("folder").mkdir()
    for name in ("a", "b"):
        parquet.write_table(ratings(), f"folder/{name}.parquet")
    gaps = ratings().set_column(1, "user", pa.nulls(ratings().num_rows, pa.string()))
    parquet.write_table(gaps, "gaps.parquet")
    for data, more, words in (
        ("folder", {}, "--user is for one file"),
        ("gaps.parquet", {}, f"--user: the column 'user' {NO_USER}"),
        ("ratings.parquet", {"user_column": "row"}, "--user must be another column"),
        ("ratings.parquet", {"user_column": "who"}, "who"),
    ):
        with pytest.raises(InputError, match=words):
            released(data=data, **more)
    assert not Path("l.db").exists()


@pytest.mark.parametrize(
    "more", [["--mechanism", "weighted-lba", "--size", "10", "--delta", "1e-6"], ["--engine", "spark"]]
)
def test_what_cannot_protect_users_says_so(place: Path, more: list[str]) -> None:
    words = "ratings.parquet --label good --classes no,yes --epsilon 1 --ledger l.db --dataset ratings --out n.parquet"
    result = CliRunner().invoke(release, [*words.split(), "--new-budget", "1", "--user", "user", *more])
    assert result.exit_code and "which protects single records only" in f"{result.output}{result.exception}"
    assert not Path("l.db").exists()


def test_weighted_sums_over_bags_cost_a_user_the_epsilon_that_was_asked_for(place: Path) -> None:
    given: dict[str, Any] = {"label": "good", "domain": DOMAIN, "mechanism": "noisy-weighted-llp", "size": 20}
    given |= {"epsilon": 1, "delta": 1e-6, "ledger": "l.db", "dataset": "ratings"}
    given |= {"id_column": "row", "user_column": "user"}
    with pytest.raises(InputError, match="weights must be rademacher with --user"):
        release_bags("ratings.parquet", out="sums.parquet", **given, weights="gaussian")
    assert not Path("l.db").exists()
    certificate = release_bags("ratings.parquet", out="sums.parquet", **given)
    assert 0.99 < certificate.epsilon(1e-6) <= 1
    assert "all labels of one user of dataset" in certificate.at(1e-6)
    shown = read_bags("sums.parquet").value
    plain = {**given, "user_column": None, "dataset": "records", "ledger": "r.db"}
    release_bags("ratings.parquet", out="records.parquet", **plain)
    assert shown.noise_stddev.min() > 1.5 * read_bags("records.parquet").value.noise_stddev.min()


@pytest.mark.parametrize("more", [{"delta": 1e-6}, {"bags": "random"}, {}])
def test_sums_over_bags_cost_a_user_the_epsilon_that_was_asked_for(place: Path, more: dict[str, Any]) -> None:
    given: dict[str, Any] = {"label": "good", "domain": DOMAIN, "mechanism": "bag-sum", "size": 20, "epsilon": 1}
    given |= {"ledger": "l.db", "dataset": "ratings", "id_column": "row", "user_column": "user"} | more
    certificate = release_bags("ratings.parquet", out="sums.parquet", **given)
    assert 0.99 < certificate.epsilon(more.get("delta", 0)) <= 1
    assert "all labels of one user of dataset" in certificate.at()
    made = certificate.entries[0].mechanism
    assert made["moves"][0] == 4  # the most records of a user
    kept = read_bags("sums.parquet").value
    assert kept.noise_stddev[0] > 3 * (2**0.5 if not more.get("delta") else 1)
    again = release_bags("ratings.parquet", out="again.parquet", **given)
    assert again == certificate and LedgerFile("l.db").dataset("ratings").read().entries[0].certificate == certificate
    with pytest.raises(LedgerError, match="would protect one label only"):
        release_bags("ratings.parquet", out="other.parquet", **{**given, "user_column": None, "epsilon": 0.5})
    with pytest.raises(InputError, match="--user must be another column"):
        release_bags("ratings.parquet", out="other.parquet", **{**given, "user_column": "good"})


def test_a_choice_counts_users_and_fits_take_it(place: Path) -> None:
    advice = choose_file("ratings.parquet", DOMAIN, 2, label="good", id_column="row", user_column="user")
    assert advice.best.expected == choose((150, 3), DOMAIN, 2).best.expected
    assert "--user user" in advice.best.command
    summary, notes = fitted(model="auto")
    assert advice.best.method == "local mixture" and any("--model auto took local mixture: " in note for note in notes)
    assert "all labels of one user of dataset" in summary.sentence
    with pytest.raises(InputError, match="--user must be another column"):
        choose_file("ratings.parquet", DOMAIN, 2, label="good", user_column="good")
