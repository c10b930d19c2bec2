"""A budget is a limit: exact, checked before anything is drawn."""

import math
import threading
from fractions import Fraction

import numpy as np
import pytest

from labeldp.curator import Ledger
from labeldp.mechanisms import Classes, RandomizedResponse
from labeldp.privacy import Budget, BudgetExceeded, InputError, PendingCharge, PrivacyLoss

pure = PrivacyLoss.pure


def request(loss: PrivacyLoss, *path: tuple[str, int]) -> PendingCharge:
    """A request for some part."""
    return PendingCharge({"mechanism": "Example"}, loss, path)


@pytest.mark.parametrize(
    ("budget", "loss", "fits"),
    [
        (Budget(1), pure(0.1) * 10, True),
        (Budget(1), pure(0.1) * 9 + pure("0.1000000000000000001"), False),
        (Budget(np.float32(0.3)), pure(0.1) * 3, True),
        (Budget("0.3"), pure(0.1) * 3, True),
        (Budget(Fraction(1, 3)), pure(Fraction(1, 3)), True),
        (Budget(1), PrivacyLoss.gaussian(0.001), False),
        (Budget(1, "1e-6"), PrivacyLoss.approximate(1, 1e-6), True),
        (Budget(1, 1e-6), PrivacyLoss.approximate(0.1, "1e-7") * 10, True),
        (Budget(1, 1e-6), PrivacyLoss.approximate(0.1, "1e-7") * 11, False),
        (Budget(1, 1e-6), PrivacyLoss.gaussian(0.2), True),
        (Budget(1, 1e-6), PrivacyLoss.gaussian(0.3), False),
        (Budget(1), pure("1.01"), False),
    ],
)
def test_a_budget_is_exact(budget: Budget, loss: PrivacyLoss, fits: bool) -> None:
    assert budget.admits(loss) is fits


@pytest.mark.parametrize(
    ("epsilon", "delta", "sentence"),
    [
        (0, 0, "epsilon must be positive"),
        (-1, 0, "epsilon must be positive"),
        (math.nan, 0, "epsilon must be finite"),
        (math.inf, 0, "epsilon must be finite"),
        (None, 0, "epsilon must be a number"),
        (1, -1e-9, "delta must lie in"),
        (1, 1, "delta must lie in"),
        (1, math.nan, "delta must be finite"),
    ],
)
def test_what_is_no_budget_is_refused(epsilon: object, delta: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Budget(epsilon, delta)


@pytest.mark.guarantee("labeldp.curator:Ledger", "charged_first")
def test_nothing_is_drawn_before_its_charge_is_recorded() -> None:
    ledger, seen = Ledger(Budget(1)), []
    mechanism = RandomizedResponse(domain=Classes(2), epsilon=1)
    with ledger.charging(request(pure(1)), mechanism) as draw:
        seen.append(len(ledger.charges))
        draw.value = 7
    assert (draw.release.value, draw.release.certificate.entries, seen) == (7, ledger.charges, [1])
    with pytest.raises(BudgetExceeded), ledger.charging(request(pure("1e-9")), mechanism):
        seen.append("drawn")
    assert seen == [1]
    assert ledger.spent.epsilon() == 1.0


def test_a_draw_that_fails_stays_charged() -> None:
    ledger = Ledger(Budget(2))
    with pytest.raises(MemoryError), ledger.charging(request(pure(1)), "mechanism"):
        raise MemoryError
    assert ledger.spent.epsilon() == 1.0


def test_a_refusal_says_what_it_would_come_to() -> None:
    ledger = Ledger(Budget(1), name="income")
    ledger.record(request(pure(0.75)))
    with pytest.raises(BudgetExceeded, match=r"budget exceeded for 'income': epsilon = 0\.75 of 1 is spent") as e:
        ledger.record(request(pure("0.2500001")))
    assert "bring it to 1.0000001. Nothing was charged" in str(e.value)
    assert len(ledger.charges) == 1


def test_parts_share_a_budget() -> None:
    ledger = Ledger(Budget(1))
    for part in range(5):
        ledger.record(request(pure(1), ("split", part)))
    assert ledger.spent.epsilon() == 1.0
    for path in ([("split", 0)], [("other", 0)], []):
        with pytest.raises(BudgetExceeded):
            ledger.record(request(pure(0.1), *path))


def test_threads_cannot_overspend_together() -> None:
    ledger, start, refused = Ledger(Budget(1)), threading.Barrier(8), []

    def spend() -> None:
        start.wait()
        for _ in range(10):
            try:
                ledger.record(request(pure(0.1)))
            except BudgetExceeded:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ledger.charges), len(refused)) == (10, 70)


def test_splits_of_two_ledgers_never_count_as_one() -> None:
    from labeldp.privacy import total_loss

    charges = [Ledger(Budget(1)).record(request(pure(1), ("split", part))) for part in range(2)]
    assert total_loss(charges).epsilon() == 2.0


def test_a_ledger_needs_a_budget() -> None:
    with pytest.raises(InputError, match="budget must be a Budget"):
        Ledger(1.0)


def test_what_a_ledger_shows() -> None:
    ledger = Ledger(Budget(np.float64(0.5), "1e-6"), name="income")
    assert repr(ledger) == "Ledger(name='income', budget=(epsilon = 0.5, delta = 1e-06), charges=0)"
    assert str(Budget(1.0000001)) == "epsilon = 1.0000001, delta = 0"
    assert "SECRET" not in repr(PendingCharge({}, pure(1), labels="SECRET", traces=(("any", "any", "SECRET"),)))


def test_a_budget_without_delta_says_so_where_a_release_has_one() -> None:
    """It said "this would bring it to epsilon = inf"."""
    ledger = Ledger(Budget(1.0), name="income")
    words = "budget exceeded for 'income': it is epsilon = 1, delta = 0, and this costs a delta. Use delta = 0"
    with pytest.raises(BudgetExceeded, match=words):
        ledger.record(PendingCharge({}, PrivacyLoss.gaussian(0.1)))
    assert ledger.charges == ()
