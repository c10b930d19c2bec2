"""Every loss by hand, and what makes it right: its expectation over the noise."""

import numpy as np
import pytest
import torch

import labeldp as ldp
from labeldp.learners import Evidence
from labeldp.networks import objective_of, targets
from labeldp.privacy import Public

DOMAIN = ldp.Classes(3)

LOGS = torch.log(torch.tensor([[0.7, 0.2, 0.1]]))

FIRST = torch.tensor([0])


def evidence(code: int, epsilon: float = 1.0) -> Evidence:
    return Evidence.made_by(ldp.RandomizedResponse(domain=DOMAIN, epsilon=epsilon), np.array([code], dtype=np.uint8))


def loss(name: str, code: int, **arguments: object) -> float:
    return float(objective_of(evidence(code), name, **arguments)(LOGS, FIRST))


def test_cross_entropy_by_hand() -> None:
    assert loss("cross-entropy", 1) == pytest.approx(-np.log(0.2))


def test_the_forward_loss_by_hand() -> None:
    keep = np.e / (np.e + 2)
    lie = (1 - keep) / 2
    assert loss("forward", 1) == pytest.approx(-np.log(0.2 * keep + 0.8 * lie))


def test_the_debiased_loss_by_hand() -> None:
    # Ghazi et al., eq. (17): p = 1 / (e + 2), all three classes may be answered.
    p, every = 1 / (np.e + 2), -np.log([0.7, 0.2, 0.1])
    assert loss("debiased", 1) == pytest.approx((every[1] - p * every.sum()) / (1 - 3 * p))


def test_the_debiased_loss_is_unbiased() -> None:
    matrix = evidence(0).matrix
    for truth in range(3):
        expected = sum(matrix[truth, code] * loss("debiased", code) for code in range(3))
        assert expected == pytest.approx(-float(LOGS[0, truth]))


def test_the_posterior_loss_by_hand() -> None:
    keep = np.e / (np.e + 2)
    joint = np.array([0.5, 0.3, 0.2]) * [(1 - keep) / 2, keep, (1 - keep) / 2]
    prior = np.array([[0.5, 0.3, 0.2]])
    assert loss("posterior", 1, prior=prior) == pytest.approx(-(joint / joint.sum()) @ np.log([0.7, 0.2, 0.1]))


def test_the_forward_gradient_is_that_of_the_posterior_under_the_network_itself() -> None:
    logits = torch.tensor([[0.3, -0.2, 0.5]], requires_grad=True)
    own = torch.softmax(logits, dim=1).detach().numpy()
    gradients = []
    for each in (objective_of(evidence(2), "forward"), objective_of(evidence(2), "posterior", own)):
        (gradient,) = torch.autograd.grad(each(torch.log_softmax(logits, dim=1), FIRST).sum(), logits)
        gradients.append(gradient)
    assert torch.allclose(gradients[0], gradients[1], atol=1e-6)


def test_distillation_is_smallest_at_the_teacher() -> None:
    teacher = targets([[0.6, 0.3, 0.1]])
    own = float(teacher(torch.log(torch.tensor([[0.6, 0.3, 0.1]])), FIRST))
    assert own < float(teacher(LOGS, FIRST))


def test_labels_that_were_answered_among_few_candidates_have_no_debiased_loss() -> None:
    prior = Public(np.array([[0.98, 0.01, 0.01]]), why="a test")
    mechanism = ldp.RandomizedResponseWithPrior(domain=DOMAIN, epsilon=1.0, prior=prior)
    found = Evidence.made_by(mechanism, np.array([0], dtype=np.uint8))
    with pytest.raises(ldp.privacy.NotInvertibleError, match="one stage without a prior"):
        objective_of(found, "debiased")
    with pytest.raises(ldp.InputError, match="loss must be one of"):
        objective_of(found, "hinge")
