"""What a network is trained on: rows over the classes that stand for released labels, and the loss that reads them."""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from labeldp.learners import Evidence
from labeldp.privacy import InputError, NotInvertibleError

Loss = Literal["forward", "cross-entropy", "debiased", "posterior"]


@dataclass(frozen=True)
class Objective:
    """A loss of log probabilities for each record.

    Args:
        rows: shape (n, K). Targets: the loss is -sum_k rows[k] log p[k]. Likelihoods of the released label:
            -log sum_k rows[k] p[k].
        likelihood: which of the two.
    """

    rows: Tensor = field(repr=False)
    likelihood: bool = False

    def __call__(self, logarithms: Tensor, records: Tensor) -> Tensor:
        """The loss of each record, shape (b,).

        Args:
            logarithms: log probabilities, shape (b, K).
            records: which ones, shape (b,).
        """
        rows = self.rows[records]
        if self.likelihood:
            return -torch.logsumexp(logarithms + rows.log(), dim=1)
        return -(rows * logarithms).sum(dim=1)

    def to(self, device: torch.device) -> "Objective":
        """The same on another device."""
        return Objective(self.rows.to(device), self.likelihood)

    def __len__(self) -> int:
        return len(self.rows)


def targets(rows: Any) -> Objective:
    """Soft labels, such as the probabilities of a released model: distillation.

    Args:
        rows: shape (n, K).

    Source: Hinton, Vinyals, Dean, Distilling the Knowledge in a Neural Network (2015).
    """
    return Objective(torch.tensor(np.asarray(rows), dtype=torch.float32))


def objective_of(evidence: Evidence, loss: Loss, prior: Any = None) -> Objective:
    """The loss of released labels.

    Args:
        evidence: of n released labels.
        loss: "forward": the likelihood of the released label under the network's probabilities of the true one.
            "cross-entropy": released labels taken for true. "debiased": the unbiased loss, with negative
            weights. "posterior": soft labels P(true class | released label) under `prior`.
        prior: class probabilities from elsewhere, shape (n, K); for "posterior", by default the classes' shares.

    Raises:
        NotInvertibleError: "debiased" where the noise has no inverse.

    Source: Patrini et al. (2017), section 3.2, for "forward"; "debiased": Ghazi et al., Deep Learning with Label
    Differential Privacy, eq. (17).
    """
    if loss not in get_args(Loss):
        raise InputError(f"loss must be one of {', '.join(get_args(Loss))}")
    if loss == "forward":
        return Objective(torch.tensor(evidence.likelihood, dtype=torch.float32), likelihood=True)
    if loss == "posterior":
        return targets(evidence.posterior(evidence.class_prior()[None, :] if prior is None else prior))
    if loss == "cross-entropy":
        return targets(np.eye(evidence.classes)[evidence.codes.astype(np.int64)])
    if evidence.matrix is None:
        raise NotInvertibleError('loss="debiased" needs noise with an inverse: one stage without a prior')
    return targets(np.linalg.inv(evidence.matrix)[evidence.codes.astype(np.int64)])
