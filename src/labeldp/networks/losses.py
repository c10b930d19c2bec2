"""Losses of released labels, for `NetworkClassifier` and for custom training loops."""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import logsigmoid

from labeldp.learners import Evidence, Posterior
from labeldp.privacy import InputError, NotInvertibleError, check_choice

FIRST_SMOOTHING = 0.1
"""The `smoothing` of a loss by likelihood at the first step of a training; it falls to 0 at the last one."""


def forward_loss(scores: Tensor, likelihood: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return minus the log of the chance of each record's released answer under a network's classes, shape (n,).

    Take it in place of cross-entropy, in a loop of your own: its minimum is at the probabilities of the true
    classes, whatever the noise. It costs nothing, however many epochs there are.

    Its gradient is p(k) - q(k), where q is the posterior of the true class given the answer, with the network's own
    probabilities p as prior. Where p(k) is near 0, q(k) is, too: after a step that was too large a network can have
    given up a class for good, however many answers speak for it. With `smoothing` that prior is
    (1 - w) p(k) + w / K, and such a class comes back. The weight w is smoothing times what the answer says,
    (K sum_k l(k)^2 - 1) / (K - 1), where l are its likelihoods over their sum: 0 for an answer that says nothing, and 1
    for a true label. So answers outweigh the smoothing at every epsilon. Let it fall from 0.1 to 0 during the training,
    as `NetworkClassifier` does. The value of the loss is the same.

    Args:
        scores: a network's scores of the true classes before the softmax, shape (n, K).
        likelihood: P(released answer | true class) of each record, shape (n, K): rows of
            `labeldp.learners.Evidence.of(release).likelihood`.
        smoothing: share of equal probabilities in the prior of the gradient of a true label, in [0, 1].

    Raises:
        InputError: the two are not of one shape (n, K), scores are probabilities, or smoothing is out of range.

    Source: Patrini et al. (2017), section 3.2.

    Examples:
        >>> round(float(forward_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.75, 0.25]]))), 4)
        0.6931
    """
    if scores.ndim != 2 or scores.shape != likelihood.shape:
        raise InputError("must have the shape of scores, (n, K)", argument="likelihood")
    if _are_probabilities(scores):
        raise InputError("are probabilities: each row sums to 1. Pass the scores before the softmax", argument="scores")
    if not 0 <= smoothing <= 1:
        raise InputError("must be a share, in [0, 1]", argument="smoothing")
    return _of_likelihood(functional.log_softmax(scores, dim=1), likelihood.to(scores), smoothing)


def _are_probabilities(scores: Tensor) -> bool:
    """Return whether all rows lie in [0, 1] and sum to 1, which scores before a softmax do not."""
    with torch.no_grad():
        sums = scores.sum(dim=1)
        return bool(len(scores) and scores.min() >= 0 and torch.allclose(sums, torch.ones_like(sums), atol=1e-5))


def _of_likelihood(logarithms: Tensor, likelihood: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return minus the log likelihood of each record, from log probabilities of the true classes, shape (n,)."""
    loss = -torch.logsumexp(logarithms + likelihood.log(), dim=1)
    if not smoothing:
        return loss
    with torch.no_grad():
        classes = logarithms.shape[1]
        shares = functional.normalize(likelihood, p=1, dim=1)
        information = (classes * shares.square().sum(dim=1, keepdim=True) - 1) / max(classes - 1, 1)
        weight = smoothing * information.clamp(0, 1)
        prior = (1 - weight) * logarithms.exp() + weight / classes
        posterior = functional.normalize(prior * likelihood, p=1, dim=1)
    surrogate = -(posterior * logarithms).sum(dim=1)
    return loss.detach() + surrogate - surrogate.detach()


