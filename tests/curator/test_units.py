"""One unit of protection for each account: random histories of charges, counted out against what certificates state.

The laws are those of the mechanisms' tables and noise, over all labels of three records; nothing of the accounts is
used but what their certificates say. The releases do not look at each other, so that a claim may only be too large.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.curator import Curator, Ledger, LedgerFile
from labeldp.mechanisms import GaussianMoment, LaplaceSum
from labeldp.privacy import (
    Certificate,
    InputError,
    LabelDPError,
    LedgerError,
    PendingCharge,
    PrivacyLoss,
    Protection,
    Public,
    Release,
    Trust,
    Unit,
    charges,
    common_unit,
    gather,
)
from labeldp.privacy import certificate as certificate_file

SYSTEM = ldp.SystemRandomness()

DOMAIN = ldp.Classes(2)

WHOSE = np.array([0, 0, 1])
"""The first user has two records."""

WORLDS = tuple(itertools.product(range(2), repeat=3))

REACH = 60
"""Noise beyond it has a probability below 1e-12."""

Laws = dict[tuple[Any, ...], np.ndarray]
"""The probability of each output, by world: by the labels of all records, or the loss of a round."""


class Unsafe(AssertionError):
    """A certificate states less than neighbors show."""


@dataclass(frozen=True)
class Made:
    """A release, and its law for each world."""

    release: Release[Any]
    laws: Laws
    users: Any = None


def alike(unit: Unit, one: tuple[Any, ...], other: tuple[Any, ...], users: Any) -> bool:
    """Whether two worlds are neighbors: labels of three records, or the loss of a round."""
    if unit in (Unit.ONE_LOSS, Unit.ZERO_OUT):
        return unit is Unit.ONE_LOSS or 0 in (*one, *other)
    differ = [record for record in range(3) if one[record] != other[record]]
    if unit is Unit.ONE_LABEL:
        return len(differ) <= 1
    assert unit is Unit.ONE_USER
    return len({int(users[record]) for record in differ}) <= 1


def together(made: Sequence[Made]) -> Laws:
    """The laws of all outputs together."""
    laws = {}
    for world in made[0].laws:
        laws[world] = np.ones(1)
        for each in made:
            laws[world] = np.multiply.outer(laws[world], each.laws[world]).ravel()
    return laws


def check_statement(certificate: Certificate, delta: str, shown: Laws, everything: Laws, users: Any) -> str | None:
    """Compare a certificate with the laws that it speaks of, by hockey-stick divergences; return its kind.

    Raises:
        Unsafe: it states too little.
    """
    promise = charges.promised(certificate.entries, delta)
    if promise.epsilon == float("inf"):
        return None
    laws = everything if promise.kind == "budget" else shown
    allowed = {"block": float(delta), "sum": 0.0, "budget": float(promise.delta)}[promise.kind]
    for one, other in itertools.permutations(laws, 2):
        if alike(certificate.neighbors, one, other, users):
            found = float(np.maximum(laws[one] - np.exp(promise.epsilon) * laws[other], 0).sum())
            if found > allowed + 1e-9:
                raise Unsafe(f"{certificate.at(delta)}: delta is {found}")
    return f"{promise.kind} {certificate.neighbors.name}"


def local_laws(mechanism: Any, rows: Sequence[int]) -> Laws:
    """The laws of the answers of some records."""
    table, laws = mechanism.matrix(), {}
    for world in WORLDS:
        law = np.ones(1)
        for row in rows:
            law = np.multiply.outer(law, table[world[row]]).ravel()
        laws[world] = law
    return laws


def sum_laws(noise: np.ndarray, sums: Callable[[Any], Any]) -> Laws:
    """The laws of noisy sums: noise on the integers around 0, moved, its ends joined."""
    laws = {}
    for world in WORLDS:
        law = np.ones(1)
        for move in np.asarray(sums(np.array(world))).ravel().astype(int).tolist():
            places = np.clip(np.arange(len(noise)) + move, 0, len(noise) - 1)
            law = np.multiply.outer(law, np.bincount(places, weights=noise, minlength=len(noise))).ravel()
        laws[world] = law
    return laws


def choose(curator: Curator, rng: random.Random) -> Made:
    """Release something, for the users of a curator if it has some."""
    kind = rng.choice(["answers", "answers", "some answers", "sum", "gaussian"])
    if kind.endswith("answers"):
        mechanism = ldp.RandomizedResponse(domain=DOMAIN, epsilon=rng.choice([0.1, 0.2, 0.8]))
        holder, rows = curator, np.arange(3)
        if kind == "some answers" and curator.users is not None:
            holder, rows = curator.limited(1)
        return Made(holder.release(mechanism, rng=SYSTEM), local_laws(mechanism, rows.tolist()))
    if kind == "sum":
        total = LaplaceSum(domain=DOMAIN, epsilon=0.5, groups=Public(np.zeros(3, dtype=int), why="made up"))
        noise = total.law_between(np.arange(-REACH, REACH + 1), [0])
        return Made(curator.release(total, rng=SYSTEM), sum_laws(noise, total.counts))
    ones = Public(np.ones((3, 1)), why="made up")
    scale = {"epsilon": 0.5, "delta": 0.2, "resolution": 1}
    moment = GaussianMoment(domain=DOMAIN, features=ones, users=curator.users, **scale)
    noise = moment.noise_law(np.arange(-REACH // 2, REACH // 2 + 1))
    return Made(curator.release(moment, rng=SYSTEM), sum_laws(noise, moment.sums))


BUDGETS = (ldp.Budget(1), ldp.Budget(1, "0.3"), ldp.Budget(2, "0.05"), ldp.Budget(0.7, "0.01"))


def history(rng: random.Random, folder: Path, number: int) -> list[Made]:
    """Releases for users, for records, for other users and at random budgets, as far as an account admits them."""
    budget, durable = rng.choice(BUDGETS), rng.random() < 0.5
    memory, made = Ledger(budget, "people"), list[Made]()
    if durable:
        unit = rng.choice([None, None, Unit.ONE_LABEL, Unit.ONE_USER])
        LedgerFile(folder / f"{number}.db").add("people", budget, unit=unit)
    for _ in range(rng.randrange(2, 5)):
        ledger = LedgerFile(folder / f"{number}.db").dataset("people") if durable else memory
        try:
            users = rng.choice([None, WHOSE, WHOSE, np.array([0, 1, 1])])
            curator = Curator([0, 1, 1], domain=DOMAIN, ledger=ledger, ids=np.arange(3), users=users)
            if rng.random() < 0.3:
                response = ldp.RandomizedResponse(domain=DOMAIN, epsilon=0.1)
                curator.require({str(step): response for step in range(3)})
            one = replace(choose(curator, rng), users=users)
        except LabelDPError:
            continue
        if np.prod([each.laws[WORLDS[0]].size for each in (*made, one)]) > 1 << 16:
            break  # more outputs than can be counted
        if all(one.release.certificate.entries != each.release.certificate.entries for each in made):
            made.append(one)
    return made


def check_histories(count: int, folder: Path) -> dict[str, int]:
    """Check all statements about all releases of each history; return how often each kind was stated."""
    rng, kinds = random.Random(count), dict[str, int]()
    for number in range(count):
        made = history(rng, folder, number)
        for kind in check_all(made):
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def check_all(made: Sequence[Made]) -> Iterator[str]:
    """Check the statements about all sets of some releases, at several deltas; yield the kind of each."""
    if not made:
        return
    everything, users = together(made), next((each.users for each in made if each.users is not None), None)
    for size in range(1, len(made) + 1):
        for chosen in itertools.combinations(made, size):
            joint, shown = gather([each.release for each in chosen], lambda *_: None).certificate, together(chosen)
            for delta in ("0", "0.01", "0.05", "0.3"):
                if kind := check_statement(joint, delta, shown, everything, users):
                    yield kind


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.guarantee("labeldp.privacy:Protection", "one_unit")
def test_no_statement_is_above_what_the_laws_of_all_releases_show(count: int, tmp_path: Path) -> None:
    kinds = check_histories(count, tmp_path)
    stated = {f"{kind} {unit}" for kind in ("block", "sum", "budget") for unit in ("ONE_LABEL", "ONE_USER")}
    assert set(kinds) == stated, kinds


def of_case(path: Path, users: Any = None) -> Curator:
    """A curator of an account with the budget (1.5, 0.05)."""
    ledger = LedgerFile(path).dataset("people", budget=ldp.Budget(1.5, "0.05"))
    return Curator([0, 1, 1], domain=DOMAIN, ledger=ledger, ids=np.arange(3), users=users)


def answers(curator: Curator, epsilon: float) -> Made:
    mechanism = ldp.RandomizedResponse(domain=DOMAIN, epsilon=epsilon)
    users = None if curator.users is None else WHOSE
    return Made(curator.release(mechanism, rng=SYSTEM), local_laws(mechanism, range(3)), users)


def noisy_sum(curator: Curator) -> Made:
    """A sum for users without a pure guarantee, of which nothing is looked at."""
    ones = Public(np.ones((3, 1)), why="made up")
    scale = {"epsilon": 0.2, "delta": "0.001", "resolution": 1}
    moment = GaussianMoment(domain=DOMAIN, features=ones, users=curator.users, **scale)
    return Made(curator.release(moment, rng=SYSTEM), {world: np.ones(1) for world in WORLDS}, WHOSE)


def records_first(path: Path) -> list[Made]:
    """A release for records that costs a user twice as much, then two for users."""
    return [answers(of_case(path), 1), noisy_sum(of_case(path, WHOSE)), answers(of_case(path, WHOSE), 0.01)]


def test_a_budget_that_was_charged_for_records_is_stated_for_records(tmp_path: Path) -> None:
    first, one, other = made = records_first(tmp_path / "l.db")
    joint = gather([one.release, other.release], lambda *_: None).certificate
    assert one.release.certificate.neighbors is other.release.certificate.neighbors is Unit.ONE_USER
    assert joint.neighbors is Unit.ONE_LABEL
    assert "one label of dataset" in joint.at("0.05") and "the whole budget, for all releases" in joint.at("0.05")
    assert "All releases of the dataset together protect one label only." in one.release.certificate.at("0.05")
    assert "budget ONE_LABEL" in set(check_all(made))
    again = gather([first.release, one.release], lambda *_: None).certificate
    assert again.neighbors is Unit.ONE_LABEL


def test_statements_that_forget_what_the_account_keeps_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = records_first(tmp_path / "l.db")
    monkeypatch.setattr(certificate_file, "stated_unit", lambda entries: common_unit(each.unit for each in entries))
    with pytest.raises(Unsafe, match="all labels of one user"):
        list(check_all(made))


def test_an_account_that_forgets_its_unit_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases for users first: then one for records must be refused."""
    path = tmp_path / "l.db"
    made = [noisy_sum(of_case(path, WHOSE)), answers(of_case(path, WHOSE), 0.01)]
    with pytest.raises(LedgerError, match="protects all labels of one user, and this would protect one label only"):
        of_case(path)
    monkeypatch.setattr(Protection, "admit", lambda self, unit, users, dataset: Protection(Unit.ONE_USER, self.users))
    made.append(answers(of_case(path), 1))
    with pytest.raises(Unsafe, match="all labels of one user"):
        list(check_all(made))


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_plan_for_records_has_no_step_for_users(tmp_path: Path, kind: str) -> None:
    """Else a user would be told the cost of a plan whose other steps cost them more."""
    budget = ldp.Budget(3)
    ledger = Ledger(budget, "people") if kind == "memory" else LedgerFile(tmp_path / "l.db").dataset(
        "people", budget=budget
    )  # fmt: skip
    made = {"labels": [0, 1, 1], "domain": DOMAIN, "ledger": ledger}
    single, shared = Curator(**made), Curator(**made, users=WHOSE)
    large, small = (ldp.RandomizedResponse(domain=DOMAIN, epsilon=epsilon) for epsilon in (0.8, 0.4))
    single.require({"large": large, "larger": large})
    first = single.release(large, rng=SYSTEM)
    assert shared.cost(small).max_loss == single.cost(large).max_loss
    user = shared.release(ldp.RandomizedResponse(domain=DOMAIN, epsilon=0.4), rng=SYSTEM)
    assert user.certificate.entries[0].plan is None and first.certificate.entries[0].plan is not None
    assert ledger.spent.epsilon() == pytest.approx(0.8 * 2 + 0.8)
    with pytest.raises(InputError):
        Certificate.from_json(replace(user.certificate, entries=first.certificate.entries).to_json())


