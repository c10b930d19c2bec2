"""Rewards from private preferences."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.decomposition import PCA

import labeldp as ldp
from labeldp.learners import RewardModel, preferences
from labeldp.privacy import InputError, Public, total_loss

DOMAIN = ldp.Classes(("A", "B"))


def pairs(count: int = 4000, position: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of both answers, and who was preferred, by rewards of the first feature less the second."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, count, 5))
    chance = expit(2 * ((a - b)[:, 0] - (a - b)[:, 1]) + position)
    return a, b, np.where(rng.random(count) < chance, "A", "B")


def learned(trust: Any, epsilon: float = 1.0, position: float = 0.0, **more: Any) -> ldp.Release[RewardModel]:
    a, b, better = pairs(position=position)
    delta = 1e-6 if trust == "central" else 0.0
    curator = ldp.Curator(better, domain=DOMAIN, budget=ldp.Budget(epsilon, delta))
    release = preferences(
        a, b, curator, epsilon=epsilon, delta=delta, trust=trust, rng=np.random.default_rng(1), **more
    )
    assert total_loss(curator.ledger.charges).within(str(epsilon), delta)
    return release


@pytest.mark.guarantee("labeldp.learners:preferences", "approximate")
@pytest.mark.guarantee("labeldp.learners:preferences", "pure")
@pytest.mark.parametrize("trust", ["central", "local"])
def test_rewards_are_found(trust: Any) -> None:
    release = learned(trust)
    model = release.value
    direction = model.direction / np.linalg.norm(model.direction)
    assert direction @ np.array([1, -1, 0, 0, 0]) / 2**0.5 > 0.97
    a, b, better = pairs(seed=9)
    assert np.mean(model.predict(a, b) == better) > 0.8
    np.testing.assert_allclose(model.predict_proba(a, b)[:, ::-1], model.predict_proba(b, a))
    assert release.certificate.epsilon(1e-6 if trust == "central" else 0) <= 1.0000001


@pytest.mark.parametrize("trust", ["central", "local"])
def test_a_habit_of_answering_a_is_no_reward(trust: Any) -> None:
    model = learned(trust, epsilon=4.0, position=1.0).value
    assert 0.5 < model.position < 1.6
    a, b, _ = pairs(seed=9)
    assert abs(np.mean(model.predict(a, b) == "A") - 0.5) < 0.05


@pytest.mark.parametrize("trust", ["central", "local"])
def test_pairs_that_are_kept_evaluate_the_model(trust: Any) -> None:
    model = learned(trust, epsilon=4.0, evaluation=0.25).value
    found = model.evaluation.accuracy()
    assert found.low < 0.86 < found.high + 0.03 and len(model.evaluation.rows) == 1000


def test_an_encoder_may_be_fitted_to_answers_or_given() -> None:
    assert learned("local", 4.0, representation=PCA(3, random_state=0)).value.direction.shape == (3,)
    encoder = PCA(5).fit(np.random.default_rng(3).normal(size=(50, 5)))
    release = learned("central", 4.0, representation=Public(encoder, why="fitted to other texts"))
    assert any("fitted to other texts" in each for each in release.certificate.assumptions)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"features_b": np.zeros((4, 3))}, "features_b must have the columns of features_a"),
        ({"features_a": np.zeros((3, 2)), "features_b": np.zeros((3, 2))}, "one row for each record"),
        ({"trust": "none"}, "trust must be"),
        ({"trust": "local", "delta": 1e-6}, 'delta must be 0 with trust="local"'),
        ({"evaluation": 1}, "evaluation must be a share"),
        ({"epsilon": -1}, "epsilon must be positive"),
        ({"domain": ldp.Classes(3)}, "curator must hold two classes"),
        ({"domain": ldp.Interval(0, 1)}, "curator must hold two classes"),
    ],
)
def test_wrong_arguments_charge_nothing(changes: dict[str, Any], words: str) -> None:
    domain = changes.get("domain", ldp.Classes(2))
    curator = ldp.Curator([0, 1, 1, 0], domain=domain, budget=ldp.Budget(1, 1e-6))
    arguments = {"features_a": np.zeros((4, 2)), "features_b": np.ones((4, 2)), "epsilon": 1.0, **changes}
    arguments.pop("domain", None)
    sides = [arguments.pop(name) for name in ("features_a", "features_b")]
    with pytest.raises(InputError, match=words):
        preferences(*sides, curator, rng=np.random.default_rng(0), **arguments)
    assert curator.ledger.spent.epsilon() == 0


@pytest.mark.parametrize("trust", ["central", "local"])
@pytest.mark.parametrize("evaluation", [0.0, 0.25])
@pytest.mark.parametrize("answers", [(1.0, 1.0), (1.0, 0.0), (1e308, -1e308)])
def test_pairs_that_nothing_can_be_learned_from_charge_nothing(
    trust: Any, evaluation: float, answers: tuple[float, float]
) -> None:
    """The local fit once refused them after it had charged."""
    curator = ldp.Curator([0, 1] * 25, domain=ldp.Classes(2), budget=ldp.Budget(1, 1e-6))
    a, b = (np.full((50, 3), each) for each in answers)
    with pytest.raises(InputError, match=r"features must not be constant|finite"):
        preferences(
            a, b, curator, epsilon=1, delta=1e-6 if trust == "central" else 0.0, trust=trust, evaluation=evaluation,
            rng=np.random.default_rng(0),
        )  # fmt: skip
    assert curator.ledger.spent.epsilon() == 0
