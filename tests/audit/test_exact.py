"""The exact privacy of tables: by hand, against the mechanisms' own claims, and of mechanisms of others."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from audit.peers import LN_2, best_size, laplace_cdf, response, with_prior
from labeldp.audit import (
    AdditiveAudit,
    audit_additive,
    audit_mechanism,
    audit_table,
    composed,
)
from labeldp.mechanisms import Classes, FiniteMechanism, RandomizedResponse
from labeldp.privacy import InputError, PrivacyLoss, exp_bounds
from mechanisms.examples import EXAMPLES

UNIFORM = [Fraction(1, 10)] * 10
SKEWED = [Fraction(each, 100) for each in (40, 20, 10, 10, 5, 5, 4, 3, 2, 1)]
FINITE = {name: make for name, make in EXAMPLES.items() if isinstance(make(1.0), FiniteMechanism)}


def test_a_table_by_hand() -> None:
    audit = audit_table([["0.7", "0.2", "0.1"], ["0.1", "0.2", "0.7"], ["0.2", "0.4", "0.4"]], labels="abc")
    assert audit.ratio == 7
    assert str(audit.worst) in ("'a' against 'b', output '0'", "'b' against 'a', output '2'")
    assert audit.delta(0) == (Fraction(3, 5), Fraction(3, 5))
    assert audit.deltas(Fraction(2)) == [
        [0, Fraction(1, 2), Fraction(3, 10)],
        [Fraction(1, 2), 0, 0],
        [Fraction(1, 5), 0, 0],
    ]
    assert audit.epsilon() == pytest.approx(math.log(7))
    low, high = audit.epsilon_ends()
    assert low < high <= math.nextafter(low, 2)


def test_the_smallest_epsilon_at_a_delta_is_exact() -> None:
    """The curve of one pair, by hand: 0.8 - 0.2 t is 0.5 at t = 1.5."""
    audit = audit_table([["0.8", "0.2"], ["0.2", "0.8"]])
    assert audit._ratio_at(Fraction(1, 2)) == Fraction(3, 2)
    assert audit.epsilon("0.5") == pytest.approx(math.log(1.5))
    assert audit.epsilon("0.6") == 0.0


@given(st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=2, max_size=4), st.floats(0, 0.9))
def test_delta_and_epsilon_are_inverse_to_each_other(rows: list[list[int]], delta: float) -> None:
    table = [[value + (place == 0) for place, value in enumerate(row)] for row in rows]
    audit = audit_table([[Fraction(value, sum(row)) for value in row] for row in table])
    ratio = audit._ratio_at(Fraction(str(delta)))
    if ratio is None:
        assert audit.delta(100)[0] > delta
        return
    worst = max(max(row) for row in audit.deltas(ratio))
    assert worst <= Fraction(str(delta))
    assert worst == Fraction(str(delta)) or ratio == 1 or delta == 0 or worst < delta == 0
    epsilon = audit.epsilon(delta)
    assert audit.holds(epsilon, delta)


@pytest.mark.guarantee("labeldp.audit:TableAudit", "exact")
def test_holds_true_exactly_where_every_ordered_pair_of_labels_is_dp() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        weights = rng.integers(0, 5, (3, 4)) + np.eye(3, 4, dtype=int)
        rows = [[Fraction(int(each), int(row.sum())) for each in row] for row in weights]
        audit = audit_table(rows)
        for epsilon in (0, "0.25", "1", "2.5"):
            low, high = exp_bounds(Fraction(epsilon)) if epsilon else (Fraction(1), Fraction(1))
            true = [
                [sum(max(a - t * b, 0) for a, b in zip(rows[one], rows[two], strict=True)) for t in (high, low)]
                for one, two in permutations(range(3), 2)
            ]
            for delta in ("0", "0.01", "0.2", "0.5"):
                surely = all(each[1] <= Fraction(delta) for each in true)
                never = any(each[0] > Fraction(delta) for each in true)
                assert surely != never
                assert audit.holds(epsilon, delta) is surely


def test_a_claim_is_decided_between_neighbors_that_no_double_tells_apart() -> None:
    table = response(3, 1)
    audit = audit_table(table)
    assert audit.holds(1)
    assert not audit.holds("0.99999999999999999999999999999999")
    odds = exp_bounds(Fraction(1))[1]
    above = audit_table([[odds / (odds + 1), 1 / (odds + 1)], [1 / (odds + 1), odds / (odds + 1)]])
    assert not above.holds(1)
    assert above.holds("1.0000000000000000000000000000001")


def test_a_zero_against_a_positive_is_unbounded() -> None:
    audit = audit_table([[1, 0], ["0.5", "0.5"]])
    assert audit.ratio is None
    assert audit.epsilon() == math.inf
    assert not audit.holds(1000)
    assert audit.holds(1, "0.5") and not audit.holds(1, "0.49")
    assert audit.epsilon("0.4") == math.inf
    assert audit.to_json()["unbounded"] is True


def test_equal_rows_cost_nothing() -> None:
    audit = audit_table([["0.5", "0.5"], ["0.5", "0.5"]])
    assert audit.epsilon() == 0.0
    assert audit.holds(0)


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_mechanisms_keep_their_claims_and_no_less(name: str, epsilon: float) -> None:
    audits = audit_mechanism(FINITE[name](epsilon))
    assert all(audit.holds(epsilon) for audit in audits)
    assert max(audit.epsilon() for audit in audits) == pytest.approx(epsilon, rel=0.02)


def test_the_curve_is_the_claim_of_randomized_response() -> None:
    mechanism = RandomizedResponse(domain=Classes(5), epsilon=1)
    [audit] = audit_mechanism(mechanism)
    curve = audit.curve()
    assert curve is not None and curve.epsilons[0] == 0 and curve.low[-1] == pytest.approx(0, abs=1e-6)
    for epsilon, low, high in zip(curve.epsilons, curve.low, curve.high, strict=True):
        assert low <= high <= mechanism.privacy_loss().delta(epsilon) + 1e-15
        assert high == pytest.approx(mechanism.privacy_loss().delta(epsilon), abs=1e-6)


def test_one_peer_keeps_its_epsilon_but_below_ln_2_never_uses_the_label() -> None:
    for prior in (UNIFORM, SKEWED):
        for epsilon in ("0.1", "0.5", "0.69"):
            assert audit_table(with_prior(prior, epsilon, off=2)).ratio == 1
        for epsilon in ("0.7", "1", "3"):
            assert audit_table(with_prior(prior, epsilon, off=2)).holds(epsilon)
    assert best_size(UNIFORM, LN_2, off=2) > 1
    right = audit_table(with_prior(UNIFORM, "0.5"))
    assert right.holds("0.5") and right.epsilon() == pytest.approx(0.5)


def test_one_peer_draws_anew_in_each_epoch_and_pays_for_each() -> None:
    once = audit_table(response(3, 1))
    for epochs in (2, 5):
        audit = composed(once, epochs)
        assert audit.epsilon() == pytest.approx(epochs)
        assert audit.holds(epochs) and not audit.holds(epochs - 0.001)


def test_one_peer_answers_outside_of_its_candidates_and_is_unbounded() -> None:
    wrong = audit_table(with_prior(SKEWED, 1, outside="all"))
    assert wrong.ratio is None
    assert wrong.worst.output is not None
    assert not wrong.holds(1000)
    assert audit_table(with_prior(SKEWED, 1)).holds(1)


def test_rows_are_divided_by_their_sums_and_it_is_said_how_far_off_they_were() -> None:
    audit = audit_table([[0.1, 0.2, 0.7000000001], [0.2, 0.2, 0.6]])
    assert audit.rounding == Fraction(1, 10**10)
    whole = RandomizedResponse(domain=Classes(3), epsilon=1)
    assert audit_table(whole.weights()).rounding == 0
    assert audit_table(whole.weights()).ratio == audit_mechanism(whole)[0].ratio
    assert audit_table([["1/3", "2/3"], ["2/3", "1/3"]]).ratio == 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (1, "table must have a row"),
        ([[1.0]], "table must have two rows or more"),
        ([[0.5, 0.5], [1.0]], "all of one length"),
        ([[], []], "at least 1"),
        ([[0.5, 0.5], [0.5, 0.4]], "rows that sum to 1, and that of '1' sums to 0.9"),
        ([[1.5, -0.5], [0.5, 0.5]], "must not be negative"),
        ([["a", "b"], [1, 0]], "must be a number"),
        ([["1/0", "1"], [1, 0]], "must not be divided by 0"),
        ([[math.nan, 1.0], [1, 0]], "must be finite"),
        ([[0, 0], [0, 0]], "sum to 1"),
    ],
)
def test_what_is_no_table_is_refused(table: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        audit_table(table)


def test_claims_that_are_none_are_refused() -> None:
    audit = audit_table([[0.5, 0.5], [0.4, 0.6]])
    for epsilon, delta in ((-1, 0), ("x", 0), (1, 2), (1e4, 0)):
        with pytest.raises(InputError, match=r"epsilon must|delta must"):
            audit.holds(epsilon, delta)
    with pytest.raises(InputError, match="labels must name all 2"):
        audit_table([[0.5, 0.5], [0.4, 0.6]], labels=["one"])
    with pytest.raises(InputError, match="mechanism must be a mechanism whose law"):
        audit_mechanism(object())  # type: ignore[arg-type]


def test_a_table_that_is_too_large_for_all_pairs_still_has_its_epsilon() -> None:
    audit = audit_table(np.full((300, 200), 1))
    assert audit.epsilon() == 0
    assert audit.curve() is None
    assert audit.holds(0) and audit.to_json(1)["holds"] is True and "at_epsilon" not in audit.to_json(1)
    with pytest.raises(InputError, match="delta compares each pair"):
        audit.delta(1)


def laplace(scale: float, shifts: tuple[float, ...], cells: int) -> AdditiveAudit:
    return audit_additive(
        lambda x: laplace_cdf(x, scale),
        lambda x: -np.abs(x) / scale,
        shifts,
        edges=np.linspace(-20 * scale, 20 * scale, cells),
        tail_loss=max(map(abs, shifts)) / scale,
    )


@pytest.mark.guarantee("labeldp.audit:AdditiveAudit", "enclosed")
@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_the_true_delta_of_laplace_noise_lies_between_the_two_ends(scale: float) -> None:
    audit = laplace(scale, (1.0,), 4001)
    for epsilon in np.linspace(0, 1.1 / scale, 7):
        low, high = audit.delta(round(float(epsilon), 6))
        true = max(0.0, 1 - math.exp((round(float(epsilon), 6) - 1 / scale) / 2))
        assert low <= true <= high
        assert high - low < 0.01
    low, high = audit.epsilon()
    assert low <= 1 / scale <= high + 1e-12
    assert high - low < 1e-4


def test_the_true_delta_of_gaussian_noise_lies_between_the_two_ends() -> None:
    audit = audit_additive(ndtr, lambda x: -(x**2) / 2, (0.8,), edges=np.linspace(-9, 9, 6001))
    loss = PrivacyLoss.gaussian(0.8)
    for epsilon in (0, 0.5, 1, 2):
        low, high = audit.delta(epsilon)
        assert low <= loss.delta(epsilon) <= high + 1e-12
        assert high - low < 0.002
    low, high = audit.epsilon(0.01)
    assert low <= loss.epsilon(0.01) <= high
    assert audit.epsilon()[1] == math.inf


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_noisy_indicators_of_one_peer_keep_epsilon_and_no_less(epsilon: float) -> None:
    """Laplace noise of scale 2 / epsilon on the indicators of classes: two of them move by 1."""
    audit = laplace(2 / epsilon, (1.0, -1.0), 801)
    low, high = audit.epsilon()
    assert low <= epsilon <= high + 1e-12
    assert high - low < 1e-3
    least, most = audit.delta(round(epsilon / 2, 3))
    assert 0 < least < most < least + 0.05
    halved = laplace(1 / epsilon, (1.0, -1.0), 801)  # noise for one indicator alone
    assert halved.epsilon()[0] > 1.99 * epsilon


def test_what_cannot_be_bounded_is_refused() -> None:
    for shifts, edges, message in (
        ((), [0, 1], "shifts must hold one number or two"),
        ((1.0,), [1, 0], "edges must increase"),
        ((1.0,), [0], "edges must increase"),
        ((1.0, 1.0), np.linspace(0, 1, 5000), "2\\*\\*24 cells"),
    ):
        with pytest.raises(InputError, match=message):
            audit_additive(ndtr, lambda x: -(x**2) / 2, shifts, edges=edges)
    audit = laplace(1.0, (1.0,), 101)
    with pytest.raises(InputError, match="epsilon must not be negative"):
        audit.delta(-1)
    with pytest.raises(InputError, match=r"delta must lie in \[0, 1\]"):
        audit.epsilon(2)
