"""Label-only gradients of any module: those of autograd, released for all steps together, and learned from."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from labeldp.curator import Curator
from labeldp.mechanisms import Classes, Interval
from labeldp.networks import fit_descent
from labeldp.networks.descent import _Gradients, projected, to_simplex
from labeldp.privacy import Budget, BudgetExceeded, InputError, Public


def made(count: int = 600) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, count)
    table = rng.normal(size=(count, 4)) * 0.3
    table[np.arange(count), labels] += 1
    return table, labels


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def descent(module: Any = None, budget: float = 8.0, **changes: Any) -> Any:
    table, labels = made()
    curator = Curator(labels, domain=Classes(3), budget=Budget(budget, 1e-6))
    given = {"features": table, "epsilon": 8.0, "delta": 1e-6, "rate": 8.0, "rng": np.random.default_rng(1)}
    module = Public(small(), why="drawn from a public seed") if module is None else module
    return fit_descent(curator=curator, module=module, **{**given, **changes})


def test_rows_are_minus_the_gradients_that_autograd_finds() -> None:
    table, labels = made(5)
    module, inputs = small(), torch.as_tensor(table, dtype=torch.float32)
    rows = _Gradients(module, inputs, 3).of(np.arange(5))
    for record in range(5):
        module.zero_grad()
        functional.cross_entropy(module(inputs[record : record + 1]), torch.tensor([labels[record]])).backward()
        slope = torch.cat([each.grad.flatten() for each in module.parameters()])
        assert np.allclose(rows[record, labels[record]], -slope.numpy(), atol=1e-6)


@pytest.mark.guarantee("labeldp.networks:fit_descent", "approximate")
@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("module", [small, lambda: nn.Linear(4, 3)])
def test_any_module_learns_and_all_steps_cost_what_was_asked_for(module: Any, project: bool) -> None:
    release = descent(Public(module(), why="drawn from a public seed"), project=project)
    table, labels = made()
    assert np.mean(release.value.predict(table) == labels) > 0.85
    certificate = release.certificate
    assert certificate.epsilon(1e-6) <= 8 and certificate.epsilon(1e-6) > 7.8
    assert certificate.trust.name == "CENTRAL" and len(certificate.entries) == 16
    assert "the first weights do not depend on the private labels (drawn from a public seed)" in certificate.at(1e-6)


def test_the_module_that_was_given_stays_as_it_is() -> None:
    module = small()
    before = [each.detach().clone() for each in module.parameters()]
    descent(Public(module, why="a test"), epochs=1)
    assert all(torch.equal(one, other) for one, other in zip(before, module.parameters(), strict=True))


def test_a_projection_lies_in_the_hull_and_takes_noise_away() -> None:
    corners = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    assert np.allclose(projected(np.array([9.0, 5.0]), corners), [0.75, 0.0], atol=1e-3)
    assert np.allclose(to_simplex(np.array([0.2, 0.3, 0.5])), [0.2, 0.3, 0.5])
    assert to_simplex(np.array([5.0, 1.0])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"module": small()}, r"module must be Public\(torch.nn.Module"),
        ({"module": Public(nn.Linear(4, 2), why="a test")}, "module must map features to 3 scores"),
        ({"features": np.zeros((3, 4))}, r"features must be finite numbers, shape \(600, d\)"),
        ({"epochs": 0}, "epochs must be an integer"),
        ({"batches": 301}, "batches must be an integer from 1 to 300"),
        ({"rate": 0}, "rate must be"),
        ({"delta": 0}, "delta must lie in"),
    ],
)
def test_bad_input_gets_one_error_and_nothing_is_charged(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        descent(**changes)


def test_a_budget_that_does_not_admit_all_steps_and_numbers_are_refused() -> None:
    with pytest.raises(BudgetExceeded):
        descent(budget=7.9)
    curator = Curator(np.zeros(9), domain=Interval(0, 1), budget=Budget(1, 1e-6))
    with pytest.raises(InputError, match="curator must hold classes"):
        fit_descent(
            np.zeros((9, 4)),
            curator,
            module=Public(small(), why="a test"),
            epsilon=1,
            delta=1e-6,
            rng=np.random.default_rng(0),
        )
