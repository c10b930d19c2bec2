"""Learners go on from snapshots: once, or paid for again; and from epoch to epoch where the horizon is not known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.online import Ball, PrivateExperts, PrivateOnlineConvex, dump_state, load_state
from labeldp.online import learner as learners
from labeldp.online.snapshots import SnapshotClaims
from labeldp.privacy import Budget, DomainError, InputError, total_loss
from online.kinds import BUDGET, KINDS, Kind


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process knows of snapshots."""
    monkeypatch.setattr(learners, "_CLAIMS", SnapshotClaims())


def interrupted(*arguments: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name, kind in KINDS.items() for method in kind.methods]
)
@pytest.mark.parametrize("horizon", [200, None])
def test_a_snapshot_holds_everything(
    name: str, method: str, horizon: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, rng = KINDS[name], np.random.default_rng(0)
    made = kind.made(method=method, horizon=horizon, rng=rng, epsilon=20)
    made.update(kind.losses(70))
    other = kind.resumed(load_state(dump_state(made.state_dict())), seed=5)
    assert np.array_equal(other.predict(), made.predict()) and other.rounds == 70
    assert other.plan.to_json() == made.plan.to_json()
    assert other.spent == made.spent and other.certificate.entries[0].loss == made.certificate.entries[0].loss
    rng.bit_generator.state = np.random.default_rng(5).bit_generator.state
    another_process(monkeypatch)  # both go on, to compare them
    played = made.update(kind.losses(100, seed=2)).tolist()
    another_process(monkeypatch)
    assert other.update(kind.losses(100, seed=2)).tolist() == played


@pytest.mark.guarantee("labeldp.online:ChargedLearner", "charged_first")
@pytest.mark.guarantee("labeldp.online:ChargedLearner", "refusal")
@pytest.mark.guarantee("labeldp.online:ChargedLearner", "paid_once")
def test_all_is_charged_first_and_nothing_of_a_refused_update_is_used(kind: Kind) -> None:
    ledger = ldp.Ledger(BUDGET)
    made, other = kind.made(ledger=ledger), kind.made()
    assert len(ledger.charges) == 1 and ledger.charges[0].loss == made.certificate.entries[0].loss
    for wrong in (kind.losses(201), np.full((1, 3), np.nan), kind.losses(3)[:, :2]):
        with pytest.raises(ldp.privacy.InputError):
            made.update(wrong)
    assert made.rounds == 0 and made.update(kind.losses(50)).tolist() == other.update(kind.losses(50)).tolist()
    with pytest.raises(ldp.privacy.InputError, match="more rounds than the 150 that are left of the horizon of 200"):
        made.update(kind.losses(151))
    made.update(kind.losses(150))
    for over in (made.predict, lambda: made.update(kind.losses(1))):
        with pytest.raises(ldp.privacy.InputError, match="the horizon of 200 rounds is over"):
            over()


@pytest.mark.guarantee("labeldp.online:PrivateOnlineConvex", "paid_once")
@pytest.mark.guarantee("labeldp.online:PrivateExperts", "paid_once")
@pytest.mark.guarantee("labeldp.online:ChargedLearner", "paid_once")
def test_whoever_goes_on_first_uses_the_snapshot_up(kind: Kind) -> None:
    made = kind.made()
    made.update(kind.losses(10))
    state = made.state_dict()
    one, other = kind.resumed(state), kind.resumed(state)
    one.update(kind.losses(5))
    for late in (made, other):
        with pytest.raises(ldp.privacy.InputError, match="continued already"):
            late.update(kind.losses(5))
        assert late.rounds == 10
    with pytest.raises(ldp.privacy.InputError, match="continued already"):
        kind.resumed(state)
    again = one.state_dict()
    one.update(kind.losses(1))
    with pytest.raises(ldp.privacy.InputError, match="second release of the same losses"):
        kind.resumed(again)


def test_an_update_that_failed_does_not_use_up_the_right_to_go_on(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = kind.made(rng=None, ledger=LedgerFile(tmp_path / "ledger.db").dataset("clicks", budget=BUDGET))
    for _ in range(2):
        made.state_dict()
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("labeldp.online.learner.Epoch.played", interrupted)
            made.update(kind.losses(1))
    state = made.state_dict()
    assert len(made.update(kind.losses(3))) == 3
    with pytest.raises(ldp.privacy.InputError, match="continued already"):
        kind.resumed(state, ledger=made.ledger)


def test_a_second_release_is_charged_as_one(kind: Kind) -> None:
    ledger = ldp.Ledger(ldp.Budget("2.2", "2.2e-6"))
    made = kind.made(ledger=ledger)
    made.update(kind.losses(10))
    state = made.state_dict()
    made.update(kind.losses(10))
    second = kind.resumed(state, ledger=ledger, pay=True)
    assert [charge.loss for charge in ledger.charges] == [made.certificate.entries[0].loss] * 2
    assert not total_loss(ledger.charges).within(1.2, 2e-6) and second.certificate.entries == ledger.charges[1:]
    second.update(kind.losses(5))
    with pytest.raises(ldp.BudgetExceeded):
        for _ in range(9):
            kind.resumed(state, ledger=ledger, pay=True)
    charged = len(ledger.charges)
    with pytest.raises(ldp.privacy.InputError, match="ledger must be given with pay=True"):
        kind.resumed(state, pay=True)
    assert 2 <= len(ledger.charges) == charged < 9


def test_a_durable_ledger_tells_every_process(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people = LedgerFile(tmp_path / "ledger.db").dataset("clicks", budget=BUDGET)
    made = kind.made(rng=None, ledger=people)
    made.update(kind.losses(10))
    state = made.state_dict()
    another_process(monkeypatch)
    other = kind.learner.from_state_dict(state, ledger=people)
    late = kind.learner.from_state_dict(state, ledger=people)
    assert other.certificate == made.certificate
    other.update(kind.losses(1))
    another_process(monkeypatch)
    for refused in (lambda: late.update(kind.losses(1)), lambda: made.update(kind.losses(1))):
        with pytest.raises(ldp.privacy.InputError, match="continued already"):
            refused()
    with pytest.raises(ldp.privacy.InputError, match="continued already"):
        kind.learner.from_state_dict(state, ledger=people)
    assert total_loss(people.charges) == total_loss(made.certificate.entries)
    with pytest.raises(ldp.BudgetExceeded):
        kind.learner.from_state_dict(state, ledger=people, pay=True)


def test_a_ledger_without_the_charge_is_refused(kind: Kind) -> None:
    made = kind.made(ledger=ldp.Ledger(BUDGET))
    with pytest.raises(ldp.privacy.InputError, match="ledger must hold the charge of this learner"):
        kind.resumed(made.state_dict(), ledger=ldp.Ledger(BUDGET))
    state = made.state_dict()
    state["settings"] = {**state["settings"], "epsilon": 0.5}
    with pytest.raises(ldp.privacy.InputError, match="state is not one"):
        kind.resumed(state, ledger=made.ledger)


def test_a_simulation_stays_one(kind: Kind) -> None:
    state = kind.made().state_dict()
    assert "SIMULATION" in kind.learner.from_state_dict(state).certificate.at(1e-6)


def test_going_on_costs_no_more(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labeldp.online.learner.FIRST_EPOCH_ROUNDS", 8)
    made = kind.made(horizon=None)
    made.update(kind.losses(30))
    other = kind.resumed(made.state_dict())
    assert [charge.loss for charge in other.ledger.charges] == [charge.loss for charge in made.ledger.charges]
    other.update(kind.losses(30))
    parts = [part for charge in other.ledger.charges for _, part in charge.path]
    assert parts == [0, 1, 2, 3] and total_loss(other.ledger.charges).within(1, 1e-6)


def test_without_a_horizon_there_are_epochs_and_the_worst_of_them_counts(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However rounds are divided into calls; each epoch begins anew, with a plan of its own."""
    monkeypatch.setattr("labeldp.online.learner.FIRST_EPOCH_ROUNDS", 8)
    whole, parts = kind.made(horizon=None), kind.made(horizon=None, rng=None)
    played = whole.update(kind.losses(100))
    assert len(played) == 100 and whole.rounds == 100
    for part in np.split(kind.losses(100), [1, 7, 8, 9, 24, 90]):
        parts.update(part)
    for learner in (whole, parts):
        paths = [charge.path for charge in learner.ledger.charges]
        assert [path[0][1] for path in paths] == [0, 1, 2, 3] and len({path[0][0] for path in paths}) == 1
        assert [charge.mechanism["rounds"] for charge in learner.ledger.charges] == [8, 16, 32, 64]
        most = max((charge.loss for charge in learner.ledger.charges), key=lambda loss: loss.epsilon(1e-6))
        assert total_loss(learner.ledger.charges).epsilon(1e-6) == most.epsilon(1e-6) <= 1
        assert learner.spent.within(1, 1e-6) and learner.certificate.epsilon(1e-6) <= 1
        assert "for 120 rounds" in learner.certificate.at(1e-6) or "120 rounds" in learner.certificate.published
        assert learner.plan.horizon == 64 and "horizon=None, rounds=100" in repr(learner)


def test_an_epoch_begins_anew(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is played in it depends on no loss of an earlier one: with the same words it is the same."""
    monkeypatch.setattr("labeldp.online.learner.FIRST_EPOCH_ROUNDS", 8)
    seen = []
    for first in (kind.losses(8, seed=3), kind.losses(8, seed=4)):
        rng = np.random.default_rng(0)
        made = kind.made(horizon=None, rng=rng)
        made.update(first[:7])
        state = np.random.default_rng(9).bit_generator.state
        made.update(first[7:])
        rng.bit_generator.state = state
        made._epoch = made._opened(1)
        seen.append(made.update(kind.losses(16, seed=5)).tolist())
    assert seen[0] == seen[1]


def test_an_epoch_that_the_ledger_does_not_admit_is_not_begun(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labeldp.online.learner.FIRST_EPOCH_ROUNDS", 8)
    ledger = ldp.Ledger(ldp.Budget(1, 1e-6))
    made = kind.made(horizon=None, ledger=ledger)
    made.update(kind.losses(7))
    ledger._books = replace(ledger._books, account=ledger._books.account.under(ldp.Budget(0.001, 1e-9)))
    with pytest.raises(ldp.BudgetExceeded):
        made.update(kind.losses(1))
    assert made.rounds == 7 and len(ledger.charges) == 1


def test_a_snapshot_of_the_other_kind_is_refused() -> None:
    states = {name: kind.made().state_dict() for name, kind in KINDS.items()}
    for name, kind in KINDS.items():
        for other in states.keys() - {name}:
            with pytest.raises(ldp.privacy.InputError, match="state is not one that state_dict"):
                kind.resumed(states[other])


@pytest.mark.parametrize("bad", [[2.0, 0.0, 0.0], [float("nan"), 0.0, 0.0], ["7731773", 0.0, 0.0]])
def test_a_ledger_file_counts_losses_that_are_refused(tmp_path: Path, bad: list[Any]) -> None:
    """Each refusal may tell one bit of the losses: it is on disk before it is told, and a wrong shape is none."""
    account = LedgerFile(tmp_path / "l.ledger").dataset("losses", budget=Budget(4, 1e-5))
    experts = PrivateExperts(d=3, horizon=9, epsilon=1, delta=1e-6, ledger=account)
    convex = PrivateOnlineConvex(Ball(3, 1.0), 9, epsilon=1, delta=1e-6, ledger=account)
    for number, update in enumerate((experts.update, convex.update), start=1):
        with pytest.raises(InputError):
            update([0.0] * 4)
        with pytest.raises(DomainError) as caught:
            update(bad)
        assert caught.value.__context__ is None and "7731773" not in str(caught.value)
        assert [declared.refused for declared in account.read().domains] == [number]
