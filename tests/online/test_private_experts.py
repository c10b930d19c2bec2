"""The stateful face of the experts: charged first, atomic, silent; one round or many, known horizon or not."""

import copy
import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import labeldp as ldp
from labeldp.accounting import Policy
from labeldp.online import NamedExperts, PrivateExperts, plan_experts
from labeldp.privacy import Randomness, RandomnessKind, Unit, randomness, total_loss

D, T = 4, 300


def learner(seed: int = 0, **changed: Any) -> PrivateExperts:
    """A simulated learner."""
    arguments = {"d": D, "horizon": T, "epsilon": 1, "delta": 1e-6, "rng": np.random.default_rng(seed)}
    return PrivateExperts(**{**arguments, **changed})


def losses(rounds: int, seed: int = 1) -> np.ndarray:
    """Losses of which the first expert has the smallest."""
    found = np.random.default_rng(seed).random((rounds, D))
    found[:, 0] /= 4
    return found


class Counted(Randomness):
    """Randomness that says how often it was asked."""

    kind = RandomnessKind.SYSTEM

    def __init__(self) -> None:
        self.asked = 0
        self.before: Callable[[], None] = lambda: None

    def fill(self, words: Any, ids: Any = None, lane: Any = 0) -> None:
        self.before()
        self.asked += 1
        ldp.SystemRandomness().fill(words)

    def record_ids(self, ids: Any, count: int) -> Any:
        return np.broadcast_to(np.uint64(0), (count,))


@pytest.mark.guarantee("labeldp.online:PrivateExperts", "charged_first")
def test_a_learner_is_charged_before_it_draws() -> None:
    ledger, rng = ldp.Ledger(ldp.Budget(1, 1e-6), "clicks"), Counted()

    def charged() -> None:
        assert len(ledger.charges) == 1

    rng.before = charged
    made = PrivateExperts(D, T, 1, rng=rng, ledger=ledger)
    assert rng.asked and total_loss(ledger.charges).within(1, 1e-6) and total_loss(ledger.charges).epsilon(1e-6) > 0.9
    drawn = rng.asked
    with pytest.raises(ldp.BudgetExceeded):
        PrivateExperts(D, T, 1, rng=rng, ledger=ledger)
    assert rng.asked == drawn and len(ledger.charges) == 1
    made.update(losses(T))
    assert len(ledger.charges) == 1


@pytest.mark.guarantee("labeldp.online:PrivateExperts", "shown")
def test_predict_draws_nothing() -> None:
    rng = Counted()
    made = PrivateExperts(D, T, 1, rng=rng)
    for rounds in (1, 7, 50):
        drawn = rng.asked
        first = made.predict()
        assert [made.predict() for _ in range(5)] == [first] * 5 and rng.asked == drawn
        assert made.update(losses(rounds))[0] == first
    assert made.rounds == 58


def test_losses_may_come_dense_sparse_as_a_pair_or_as_levels() -> None:
    dense = np.zeros((1, D))
    dense[0, [2, 1]] = 0.5, 1.0
    forms = [dense[0], dense, sparse.coo_matrix(dense), sparse.csr_array(dense), ([2, 1], [0.5, 1.0])]
    made = [learner(epsilon=50) for _ in range(7)]
    for one, form in zip(made, forms, strict=False):
        one.update(form)
    made[5].update_levels([[0, 255, 128, 0]])
    made[6].update_levels(([2, 1], [128, 255]))
    after = [one.update(losses(200)).tolist() for one in made]
    assert after == [after[0]] * 7
    assert after[0] != learner(epsilon=50).update(losses(200)).tolist()


def test_clicks_are_losses_and_a_level_of_one_is_not_a_loss_of_one() -> None:
    """Integers and truth values are numbers in [0, 1] where they are 0 or 1."""
    clicks = np.array([[0, 1, 1, 0], [1, 0, 0, 1]])
    forms = [clicks, clicks.tolist(), clicks == 1, clicks.astype(np.uint8), sparse.csr_array(clicks), clicks * 1.0]
    made = [learner(epsilon=50) for _ in range(7)]
    for one, form in zip(made, forms, strict=False):
        one.update(form)
    made[6].update_levels(clicks * 255)
    for one in made:
        one.update(([2], [1]))
        one.update(([], []))
        one.update_levels(([], []))
    after = [one.update(losses(200)).tolist() for one in made]
    assert after == [after[0]] * 7 and made[0].rounds == 205
    assert {one.update_levels(np.ones((1, D), int)).size for one in made} == {1}


def test_a_learner_learns() -> None:
    played = learner(horizon=20_000, epsilon=10).update(losses(20_000))
    assert (played[10_000:] == 0).mean() > 0.9