# Losses of rounds: against any others, or against none.


def table(epsilon: float, unit: Unit) -> np.ndarray:
    """Three outputs for each loss, 0, 1 and 2; two of them are up to e^epsilon times as likely in a neighbor."""
    tilt = epsilon if unit is Unit.ZERO_OUT else epsilon / 2
    first = 0.25 * np.exp(tilt * np.array([0, 1, -1]))
    second = 0.25 * np.exp(tilt * np.array([0, -1, 1]))
    return np.stack([first, second, 1 - first - second], axis=1)


@dataclass(frozen=True)
class Coin:
    """A mechanism on the loss of one round, as far as a ledger looks at it."""

    neighbors: Unit
    trust = Trust.CENTRAL
    published, assumptions, basis = "a coin", (), ()

    def arrays(self) -> None:
        return None


def toss(ledger: Any, epsilon: Fraction, unit: Unit, number: int, loss: PrivacyLoss | None = None) -> Made:
    """Charge a loss, pure by default, and show what the pure one may show."""
    loss = PrivacyLoss.pure(epsilon) if loss is None else loss
    traces = (("row numbers", "losses", "digest"),)
    request = PendingCharge({"mechanism": "Coin", "number": number}, loss, labels="1", traces=traces, unit=unit)
    with ledger.charging(request, Coin(unit)) as draw:
        draw.value = np.zeros(1)
    law = table(float(epsilon) if loss.max_loss is not None else 0, unit)
    return Made(draw.release, {(value,): law[value] for value in range(3)})


