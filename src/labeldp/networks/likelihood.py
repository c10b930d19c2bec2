"""The likelihood of what was released for a linear head, as a loss of any module."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from labeldp.learners import Posterior


def released_loss(module: nn.Module, inputs: Tensor, posterior: Posterior, micro: int = 1 << 13) -> float:
    """Return minus the log likelihood of what was released under a module, and add its gradient to the parameters.

    It is the objective of a linear head (`LinearHead.posterior`) without the prior on its coefficients: half the
    squared distances of noisy sums over their variances, and minus the log of the chance of each noisy label. Sums
    depend on all records, so a step takes two passes, with `micro` records in memory at a time: the first computes the
    distances without a graph, the second multiplies the probabilities of each record with what they pull at. The module
    must predict the same both times: no dropout, and nothing like batch norm.

    A network that learns from a head's probabilities, and is corrected by the same sums afterwards, gains nothing by it
    (`docs/results/images.md`); it is for modules of one's own.

    Args:
        module: maps inputs, shape (b, …), to scores, shape (b, K).
        inputs: of the head's n training records.
        posterior: what was released about them.
        micro: records in memory at a time.
    """
    parts = torch.arange(len(inputs)).split(micro)
    with torch.no_grad():
        chances = torch.cat([functional.softmax(module(inputs[part]).double(), dim=1) for part in parts])
    value, pulls = 0.0, torch.zeros_like(chances)
    for term in posterior.sums:
        rows, moment, variance = (torch.as_tensor(each).double() for each in (term.rows, term.moment, term.variance))
        gap = rows.T @ chances - moment
        pull = gap / variance[:, None]
        value += 0.5 * float((gap * pull).sum())
        pulls += rows @ pull
    known = {"likelihood": posterior.likelihood, "soft": posterior.soft}
    tables = {name: torch.as_tensor(table).double() for name, table in known.items() if table is not None}
    for part in parts:
        logarithms = functional.log_softmax(module(inputs[part]).double(), dim=1)
        labels = _of_labels({name: table[part] for name, table in tables.items()}, logarithms)
        value += float(labels.detach())
        (labels + (pulls[part] * logarithms.exp()).sum()).backward()
    return value


def _of_labels(tables: dict[str, Any], logarithms: Tensor) -> Tensor:
    """Return minus the log likelihood of labels: noisy ones by their likelihood (b, K), soft ones by cross-entropy."""
    loss = torch.zeros((), dtype=logarithms.dtype)
    if "likelihood" in tables:
        loss = loss - torch.logsumexp(logarithms + tables["likelihood"].log(), dim=1).sum()
    if "soft" in tables:
        loss = loss - (tables["soft"] * logarithms).sum()
    return loss
