"""The loss of a module is the objective of linear heads, and its two passes give the gradient of one."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from labeldp.learners.likelihood import Posterior, SumsTerm
from labeldp.networks import released_loss


def released(rng: np.random.Generator) -> tuple[torch.Tensor, Posterior]:
    rows = rng.normal(size=(50, 4))
    labels = np.eye(3)[rng.integers(0, 3, 50)]
    sums = SumsTerm.of(rows, rows.T @ labels + rng.normal(size=(4, 3)), 1.0, 0.1)
    likelihood = rng.uniform(0.1, 1.0, (50, 3))
    return torch.tensor(rows), Posterior(rows, np.ones(4), sums=(sums,), likelihood=likelihood, soft=labels)


def whole(module: nn.Module, inputs: torch.Tensor, posterior: Posterior) -> torch.Tensor:
    """The same by its definition, in one graph."""
    logarithms = functional.log_softmax(module(inputs), dim=1)
    [term] = posterior.sums
    gap = torch.tensor(term.rows).T @ logarithms.exp() - torch.tensor(term.moment)
    sums = 0.5 * (gap**2 / torch.tensor(term.variance)[:, None]).sum()
    noisy = (torch.tensor(posterior.likelihood) * logarithms.exp()).sum(dim=1).log().sum()
    return sums - noisy - (torch.tensor(posterior.soft) * logarithms).sum()


@pytest.mark.parametrize("micro", [7, 50, 1000])
def test_two_passes_give_the_gradient_of_the_whole(micro: int) -> None:
    inputs, posterior = released(np.random.default_rng(0))
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    expected = whole(module, inputs, posterior)
    expected.backward()
    gradients = [each.grad.clone() for each in module.parameters()]
    module.zero_grad()
    assert released_loss(module, inputs, posterior, micro) == pytest.approx(float(expected.detach()), rel=1e-9)
    for parameter, gradient in zip(module.parameters(), gradients, strict=True):
        assert torch.allclose(parameter.grad, gradient, rtol=1e-9)


def test_a_linear_module_ends_where_the_head_does() -> None:
    inputs, posterior = released(np.random.default_rng(1))
    weak = Posterior(posterior.rows, np.full(4, 1e-9), sums=posterior.sums, likelihood=posterior.likelihood)
    best = torch.tensor(weak.largest(np.zeros((4, 3))))
    module = nn.Linear(4, 3, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(best.T)
    released_loss(module, inputs, weak)
    assert float(module.weight.grad.abs().max()) < 0.05
