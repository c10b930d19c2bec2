"""Losses of randomized preferences: their formulas, and what they are on average."""

import math

import pytest

torch = pytest.importorskip("torch")

from labeldp.networks import preference_loss  # noqa: E402
from labeldp.privacy import InputError  # noqa: E402


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("keep", [0.6, 0.75, 0.99])
@pytest.mark.parametrize("margin", [-3.0, -0.2, 0.0, 2.5])
def test_the_formulas(margin: float, keep: float) -> None:
    given = torch.tensor([margin], dtype=torch.float64)
    forward = -math.log(keep * sigmoid(margin) + (1 - keep) * sigmoid(-margin))
    assert float(preference_loss(given, keep)) == pytest.approx(forward)
    unbiased = (-keep * math.log(sigmoid(margin)) + (1 - keep) * math.log(sigmoid(-margin))) / (2 * keep - 1)
    assert float(preference_loss(given, keep, "unbiased")) == pytest.approx(unbiased)


def test_the_unbiased_loss_averages_to_that_of_the_truth() -> None:
    margin, keep = torch.tensor([0.7, -0.7], dtype=torch.float64), 0.8
    mean = keep * preference_loss(margin[:1], keep, "unbiased") + (1 - keep) * preference_loss(
        margin[1:], keep, "unbiased"
    )
    assert float(mean) == pytest.approx(-math.log(sigmoid(0.7)))


def test_the_forward_loss_is_bounded_and_finite_where_the_model_is_sure() -> None:
    margins = torch.tensor([-500.0, 500.0], requires_grad=True)
    losses = preference_loss(margins, 0.8)
    assert losses.tolist() == pytest.approx([-math.log(0.2), -math.log(0.8)], rel=1e-5)
    losses.sum().backward()
    assert torch.isfinite(margins.grad).all()
    assert float(preference_loss(torch.tensor([30.0]), 1.0)) == pytest.approx(0, abs=1e-6)


def test_what_is_no_probability_is_refused() -> None:
    for keep in (0.5, 0.2, 1.5, math.nan):
        with pytest.raises(InputError, match="keep must be a probability"):
            preference_loss(torch.zeros(1), keep)
    with pytest.raises(InputError, match="kind must be"):
        preference_loss(torch.zeros(1), 0.8, "robust")
