"""Losses of randomized preferences, for trainers such as those of direct preference optimization."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from labeldp.privacy import InputError, check_choice


def preference_loss(margins: Tensor, keep: float, kind: Literal["forward", "unbiased"] = "forward") -> Tensor:
    """Return the loss of each pair whose released preference is the true one with probability `keep`, shape (n,).

    In direct preference optimization the margin is beta times (log p - log p_reference of the answer that was released
    as the better one, less the same of the other one); its usual loss is -logsigmoid(margin).

    Args:
        margins: by how much the model prefers the answer that was released as the better one, shape (n,).
        keep: `mechanism.keep_probability` of `RandomizedResponse` over two classes, in (1/2, 1].
        kind: "forward" is minus the log of the chance of what was released. "unbiased" is on average the usual loss of
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