def check_rounds(count: int, folder: Path) -> set[str]:
    rng, kinds = random.Random(count), set[str]()
    for number in range(count):
        budget, durable, made = rng.choice(BUDGETS), rng.random() < 0.2, list[Made]()
        ledger: Any = Ledger(budget, "rounds")
        if durable:
            ledger = LedgerFile(folder / f"{number}.db").dataset("rounds", budget=budget)
        for toss_number in range(rng.randrange(1, 7)):
            unit, epsilon = rng.choice([Unit.ONE_LOSS, Unit.ZERO_OUT]), Fraction(rng.choice([1, 2, 4]), 8)
            try:
                made.append(toss(ledger, epsilon, unit, toss_number))
            except LabelDPError:
                continue
        kinds |= set(check_all(made))
    return kinds


def test_no_statement_about_rounds_is_above_what_all_releases_show(tmp_path: Path) -> None:
    stated = {f"{kind} {unit}" for kind in ("block", "sum", "budget") for unit in ("ONE_LOSS", "ZERO_OUT")}
    assert check_rounds(40, tmp_path) == stated


def test_an_account_of_rounds_that_forgets_its_unit_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protection, "admit", lambda self, unit, users, dataset: Protection(Unit.ONE_LOSS))
    ledger = Ledger(ldp.Budget(1.2, "0.05"), "rounds")
    made = [toss(ledger, Fraction(1), Unit.ZERO_OUT, 0)]
    made += [toss(ledger, Fraction(1, 20), Unit.ONE_LOSS, number, PrivacyLoss.gaussian(0.01)) for number in (1, 2)]
    with pytest.raises(Unsafe, match="the losses of one round of dataset"):
        list(check_all(made))


