"""Snapshots of learners: plain values, secret, continued once."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.online import (
    PrivateExperts,
    dump_state,
    load_state,
    methods_of,
)
from labeldp.online import learner as learners
from labeldp.online.snapshots import SnapshotClaims, from_plain, to_plain

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
    monkeypatch.setattr(learners, "_CLAIMS", SnapshotClaims())


@pytest.mark.parametrize("method", methods_of("experts"))
@pytest.mark.parametrize("horizon", [T, None])
def test_a_snapshot_holds_everything(method: str, horizon: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    made = learner(method=method, horizon=horizon, rng=rng, epsilon=20)
    made.update(losses(70))
    state = load_state(dump_state(made.state_dict()))
    other = resumed(state, seed=5)
    assert other.predict() == made.predict() and other.rounds == 70 and other.plan == made.plan
    assert other.spent == made.spent and other.certificate.entries[0].loss == made.certificate.entries[0].loss
    rng.bit_generator.state = np.random.default_rng(5).bit_generator.state
    monkeypatch.setattr(learners, "_CLAIMS", SnapshotClaims())  # both go on, to compare them
    played = made.update(losses(100, seed=2)).tolist()
    monkeypatch.setattr(learners, "_CLAIMS", SnapshotClaims())
    assert other.update(losses(100, seed=2)).tolist() == played


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
        {"state": {"tree": {"kind": "labeldp.online.snapshots:SnapshotClaims", "fields": {}}, "arrays": []}},
        {
            "state": {
                "tree": {"kind": "labeldp.online.snapshots:Snapshot", "fields": dict.fromkeys(FIELDS)},
                "arrays": [],
            }
        },
        {"state": {"tree": {"array": 3}, "arrays": []}},
    ],
)
def test_what_is_no_state_is_refused(wrong: Any) -> None:
    state = {**learner().state_dict(), **wrong} if wrong else wrong
    with pytest.raises(ldp.privacy.InputError, match="state is not one that state_dict"):
        resumed(state)


def test_stored_states_say_that_they_are_secret_and_notice_damage() -> None:
    content = dump_state(learner().state_dict())
    assert content.splitlines()[0] == b"labeldp learner state: as SECRET as the losses themselves"
    assert learner().state_dict()["warning"] == content.splitlines()[0].decode()
    for other in ("abc", 3, None, learner()):
        with pytest.raises(ldp.privacy.InputError, match="content must be bytes"):
            load_state(other)  # type: ignore[arg-type]
    for damaged in (b"", b"PK", content[:-1], content + b"x", content.replace(b"SECRET", b"public")):
        with pytest.raises(ldp.privacy.InputError, match="not a stored state of labeldp, or it is damaged"):
            load_state(damaged)


def test_values_of_states() -> None:
    state = (1, 2.5, None, True, "x", Fraction(1, 3), [np.arange(3)], np.int64(7), 2**80)
    back = from_plain(to_plain(state))
    assert back[:6] == state[:6] and back[6][0].tolist() == [0, 1, 2] and back[7:] == (7, 2**80)
    for value in (object(), np.array([object()]), lambda: 0):
        with pytest.raises(ldp.privacy.InputError, match="cannot be stored"):
            to_plain(value)


def test_a_snapshot_shares_no_array_with_the_learner() -> None:
    made = learner()
    made.update(losses(50))
    state = made.state_dict()
    for array in state["state"]["arrays"]:
        array[...] = 0
    other = learner()
    other.update(losses(50))
    assert made.update(losses(100)).tolist() == other.update(losses(100)).tolist()
