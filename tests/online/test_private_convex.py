"""The stateful face of private convex learning, and its plans: charged first, and what it refuses."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

from labeldp.curator import Ledger
from labeldp.online import (
    Ball,
    Box,
    OnlinePlan,
    PrivateOnlineConvex,
    Unbounded,
    dump_state,
    load_state,
    methods_of,
    plan_convex,
)
from labeldp.privacy import Budget, BudgetExceeded, InputError, KeyedRandomness, Unit, total_loss

BODY = Ball(3, 0.5)

LINEAR = tuple(methods_of("convex"))[:-1]

SECRET = 54321.5


def learner(method: str = "matrix-factorization", **options: Any) -> PrivateOnlineConvex:
    """A small one, simulated."""
    options = {"rng": np.random.default_rng(1), "horizon": 200, "epsilon": 1.0, "delta": 1e-6, **options}
    return PrivateOnlineConvex(options.pop("body", BODY), method=method, **options)


class Uniform:
    """A sampler that says that it is nearly exact; nobody checks."""

    distance = 1e-12

    def draw(self, losses: Any, beta: float, strength: float, body: Any, *, rng: Any) -> np.ndarray:
        """The center."""
        return body.center


@pytest.mark.guarantee("labeldp.online:OnlinePlan", "kept")
@pytest.mark.parametrize("neighbors", ["replace", "zero-out"])
@pytest.mark.parametrize("method", LINEAR)
@pytest.mark.parametrize("body", [BODY, Box((0.0, -1.0), (1.0, 1.0)), Unbounded(2, 1.0)])
def test_a_plan_keeps_its_promise(method: str, neighbors: str, body: Any) -> None:
    if method in ("dartboard", "l2p") and not body.bounded:
        with pytest.raises(InputError, match="bounded"):
            plan_convex(body, 1000, 1.0, 1e-6, 1.0, method, neighbors=neighbors)
        return
    plan = plan_convex(body, 1000, 1.0, 1e-6, 2.0, method, neighbors=neighbors)
    assert plan.kernel.privacy_loss(1000).within(1.0, 1e-6)
    assert plan.kernel.privacy_loss(1000).epsilon(1e-6) > 0.5
    assert plan.method == method and plan.nonprivate_bound == pytest.approx(2 * body.radius * math.sqrt(1000))
    assert plan.regret_bound <= (2 * 2 * body.radius * 1000 if body.bounded else math.inf)
    expected = Unit.ZERO_OUT if neighbors == "zero-out" else Unit.ONE_LOSS
    assert plan.kernel.neighbors is expected
    assert plan.to_json()["parameters"]["lipschitz"] == 2.0


def test_the_least_bound_is_taken_and_the_others_are_told() -> None:
    plan = plan_convex(Ball(10, 0.5), 10_000, 1.0, 1e-6)
    assert plan.method == "matrix-factorization" and {other.method for other in plan.alternatives} == set(LINEAR) - {
        plan.method
    }
    assert plan.regret_bound < min(other.regret_bound for other in plan.alternatives)
    # The bounds of matrix factorization and of a draw after every batch, by hand: see docs/proofs/online-convex.md.
    assert plan.regret_bound == pytest.approx(73.2, rel=0.01)
    assert dict(plan.to_json()["alternatives"])["redraw"] == pytest.approx(684, rel=0.02)
    assert plan_convex(Ball(10, 0.5), 10_000, 1.0, 1e-6, losses="convex").regret_bound > 5 * plan.regret_bound
    assert plan_convex(Ball(10, 0.5), 10_000, 1.0, 1e-6, neighbors="zero-out").regret_bound < plan.regret_bound


@pytest.mark.guarantee("labeldp.online:PrivateOnlineConvex", "charged_first")
@pytest.mark.guarantee("labeldp.online:PrivateOnlineConvex", "shown")
@pytest.mark.guarantee("labeldp.online:PrivateOnlineConvex", "refusal")
@pytest.mark.parametrize("method", LINEAR)
def test_rounds_are_charged_first_and_points_shown_before(method: str) -> None:
    ledger = Ledger(Budget(1.0, 1e-6), "clicks")
    one = learner(method, ledger=ledger)
    assert len(ledger.charges) == 1 and total_loss(ledger.charges).epsilon(1e-6) <= 1
    gradients = np.random.default_rng(2).uniform(-0.5, 0.5, (200, 3))
    shown = one.predict()
    shown[:] = 9.0
    shown = one.predict()
    first = one.update(gradients[:7])
    assert np.array_equal(first[0], shown) and first.shape == (7, 3)
    before = one.predict()
    for bad in ([math.nan] * 3, [SECRET] * 3, [[0.1] * 2], np.zeros((194, 3))):
        with pytest.raises(InputError) as error:
            one.update(bad)
        assert str(SECRET) not in str(error.value)
    assert np.array_equal(before, one.predict()) and one.rounds == 7
    assert one.spent.epsilon(1e-6) <= one.certificate.epsilon(1e-6) <= 1
    rest = one.update(gradients[7:])
    assert one.rounds == 200 and np.linalg.norm(rest, axis=1).max() <= 0.5 + 1e-12
    for further in (one.predict, lambda: one.update(gradients[:1])):
        with pytest.raises(InputError, match=r"^the horizon of 200 rounds is over$"):
            further()
    with pytest.raises(BudgetExceeded):
        learner(method, ledger=ledger)
    assert len(ledger.charges) == 1


def test_a_certificate_speaks_of_rounds() -> None:
    text = learner().certificate.at(1e-6)
    assert "the losses of one round" in text and "the point of each round" in text
    assert "SIMULATION" in text and "SIMULATION" not in learner(rng=None).certificate.at(1e-6)
    assert learner().ledger.charges[0].mechanism["mechanism"] == "PrivateOnlineConvex"


def test_gradients_may_come_from_a_function_of_the_point() -> None:
    one = learner(losses="convex")
    asked = []
    point = one.update(lambda point: asked.append(point) or point / 10)
    assert np.array_equal(asked[0], point[0]) and one.rounds == 1
    with pytest.raises(InputError, match="shape"):
        one.update(lambda point: np.zeros((2, 3)))
    with pytest.raises(InputError, match="constants"):
        learner("redraw").update(lambda point: point / 10)
    with pytest.raises(InputError, match="constants"):
        learner("redraw", losses="convex")


@pytest.mark.parametrize("body", [BODY, Box((0.0, -1.0, 2.0), (1.0, 1.0, 3.5)), Unbounded(3, 1.0)])
def test_a_snapshot_names_its_body(body: Any) -> None:
    one = learner(body=body, lipschitz=2.5, clip=True, losses="convex", horizon=None)
    one.update(lambda point: point * 100)
    state = load_state(dump_state(one.state_dict()))
    other = PrivateOnlineConvex.from_state_dict(state, rng=np.random.default_rng(1))
    assert np.array_equal(other.predict(), one.predict()) and other.plan == one.plan
    assert other.update(lambda point: point * 100).shape == (1, 3), "longer gradients are clipped as before"


def test_what_cannot_be_stored_has_no_snapshot() -> None:
    with pytest.raises(InputError, match="a sampler of your own has no snapshots"):
        learner("sampler", sampler=Uniform()).state_dict()

    class Cube(Box):  # type: ignore[misc]
        """A body of one's own."""

    with pytest.raises(InputError, match="only where body is Unbounded, a Box or a Ball"):
        learner(body=Cube((0.0,), (1.0,))).state_dict()


