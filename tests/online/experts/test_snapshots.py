"""Snapshots of learners: plain values, secret, continued once."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.online import PrivateExperts, dump_state, freeze, load_state, thaw
from labeldp.online.experts import private_experts as experts
from labeldp.online.experts.planning import METHODS
from labeldp.online.experts.snapshots import Tickets

D, T = 3, 200

FIELDS = ("settings", "dataset", "run", "rounds", "simulated", "epoch")

BUDGET = ldp.Budget(1, 1e-6)


def learner(seed: int = 0, **changed: Any) -> PrivateExperts:
    """A simulated learner."""
    arguments = {"d": D, "horizon": T, "epsilon": 1, "delta": 1e-6, "rng": np.random.default_rng(seed)}
    return PrivateExperts(**{**arguments, **changed})


def losses(rounds: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((rounds, D))


def resumed(state: Any, seed: int = 5, **changed: Any) -> PrivateExperts:
    """A simulated learner that goes on."""
    return PrivateExperts.from_state_dict(state, **{"rng": np.random.default_rng(seed), **changed})


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process knows of snapshots."""
    monkeypatch.setattr(experts, "_TICKETS", Tickets())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("horizon", [T, None])
def test_a_snapshot_holds_everything(method: str, horizon: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    made = learner(method=method, horizon=horizon, rng=rng, epsilon=20)
    made.update(losses(70))
    state = load_state(dump_state(made.state_dict()))
    other = resumed(state, seed=5)
    assert other.predict() == made.predict() and other.rounds == 70 and other.plan == made.plan
    assert other.spent == made.spent and other.certificate.loss == made.certificate.loss
    rng.bit_generator.state = np.random.default_rng(5).bit_generator.state
    monkeypatch.setattr(experts, "_TICKETS", Tickets())  # both go on, to compare them
    played = made.update(losses(100, seed=2)).tolist()
    monkeypatch.setattr(experts, "_TICKETS", Tickets())
    assert other.update(losses(100, seed=2)).tolist() == played


def test_whoever_goes_on_first_uses_the_snapshot_up() -> None:
    """A state is continued once, or paid for again."""
    made = learner()
    made.update(losses(10))
    state = made.state_dict()
    one, other = resumed(state), resumed(state)
    one.update(losses(5))
    for late in (made, other):
        with pytest.raises(ldp.InputError, match="continued already"):
            late.update(losses(5))
        assert late.rounds == 10
    with pytest.raises(ldp.InputError, match="continued already"):
        resumed(state)
    again = one.state_dict()
    one.update(losses(1))
    with pytest.raises(ldp.InputError, match="second release of the same losses"):
        resumed(again)


def test_an_update_that_failed_does_not_use_up_the_right_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = PrivateExperts(D, T, 1, ledger=LedgerFile(tmp_path / "ledger.db").dataset("clicks", budget=BUDGET))
    for _ in range(2):
        made.state_dict()
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("labeldp.online.experts.snapshots.Epoch.played", interrupted)
            made.update(losses(1))
    state = made.state_dict()
    assert len(made.update(losses(3))) == 3
    with pytest.raises(ldp.InputError, match="continued already"):
        resumed(state, ledger=made.ledger)


def interrupted(*arguments: Any) -> None:
    raise KeyboardInterrupt


def test_a_second_release_is_charged_as_one() -> None:
    ledger = ldp.Ledger(ldp.Budget(2, 2e-6))
    made = learner(ledger=ledger)
    made.update(losses(10))
    state = made.state_dict()
    made.update(losses(10))
    second = resumed(state, ledger=ledger, pay=True)
    assert [charge.loss for charge in ledger.charges] == [made.certificate.loss] * 2
    assert not ledger.spent.within(1.2, 2e-6) and second.certificate.entries == ledger.charges[1:]
    second.update(losses(5))
    ledger.budget = ldp.Budget(1, 2e-6)
    with pytest.raises(ldp.BudgetExceeded):
        resumed(state, ledger=ledger, pay=True)
    with pytest.raises(ldp.InputError, match="ledger must be given with pay=True"):
        resumed(state, pay=True)
    assert len(ledger.charges) == 2


def test_a_durable_ledger_tells_every_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people = LedgerFile(tmp_path / "ledger.db").dataset("clicks", budget=BUDGET)
    made = PrivateExperts(D, T, 1, ledger=people)
    made.update(losses(10))
    state = made.state_dict()
    another_process(monkeypatch)
    other = PrivateExperts.from_state_dict(state, ledger=people)
    late = PrivateExperts.from_state_dict(state, ledger=people)
    assert other.certificate == made.certificate
    other.update(losses(1))
    another_process(monkeypatch)
    for refused in (lambda: late.update(losses(1)), lambda: made.update(losses(1))):
        with pytest.raises(ldp.InputError, match="continued already"):
            refused()
    with pytest.raises(ldp.InputError, match="continued already"):
        PrivateExperts.from_state_dict(state, ledger=people)
    assert people.spent == made.certificate.loss
    with pytest.raises(ldp.BudgetExceeded):
        PrivateExperts.from_state_dict(state, ledger=people, pay=True)


def test_a_ledger_without_the_charge_is_refused() -> None:
    made = learner(ledger=ldp.Ledger(BUDGET))
    with pytest.raises(ldp.InputError, match="ledger must hold the charge of this learner"):
        resumed(made.state_dict(), ledger=ldp.Ledger(BUDGET))
    state = made.state_dict()
    state["settings"] = {**state["settings"], "epsilon": 0.5}
    with pytest.raises(ldp.InputError, match="state is not one"):
        resumed(state, ledger=made.ledger)


def test_a_simulation_stays_one() -> None:
    state = learner().state_dict()
    assert "SIMULATION" in PrivateExperts.from_state_dict(state).certificate.at(1e-6)


def test_going_on_costs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labeldp.online.experts.snapshots.FIRST_EPOCH_ROUNDS", 8)
    made = learner(horizon=None)
    made.update(losses(30))
    other = resumed(made.state_dict())
    assert [charge.loss for charge in other.ledger.charges] == [charge.loss for charge in made.ledger.charges]
    other.update(losses(30))
    parts = [part for charge in other.ledger.charges for _, part in charge.path]
    assert parts == [0, 1, 2, 3] and other.ledger.spent.within(1, 1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        None,
        {"format": 2},
        {"rounds": "many"},
        {"seen": T + 1, "rounds": T + 1},
        {"seen": 5},
        {"state": {"tree": {"kind": "os:system", "fields": {}}, "arrays": []}},
        {
            "state": {
                "tree": {"kind": "labeldp.online.experts:PrivateExperts", "fields": {}},
                "arrays": [],
            }
        },
        {"state": {"tree": {"kind": "labeldp.online.nowhere:State", "fields": {}}, "arrays": []}},
        {"state": {"tree": {"kind": "labeldp.online.experts.snapshots:Tickets", "fields": {}}, "arrays": []}},
        {
            "state": {
                "tree": {"kind": "labeldp.online.experts.snapshots:Snapshot", "fields": dict.fromkeys(FIELDS)},
                "arrays": [],
            }
        },
        {"state": {"tree": {"array": 3}, "arrays": []}},
    ],
)
def test_what_is_no_state_is_refused(wrong: Any) -> None:
    state = {**learner().state_dict(), **wrong} if wrong else wrong
    with pytest.raises(ldp.InputError, match="state is not one that state_dict"):
        resumed(state)