WRONG_LOSSES = [
    (np.full(D, 1.5), "numbers in .0, 1."),
    (np.full(D, -0.1), "numbers in .0, 1."),
    (np.full(D, np.nan), "none of them missing"),
    (np.zeros(D + 1), "losses have 5 columns, but there are 4 experts"),
    (np.zeros((2, 3, 4)), r"losses have shape \(2, 3, 4\)"),
    (np.zeros((0, D)), r"losses have shape \(0, 4\)"),
    (np.array(["0.5"] * D), "these are text"),
    (np.array([0, 1, 1, 2]), "integers: levels that are rounded already go to update_levels"),
    (np.zeros((T + 1, D)), "more rounds than the 300 that are left"),
    (sparse.csr_array(np.full((1, D), 2.0)), "numbers in .0, 1."),
    (([0, 0], [0.5, 0.5]), "different numbers of experts"),
    (([D], [0.5]), "different numbers of experts from 0 to 3"),
    (([-1], [0.5]), "different numbers of experts"),
    (([0.5], [0.5]), "integers for indices"),
    (([0, 1], [0.5]), "one shape"),
    (([0], [0.5], [0.5]), "a tuple .indices, values."),
    (([0], [2]), "go to update_levels"),
    (([0], [1.5]), "numbers in .0, 1."),
    (([0], ["0.7"]), "numbers of one shape"),
    (([0, [1]], [0.5, 0.7]), "numbers of one shape"),
]


@pytest.mark.guarantee("labeldp.online:PrivateExperts", "refusal")
@pytest.mark.parametrize(("wrong", "words"), WRONG_LOSSES)
def test_of_a_refused_update_nothing_is_used(wrong: Any, words: str) -> None:
    made, other = learner(), learner()
    with pytest.raises(ldp.privacy.InputError, match=words):
        made.update(wrong)
    assert made.rounds == 0 and len(made.ledger.charges) == 1
    assert made.update(losses(T)).tolist() == other.update(losses(T)).tolist()