def test_rounds_against_none_are_refused_where_any_losses_are_protected(tmp_path: Path) -> None:
    for ledger in (Ledger(ldp.Budget(3)), LedgerFile(tmp_path / "l.db").dataset("labels", budget=ldp.Budget(3))):
        toss(ledger, Fraction(1), Unit.ONE_LOSS, 0)
        with pytest.raises(LedgerError, match=r'nothing was charged. Plan it for any losses \(neighbors="replace"'):
            toss(ledger, Fraction(1), Unit.ZERO_OUT, 1)
        assert ledger.spent.epsilon() == 1 and ledger.protection == Protection(Unit.ONE_LOSS)
    other = Ledger(ldp.Budget(3), "labels")
    toss(other, Fraction(1), Unit.ZERO_OUT, 0)
    toss(other, Fraction(1), Unit.ONE_LOSS, 1)
    assert other.protection.unit is Unit.ZERO_OUT and other.spent.epsilon() == 2


def test_labels_and_rounds_share_no_account(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path / "l.db").dataset("people", budget=ldp.Budget(3))
    Curator([0, 1, 1], domain=DOMAIN, ledger=ledger).release(
        ldp.RandomizedResponse(domain=DOMAIN, epsilon=1), rng=SYSTEM
    )
    with pytest.raises(LedgerError, match="protects one label, and this would protect the losses of one round only"):
        ldp.online.PrivateExperts(d=3, horizon=20, epsilon=1, ledger=ledger)
    assert ledger.spent.epsilon() == 1