@dataclass(frozen=True)
class Objective:
    """The loss of each record, as a function of its log probabilities.

    Args:
        rows: shape (n, K): targets, with loss -sum_k rows[k] log p[k], or likelihoods of the released label under each
            true class, with loss -log sum_k rows[k] p[k].
        likelihood: whether the rows are likelihoods.
    """

    rows: Tensor = field(repr=False)
    likelihood: bool = False

    def __call__(self, logarithms: Tensor, records: Tensor, smoothing: float = 0.0) -> Tensor:
        """Return the loss of each record, shape (b,).

        Args:
            logarithms: log probabilities, shape (b, K).
            records: numbers of the records, shape (b,).
            smoothing: as in `forward_loss`, for likelihoods.
        """
        rows = self.rows[records]
        if self.likelihood:
            return _of_likelihood(logarithms, rows, smoothing)
        return -(rows * logarithms).sum(dim=1)

    def to(self, device: torch.device) -> "Objective":
        """Return the same on another device."""
        return Objective(self.rows.to(device), self.likelihood)

    def __len__(self) -> int:
        return len(self.rows)


Loss = Literal["forward", "cross-entropy", "debiased", "posterior"]


def targets(rows: Any) -> Objective:
    """Return the loss of soft labels, such as the probabilities of a released model: distillation.

    Args:
        rows: shape (n, K).

    Source: Hinton, Vinyals, Dean, Distilling the Knowledge in a Neural Network (2015).
    """
    return Objective(torch.tensor(np.asarray(rows), dtype=torch.float32))


def objective_of(evidence: Evidence, loss: Loss, prior: Any = None) -> Objective:
    """Return the loss of released labels.

    Args:
        evidence: n released labels and their noise.
        loss: "forward": the negative log likelihood of the released label, given the network's class probabilities.
            "cross-entropy": released labels taken for true. "debiased": the unbiased loss, with negative
            weights. "posterior": soft labels P(true class | released label) under `prior`.
        prior: for "posterior", class probabilities from another source, shape (n, K); by default the estimated share
            of each class.

    Raises:
        NotInvertibleError: the loss is "debiased" and the noise has no inverse.

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
        return targets(np.eye(evidence.classes)[evidence.codes_for('loss="cross-entropy"').astype(np.int64)])
    indicators = evidence.unbiased()
    if indicators is None:
        raise NotInvertibleError('loss="debiased" needs noise with an inverse: one stage without a prior')
    return targets(indicators)


def preference_loss(margins: Tensor, keep: float, kind: Literal["forward", "unbiased"] = "forward") -> Tensor:
    """Return the loss of each pair whose released preference is the true one with probability `keep`, shape (n,).

    In direct preference optimization the margin is beta times (log p - log p_reference of the answer that was released
    as the better one, less the same of the other one); its usual loss is -logsigmoid(margin).

    Args:
        margins: by how much the model prefers the answer that was released as the better one, shape (n,).
        keep: `mechanism.keep_probability` of `RandomizedResponse` over two classes, in (1/2, 1].
        kind: "forward" is minus the log of the chance of the released value. "unbiased" is on average the usual loss of
            the true preference; it has no lower bound, and learns less (`docs/results/preferences.md`).

    Raises:
        InputError: an argument out of range.

    Source: Patrini, forward correction; ChowdhuryDPO for the unbiased loss.
    """
    check_choice(kind, "kind", ("forward", "unbiased"))
    if not 0.5 < keep <= 1:
        raise InputError("must be a probability in (1/2, 1], such as mechanism.keep_probability", argument="keep")
    right, wrong = logsigmoid(margins), logsigmoid(-margins)
    if kind == "unbiased":
        return -(keep * right - (1 - keep) * wrong) / (2 * keep - 1)
    chances = torch.tensor([keep, 1 - keep], dtype=margins.dtype, device=margins.device).log()
    return -torch.logaddexp(chances[0] + right, chances[1] + wrong)


def released_loss(module: nn.Module, inputs: Tensor, posterior: Posterior, micro: int = 1 << 13) -> float:
    """Return minus the log likelihood of the release under a module, and add its gradient to the parameters.

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
        rows, moment, variance = (torch.as_tensor(array).double() for array in (term.rows, term.moment, term.variance))
        gap = rows.T @ chances - moment
        pull = gap / variance[:, None]
        value += 0.5 * float((gap * pull).sum())
        pulls += rows @ pull
    fields = {"likelihood": posterior.likelihood, "soft": posterior.soft}
    tables = {name: torch.as_tensor(table).double() for name, table in fields.items() if table is not None}
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
        loss = loss + _of_likelihood(logarithms, tables["likelihood"]).sum()
    if "soft" in tables:
        loss = loss - (tables["soft"] * logarithms).sum()
    return loss