def test_points_stay_in_the_body_over_epochs_and_follow_the_losses() -> None:
    """Without a horizon as with one: the regret is below the bounds of all epochs together."""
    gradients = np.tile([0.5, 0.0, -0.5], (7 * 1024, 1))
    one = learner(horizon=None, epsilon=5)
    points = one.update(gradients)
    assert np.linalg.norm(points, axis=1).max() <= 0.5 + 1e-12 and len(points) == len(gradients)
    best = -0.5 * np.linalg.norm(gradients.sum(axis=0))
    bounds = [plan_convex(BODY, 1024 << i, 5, 1e-6).regret_bound for i in range(3)]
    assert (gradients * points).sum() - best < sum(bounds)
    assert np.array_equal(points[1024], points[0]), "a new epoch begins in the center"


def test_what_a_gradient_function_raises_is_passed_on_and_nothing_is_used() -> None:
    """A point that no gradient was given for stays, and no noise is drawn."""
    one, other = learner(losses="convex"), learner(losses="convex")
    before = one.predict()

    def fails(point: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("the user's own")

    for wrong, raised in (
        (fails, ZeroDivisionError),
        (lambda point: "0.73", InputError),
        (lambda point: 1, InputError),
    ):
        with pytest.raises(raised) as error:
            one.update(wrong)
        assert "0.73" not in str(error.value)
    assert one.rounds == 0 and np.array_equal(one.predict(), before) and one.spent == other.spent
    for _ in range(5):
        assert np.array_equal(one.update(lambda point: point / 2), other.update(lambda point: point / 2))
    assert np.array_equal(one.predict(), other.predict())


def test_longer_gradients_are_clipped_when_asked() -> None:
    assert learner(clip=True).update(np.full((5, 3), SECRET)).shape == (5, 3)


def test_a_sampler_of_ones_own_answers_for_its_distance() -> None:
    one = learner("sampler", sampler=Uniform())
    assert one.update([abs, abs]).shape == (2, 3)
    assert any("within 1e-12" in text for text in one.certificate.assumptions)
    assert one.certificate.epsilon(1e-6) <= 1.0
    with pytest.raises(InputError, match="states its total variation"):
        learner("sampler")
    with pytest.raises(InputError, match="sampler is for"):
        learner("redraw", sampler=Uniform())
    with pytest.raises(InputError, match="states its total variation"):
        learner("sampler", sampler=object())
    poor = Uniform()
    poor.distance = 0.1
    with pytest.raises(InputError, match="worse than delta admits"):
        learner("sampler", sampler=poor)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"body": "ball"}, "body must be"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"horizon": 0}, "horizon"),
        ({"lipschitz": -1.0}, "lipschitz"),
        ({"losses": "quadratic"}, r"^losses must be 'linear' or 'convex'$"),
        ({"neighbors": "add"}, r"^neighbors must be 'replace' or 'zero-out'$"),
        ({"method": "best"}, "method"),
        ({"rng": KeyedRandomness(b"0" * 32)}, "keyed"),
        ({"rng": 3}, "rng"),
        ({"method": "redraw", "body": Ball(3000, 1.0)}, "at most 2048"),
    ],
)
def test_what_is_out_of_range_is_refused_and_nothing_is_charged(options: dict[str, Any], message: str) -> None:
    ledger = Ledger(Budget(1.0, 1e-6), "losses")
    with pytest.raises(InputError, match=message):
        learner(**{"method": "matrix-factorization", "ledger": ledger, **options})
    assert ledger.charges == ()


def test_a_budget_is_no_ledger() -> None:
    with pytest.raises(InputError, match="ledger must be one, such as"):
        learner(ledger=Budget(1.0, 1e-6))


def test_a_learner_is_not_copied_and_shows_nothing() -> None:
    one = learner()
    one.update(np.full((5, 3), 0.25))
    assert repr(one) == "PrivateOnlineConvex(horizon=200, rounds=5, method='matrix-factorization')"
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InputError, match=r"copied or pickled: .* Use state_dict\(\) and PrivateOnlineConvex"):
            copied(one)
    assert isinstance(one.plan, OnlinePlan)


def test_a_plan_reads_in_a_line() -> None:
    assert repr(plan_convex(Ball(10, 0.5), 10_000, "1", "1e-6")) == (
        "OnlinePlan('matrix-factorization', horizon=10000, epsilon=1.0, delta=1e-06, regret_bound=73.2111)"
    )
