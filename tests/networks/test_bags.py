"""Networks on released bags: the loss by hand, the gradient of bags beyond memory, early stopping on released bags."""

from typing import Any

import numpy as np
import pytest
import torch

import labeldp as ldp
from labeldp import BagSum, Interval
from labeldp.bags import NoisyWeightedLLP, ReleasedSums
from labeldp.networks import BagTargets, appendix_network, train_bags, two_pass
from labeldp.privacy import InputError, Public

DOMAIN = Interval(-2, 2, grid=401)

WHY = "made up for a test"


def made(count: int, mechanism: Any, seed: int = 0) -> tuple[Any, Any, Any]:
    """Features, labels that are not linear in them, and a simulated release."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, (count, 2))
    labels = np.sign(features[:, 0]) + features[:, 1]
    curator = ldp.Curator(labels, domain=DOMAIN, budget=ldp.Budget(epsilon=1000, delta=0.9))
    return features, labels, curator.release(mechanism(Public(features, why=WHY)), rng=rng)


def sums(features: Any, size: int = 16) -> Any:
    """Sums over bags of similar records with little noise."""
    return BagSum(size, domain=DOMAIN, epsilon=50, features=features)


def test_the_loss_by_hand() -> None:
    targets = BagTargets(
        torch.tensor([1, 3, 0, 2]), torch.tensor([0, 2, 4]), torch.tensor([1.0, -1, 2, 1]), torch.tensor([3.0, 5.0])
    )
    records, places = targets.members(torch.tensor([1, 0]))
    assert records.tolist() == [0, 2, 1, 3] and places.tolist() == [0, 0, 1, 1]
    predictions = torch.tensor([1.0, 1.0, 2.0, 4.0])  # sums: 1 + 2 = 3, and -2 + 4 = 2
    assert float(targets.loss(predictions, torch.tensor([1, 0]))) == pytest.approx(((5 - 3) ** 2 + (3 - 2) ** 2) / 4)


@pytest.mark.parametrize("weights", ["rademacher", "gaussian", None])
def test_two_passes_have_the_gradient_of_one(weights: str | None) -> None:
    def mechanism(features: Any) -> Any:
        if weights is None:
            return sums(features)
        return NoisyWeightedLLP(16, 8, 1.0, weights, domain=DOMAIN, features=features)

    features, _, release = made(200, mechanism)
    targets, rows = BagTargets.of(release), torch.tensor(features, dtype=torch.float32)
    torch.manual_seed(0)
    module, bags = appendix_network(2), torch.tensor([3, 0, 7])
    records, _ = targets.members(bags)
    loss = targets.loss(module(rows[records]).reshape(-1), bags)
    loss.backward()
    expected = [parameter.grad.clone() for parameter in module.parameters() if parameter.grad is not None]
    module.zero_grad()
    assert two_pass(module, rows, targets, bags, 7) == pytest.approx(float(loss.detach()), rel=1e-5)
    for parameter, one in zip(module.parameters(), expected, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("micro", [1 << 16, 20])
def test_a_network_learns_what_lines_cannot(micro: int) -> None:
    torch.manual_seed(0)
    features, labels, release = made(4000, sums)
    module = appendix_network(2)
    records = list(train_bags(module, features, release, epochs=30, batch=128, peak=0.01, patience=30, micro=micro))
    assert len(records) == 30 and records[-1].loss < records[0].loss / 5
    assert records[0].rate == 0.01 and records[-1].rate < 1e-3
    with torch.no_grad():
        error = float(((module(torch.tensor(features, dtype=torch.float32)).reshape(-1).numpy() - labels) ** 2).mean())
    linear = ldp.fit_bags(features, release).value.predict(features)
    assert error < np.mean((linear - labels) ** 2) / 3


def test_it_stops_where_released_bags_that_were_held_out_say_so() -> None:
    torch.manual_seed(0)
    features, _, release = made(400, lambda rows: BagSum(4, domain=DOMAIN, epsilon=0.5, features=rows))
    module = appendix_network(2)
    records = list(train_bags(module, features, release, epochs=200, batch=40, peak=0.01, held_out=0.3, patience=3))
    assert 4 <= len(records) < 200


def test_what_is_refused() -> None:
    features, labels, release = made(64, sums)
    module = appendix_network(2)
    for arguments, words in (
        ((module, features, labels), "release must be what a curator released"),
        ((module, features[:-1], release), "features must hold 64 records"),
    ):
        with pytest.raises(InputError, match=words):
            next(train_bags(*arguments))
    for change in ({"epochs": 0}, {"peak": 0}, {"micro": 0}, {"batch": -1}):
        with pytest.raises(InputError, match=f"^{next(iter(change))} must be positive"):
            next(train_bags(module, features, release, **change))
    with pytest.raises(InputError, match=r"^held_out must lie in"):
        next(train_bags(module, features, release, held_out=1))
    with pytest.raises(InputError, match=r"^features must be numbers"):
        next(train_bags(module, np.full((64, 2), "text"), release))


def test_it_learns_from_what_a_file_says() -> None:
    _, _, release = made(64, sums)
    read = ldp.Release(ReleasedSums.of(release), release.certificate)
    first, second = BagTargets.of(release), BagTargets.of(read)
    assert torch.equal(first.sums, second.sums) and torch.equal(first.order, second.order)
    assert torch.equal(first.weights, second.weights)