@pytest.mark.parametrize("wrong", [[[0, 1, 2, 256]], [[0.0] * D], [[0, 1, 2]], [[-1, 0, 0, 0]]])
def test_levels_are_checked(wrong: Any) -> None:
    made = learner()
    with pytest.raises(ldp.privacy.InputError, match=r"integers from 0 to 255|3 columns"):
        made.update_levels(wrong)
    assert made.rounds == 0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"d": 1}, "d must be"),
        ({"horizon": 0}, "horizon must be"),
        ({"horizon": 2.5}, "horizon must be"),
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"epsilon": float("inf")}, "epsilon must be"),
        ({"delta": 1}, "delta must lie"),
        ({"delta": -1e-9}, "delta must lie"),
        ({"delta": 0}, "delta must be positive"),
        ({"method": "best"}, "method must be"),
        ({"neighbors": "one"}, "neighbors must be"),
        ({"loss_bits": 7}, "loss_bits must be"),
        ({"rng": ldp.KeyedRandomness(b"k" * 32)}, "keyed randomness would repeat"),
        ({"rng": 3}, "rng must be"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_charged(changed: dict[str, Any], words: str) -> None:
    ledger = ldp.Ledger(ldp.Budget(1000, 0.9))
    with pytest.raises(ldp.privacy.InputError, match=words):
        learner(ledger=ledger, **changed)
    assert ledger.charges == ()


def test_a_budget_is_no_ledger() -> None:
    with pytest.raises(ldp.privacy.InputError, match="ledger must be one, such as"):
        learner(ledger=ldp.Budget(1, 1e-6))


def test_after_the_horizon_there_is_nothing_to_predict() -> None:
    made = learner()
    made.update(losses(T))
    for further in (made.predict, lambda: made.update(losses(1)), lambda: made.update_levels([[0] * D])):
        with pytest.raises(ldp.privacy.InputError, match=r"^the horizon of 300 rounds is over$"):
            further()


def test_what_was_spent_is_a_function_of_the_number_of_rounds() -> None:
    one, other = learner(0), learner(1)
    before = 0.0
    for _ in range(3):
        one.update(losses(100, seed=2))
        other.update(losses(100, seed=3))
        spent = one.spent.epsilon(1e-6)
        assert spent == other.spent.epsilon(1e-6) and before < spent <= one.certificate.epsilon(1e-6)
        before = spent
    assert one.spent == total_loss(one.ledger.charges) and one.spent.losses == (one.certificate.entries[0].loss,)


def test_every_action_counts_and_the_losses_of_the_last_round_are_never_seen() -> None:
    made = learner(method="shrinking-dartboard")
    loss = made.plan.kernel.privacy_loss
    assert total_loss(made.ledger.charges).losses == (loss(T - 1),) and loss(T - 1).epsilon(1e-6) > loss(T - 2).epsilon(
        1e-6
    )
    assert made.spent.losses == (ldp.PrivacyLoss.zero(),)
    made.update(losses(2))
    assert made.spent.losses == (loss(2),) and loss(2).epsilon(1e-6) > loss(1).epsilon(1e-6), (
        "the action of round 3 is known"
    )
    made.update(losses(T - 3))
    assert made.spent.losses == (loss(T - 1),)
    made.update(losses(1))
    assert made.spent.losses == (loss(T - 1),)


@pytest.mark.parametrize(("neighbors", "kind"), [("replace", Unit.ONE_LOSS), ("zero-out", Unit.ZERO_OUT)])
def test_the_certificate_speaks_of_rounds(neighbors: str, kind: Unit) -> None:
    made = PrivateExperts(D, T, 1, neighbors=neighbors, dataset="clicks")
    text = made.certificate.at(1e-6)
    assert made.certificate.neighbors is kind
    assert "of dataset 'clicks' (central: a trusted curator sees the losses)" in text
    assert "Published:  the action of each round, for 300 rounds" in text
    assert "SIMULATION" not in text and "SIMULATION" in learner().certificate.at(1e-6)
    assert ldp.Certificate.from_json(made.certificate.to_json()) == made.certificate


def test_the_plan_is_public_and_made_before_any_data() -> None:
    assert learner().plan == plan_experts(D, T, 1.0, 1e-6)
    assert learner(method="l2p").plan.method == "l2p"


@pytest.fixture
def short_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs of 8, 16, 32, … rounds."""
    monkeypatch.setattr("labeldp.online.learner.FIRST_EPOCH_ROUNDS", 8)


@pytest.mark.usefixtures("short_epochs")
def test_without_a_horizon_epochs_of_twice_the_rounds_cost_the_worst_of_them() -> None:
    made = learner(horizon=None)
    played = made.update(losses(20))
    assert len(played) == 20 and [c.mechanism["rounds"] for c in made.ledger.charges] == [8, 16]
    assert made.update(losses(3))[0] in range(D) and made.plan.horizon == 16
    first = (made.update(losses(1)), made.predict())[1]
    assert [c.mechanism["rounds"] for c in made.ledger.charges] == [8, 16, 32] and made.plan.horizon == 32
    assert made.update(losses(100))[0] == first
    [split] = {split for charge in made.ledger.charges for split, _ in charge.path}
    assert [charge.path for charge in made.ledger.charges] == [((split, part),) for part in range(5)]
    assert total_loss(made.ledger.charges).within(1, 1e-6) and made.spent.within(1, 1e-6)
    assert "for 248 rounds" in made.certificate.at(1e-6) and made.rounds == 124


@pytest.mark.usefixtures("short_epochs")
def test_an_epoch_that_the_ledger_does_not_admit_leaves_the_learner_as_it_was() -> None:
    ledger = ldp.Ledger(ldp.Budget(1, 1e-6), policy=Policy.PLAN)
    made = learner(horizon=None, ledger=ledger)
    made.update(losses(5))
    before = made.predict()
    books = ledger._books
    ledger._books = replace(books, account=books.account.under(ldp.Budget(0.01, 1e-7)))
    with pytest.raises(ldp.BudgetExceeded):
        made.update(losses(10))
    assert made.rounds == 5 and made.predict() == before and len(ledger.charges) == 1
    ledger._books = books
    assert made.update(losses(10))[0] == before and len(ledger.charges) == 2


def test_threads_share_a_learner() -> None:
    made = learner(horizon=400, rng=None)
    played: list[int] = []

    def play() -> None:
        for row in losses(50):
            played.extend(made.update(row).tolist())

    workers = [threading.Thread(target=play) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert made.rounds == 400 == len(played)


def test_a_learner_is_not_copied() -> None:
    made = learner()
    for doubled in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ldp.privacy.InputError, match="state_dict"):
            doubled(made)


def test_a_fork_of_the_process_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    made = learner()
    monkeypatch.setattr(randomness.os, "getpid", lambda: -1)
    for further in (lambda: made.update(losses(1)), made.state_dict):
        with pytest.raises(ldp.privacy.InputError, match="its fork"):
            further()


def test_reprs_show_sizes_only() -> None:
    made = learner()
    made.update(np.full((10, D), 54321 / 65536))
    assert repr(made) == "PrivateExperts(d=4, horizon=300, rounds=10, method='dartboard')"
    assert "array" not in repr(made._epoch) and "array" not in repr(made._epoch.state)


def test_experts_may_have_names() -> None:
    choice = NamedExperts(["a", "b", "c", "d"], learner())
    for _ in range(3):
        played = choice.pull()
        choice.update(dict.fromkeys("dcba", 0.5))
        assert played in choice.names
    assert choice.learner.rounds == 3
    with pytest.raises(ldp.privacy.InputError, match="for each expert by its name"):
        choice.update({"a": 1.0})
    for wrong in ("0.73 or so", None, [0.5, 0.7]):
        with pytest.raises(ldp.privacy.InputError, match=r"losses must be (finite )?numbers") as refused:
            choice.update({"a": wrong, "b": 0.5, "c": 0.5, "d": 0.5})
        assert "0.7" not in str(refused.value)
    for names in (["a", "b"], ["a", "a", "b", "c"]):
        with pytest.raises(ldp.privacy.InputError, match="names must be different, one for each of 4 experts"):
            NamedExperts(names, learner())
