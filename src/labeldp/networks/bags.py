"""Train a module on released sums over bags; the network of the paper."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labeldp.bags import ReleasedSums
from labeldp.networks.training import Record
from labeldp.privacy import InputError, Release


@dataclass(frozen=True)
class BagTargets:
    """Released weighted sums of labels over bags, and the records of each bag.

    Args:
        order: record numbers sorted by bag, shape (n,).
        starts: where each bag begins in `order`, and then the end of the last, shape (bags + 1,).
        weights: the weight of each record, shape (n,).
        sums: the released sums, shape (bags,).
    """

    order: Tensor = field(repr=False)
    starts: Tensor = field(repr=False)
    weights: Tensor = field(repr=False)
    sums: Tensor = field(repr=False)

    @classmethod
    def of(cls, release: Release[Any]) -> "BagTargets":
        """Make targets from a release of `BagSum` or `NoisyWeightedLLP`, or from what `read_bags` read.

        Raises:
            InputError: the release is another one.
        """
        shown = ReleasedSums.of(release)
        if shown.bags is None:
            raise InputError(
                "release must be what a curator released by BagSum or NoisyWeightedLLP: sums with secret weights say "
                "nothing of a module's predictions"
            )
        bags, sums, weights = shown.bags, shown.sums, shown.weights
        starts = np.concatenate([[0], np.cumsum(np.bincount(bags, minlength=len(sums)))])
        order = np.argsort(bags, kind="stable")
        numbers = (torch.tensor(values, dtype=torch.float32) for values in (weights, sums))
        return cls(torch.from_numpy(order), torch.from_numpy(starts), *numbers)

    def __len__(self) -> int:
        return len(self.sums)

    def members(self, bags: Tensor) -> tuple[Tensor, Tensor]:
        """Return the records of the given bags, and for each record the position of its bag in `bags`."""
        sizes = self.starts[bags + 1] - self.starts[bags]
        places = torch.repeat_interleave(torch.arange(len(bags)), sizes)
        within = torch.arange(int(sizes.sum())) - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
        return self.order[self.starts[bags][places] + within], places

    def loss(self, predictions: Tensor, bags: Tensor) -> Tensor:
        """Return the mean over records of the squared errors of their bags' sums.

        Args:
            predictions: for the records of these bags, in the order of `members`, shape (b,).
            bags: numbers of the bags.

        Source: Brahmbhatt, Section 1.1: (1/mk) Σ over bags (released sum − Σ w f(x))².
        """
        records, places = self.members(bags)
        totals = torch.zeros(len(bags), dtype=predictions.dtype)
        totals = totals.index_add(0, places, self.weights[records].to(predictions.dtype) * predictions)
        return ((self.sums[bags] - totals) ** 2).sum() / len(records)


def appendix_network(features: int) -> nn.Sequential:
    """Build a network with layers of 128, 64 and 1 neurons. Source: Brahmbhatt, Appendix K."""
    layers = nn.Linear(features, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)
    return nn.Sequential(*layers)


def two_pass(module: nn.Module, rows: Tensor, targets: BagTargets, bags: Tensor, micro: int) -> float:
    """Return the loss of some bags and add its gradient to the parameters, with `micro` records in memory at a time.

    The first pass computes the residual of each bag, released sum minus predicted sum, without a graph. The second
    multiplies the prediction of each record with −2 (residual) w: the gradient depends on the other records of the bag
    only through the residual. The module must predict the same both times: no dropout, and nothing like batch norm.

    Args:
        module: maps rows, shape (b, …), to (b,) or (b, 1).
        rows: features of all records.
        targets: the targets of all bags.
        bags: numbers of the bags to use.
        micro: records in memory at a time.
    """
    records, places = targets.members(bags)
    weights, sums = targets.weights[records], torch.zeros(len(bags))
    parts = torch.arange(len(records)).split(micro)
    with torch.no_grad():
        for part in parts:
            sums.index_add_(0, places[part], weights[part] * module(rows[records[part]]).reshape(-1))
    residuals = targets.sums[bags] - sums
    for part in parts:
        factors = -2 * residuals[places[part]] * weights[part] / len(records)
        (factors * module(rows[records[part]]).reshape(-1)).sum().backward()
    return float((residuals**2).sum() / len(records))


def train_bags(
    module: nn.Module,
    features: Any,
    release: Release[Any],
    *,
    epochs: int = 200,
    batch: int = 1024,
    peak: float = 1e-3,
    held_out: float = 0.1,
    patience: int = 3,
    micro: int = 1 << 16,
    seed: int = 0,
) -> Iterator[Record]:
    """Train a module in place on released sums over bags; yield a record after each epoch.

    Each minibatch holds whole bags. The optimizer is Adam; its rate falls along a cosine to a thousandth. Some released
    bags are held out: training stops after `patience` epochs without progress on them, and the best weights are kept.
    All of it is post-processing.

    Args:
        module: maps each row to one number.
        features: public, a tensor or an array, one row for each record.
        release: of `BagSum` or `NoisyWeightedLLP`, or what `read_bags` read.
        epochs: the largest number of epochs.
        batch: records in a step, rounded to whole bags.
        peak: the first learning rate.
        held_out: share of the bags, in [0, 1); with 0 all epochs are run.
        patience: epochs without progress before training stops.
        micro: more records than this in a step are taken in two passes (see `two_pass`).
        seed: public seed of the order of bags and of those that are held out.

    Raises:
        InputError: the release is another one, the features do not fit, or a number is out of range.

    Source: Brahmbhatt, Appendix K.
    """
    _check({"epochs": epochs, "batch": batch, "patience": patience, "micro": micro, "peak": peak}, held_out)
    targets, rows = BagTargets.of(release), _rows(features)
    if len(rows) != len(targets.order):
        raise InputError(f"features must hold {len(targets.order)} records")
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randperm(len(targets), generator=generator)
    held, training = mixed[: int(held_out * len(mixed))], mixed[int(held_out * len(mixed)) :]
    bags_in_step = max(1, round(batch * len(targets) / len(rows)))
    optimizer = torch.optim.Adam(module.parameters(), lr=peak)
    best, state, waited = math.inf, copy.deepcopy(module.state_dict()), 0
    for epoch in range(1, epochs + 1):
        rate = peak * (0.001 + 0.999 * (1 + math.cos(math.pi * (epoch - 1) / epochs)) / 2)
        optimizer.param_groups[0]["lr"] = rate
        mixed = training[torch.randperm(len(training), generator=generator)]
        losses = [_step(module, optimizer, rows, targets, bags, micro) for bags in mixed.split(bags_in_step)]
        if len(held):
            error = held_error(module, rows, targets, held, micro)
            waited = 0 if error < best else waited + 1
            if error < best:
                best, state = error, copy.deepcopy(module.state_dict())
        yield Record(epoch, sum(losses) / len(losses), rate)
        if len(held) and waited >= patience:
            break
    if len(held):
        module.load_state_dict(state)


def _check(positive: dict[str, float], held_out: float) -> None:
    """Raise InputError if a number is out of range."""
    for name, value in positive.items():
        if not value > 0:
            raise InputError(f"{name} must be positive")
    if not 0 <= held_out < 1:
        raise InputError("held_out must lie in [0, 1)")


def _rows(features: Any) -> Tensor:
    """Return public features as a tensor.

    Raises:
        InputError: they are not numbers.
    """
    try:
        return torch.as_tensor(np.asarray(features), dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError):
        raise InputError("features must be numbers, a row for each record") from None


def _step(module: nn.Module, optimizer: Any, rows: Tensor, targets: BagTargets, bags: Tensor, micro: int) -> float:
    module.train()
    optimizer.zero_grad(set_to_none=True)
    records, _ = targets.members(bags)
    if len(records) > micro:
        value = two_pass(module, rows, targets, bags, micro)
    else:
        loss = targets.loss(module(rows[records]).reshape(-1), bags)
        loss.backward()
        value = float(loss.detach())
    optimizer.step()
    return value


def held_error(module: nn.Module, rows: Tensor, targets: BagTargets, bags: Tensor, micro: int) -> float:
    """Return the loss of some bags, without a gradient."""
    module.eval()
    with torch.no_grad():
        records, _ = targets.members(bags)
        predictions = [module(rows[part]).reshape(-1) for part in records.split(micro)]
        return float(targets.loss(torch.cat(predictions), bags))