# A unit that is declared.


def test_a_declared_unit_stays(tmp_path: Path) -> None:
    file, budget = LedgerFile(tmp_path / "l.db"), ldp.Budget(1)
    file.add("people", budget, unit=Unit.ONE_USER)
    file.add("people", budget, unit=Unit.ONE_USER)
    file.add("people", budget)
    with pytest.raises(LedgerError, match="protects all labels of one user, and not one label: that stays"):
        file.add("people", budget, unit=Unit.ONE_LABEL)
    with pytest.raises(LedgerError, match="takes no cohorts"):
        file.add_cohort("people", "first", np.arange(3))
    made = {"labels": [0, 1, 1], "domain": DOMAIN, "ledger": file.dataset("people")}
    with pytest.raises(LedgerError, match="this would protect one label only; nothing was charged"):
        Curator(**made)
    answers(Curator(**made, users=WHOSE), 0.1)
    file.change("people", budget=ldp.Budget(2))
    assert file.dataset("people").protection.unit is Unit.ONE_USER


@pytest.mark.guarantee("labeldp.privacy:Protection", "one_map")
def test_an_account_has_one_map_whatever_its_unit(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    for epsilon, users in ((0.1, None), (0.01, WHOSE)):
        answers(of_case(path, users), epsilon)
    with pytest.raises(LedgerError, match="one map from records to users"):
        of_case(path, np.array([0, 1, 1]))


@pytest.mark.parametrize(
    ("units", "common"),
    [
        ([Unit.ONE_USER], Unit.ONE_USER),
        ([Unit.ONE_USER, Unit.ONE_LABEL], Unit.ONE_LABEL),
        ([Unit.FULL, Unit.ONE_USER], Unit.ONE_LABEL),
        ([Unit.FULL, Unit.FULL], Unit.FULL),
        ([Unit.ONE_LOSS, Unit.ZERO_OUT], Unit.ZERO_OUT),
        ([Unit.ONE_LOSS], Unit.ONE_LOSS),
    ],
)
def test_the_common_unit_is_the_largest_that_all_cover(units: list[Unit], common: Unit) -> None:
    assert common_unit(units) is common is common_unit(units[::-1])
    for other in Unit:
        assert not all(each.covers(other) for each in units) or common.covers(other)


def test_labels_and_losses_have_no_common_unit() -> None:
    for units in itertools.product((Unit.ONE_LABEL, Unit.ONE_USER, Unit.FULL), (Unit.ONE_LOSS, Unit.ZERO_OUT)):
        with pytest.raises(InputError, match="releases must share a unit of protection"):
            common_unit(units)