def test_stored_states_say_that_they_are_secret_and_notice_damage() -> None:
    content = dump_state(learner().state_dict())
    assert content.splitlines()[0] == b"labeldp learner state: as SECRET as the losses themselves"
    assert learner().state_dict()["warning"] == content.splitlines()[0].decode()
    for other in ("abc", 3, None, learner()):
        with pytest.raises(ldp.InputError, match="content must be bytes"):
            load_state(other)  # type: ignore[arg-type]
    for damaged in (b"", b"PK", content[:-1], content + b"x", content.replace(b"SECRET", b"public")):
        with pytest.raises(ldp.InputError, match="not a stored state of labeldp, or it is damaged"):
            load_state(damaged)


def test_values_of_states() -> None:
    state = (1, 2.5, None, True, "x", Fraction(1, 3), [np.arange(3)], np.int64(7), 2**80)
    back = thaw(freeze(state))
    assert back[:6] == state[:6] and back[6][0].tolist() == [0, 1, 2] and back[7:] == (7, 2**80)
    for value in (object(), np.array([object()]), lambda: 0):
        with pytest.raises(ldp.InputError, match="cannot be stored"):
            freeze(value)


def test_a_snapshot_shares_no_array_with_the_learner() -> None:
    made = learner()
    made.update(losses(50))
    state = made.state_dict()
    for array in state["state"]["arrays"]:
        array[...] = 0
    other = learner()
    other.update(losses(50))
    assert made.update(losses(100)).tolist() == other.update(losses(100)).tolist()
