"""Exact laws of all actions of tiny learners, by enumeration, for many sequences of losses at once."""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sums = list[NDArray[np.int64]]
"""For each batch the losses of every expert summed up, shape (sequences, actions so far, experts); the second is 1
where they do not follow the actions."""


def everything(experts: int, batch: int, batches: int) -> NDArray[np.int64]:
    """All sequences of sums that losses 0 and 1 can have, shape (sequences, batches, experts)."""
    vectors = np.array(list(itertools.product(range(batch + 1), repeat=experts)))
    places = np.array(list(itertools.product(range(len(vectors)), repeat=batches)))
    return vectors[places]


def fixed(sums: NDArray[np.int64]) -> Sums:
    """Losses that do not follow the actions."""
    return [sums[:, s, None, :] for s in range(sums.shape[1])]


def neighbor_pairs(sums: NDArray[np.int64], zero_out: bool) -> Iterator[NDArray[np.int64]]:
    """For each batch, pairs (2, pairs) of sequences which differ by one of its rounds; both orders."""
    for place in range(sums.shape[1]):
        others = np.delete(sums, place, axis=1).reshape(len(sums), -1)
        _, group = np.unique(others, axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        members = order.reshape(int(group.max()) + 1, -1)
        first, second = np.meshgrid(range(members.shape[1]), range(members.shape[1]))
        moved = sums[members[0], place][first] - sums[members[0], place][second]
        low, high = moved.min(axis=-1), moved.max(axis=-1)
        near = ((low >= 0) & (high <= 1)) | ((low >= -1) & (high <= 0)) if zero_out else (low >= -1) & (high <= 1)
        near &= first != second
        yield np.stack([members[:, first[near]].ravel(), members[:, second[near]].ravel()])


def weights(sums: Floats, rate: float) -> Floats:
    """Multiplicative weights of each row."""
    raw = np.exp(-rate * (sums - sums.min(axis=-1, keepdims=True)))
    return raw / raw.sum(axis=-1, keepdims=True)


def dartboard_law(losses: Sums, rate: float, redraw: float) -> Floats:
    """Probabilities of all sequences of actions, shape (sequences, experts ** (batches + 1))."""
    experts = losses[0].shape[-1]
    law = np.full((len(losses[0]), experts), 1 / experts)
    total = np.zeros((1, 1, experts))
    for newest in losses:
        count = law.shape[1]
        last = np.arange(count) % experts
        total = (np.repeat(total, experts, axis=1) if newest.shape[1] > 1 else total) + newest
        lost = np.broadcast_to(newest, (len(law), count, experts))[:, np.arange(count), last]
        keep = (1 - redraw) * np.exp(-rate * lost)
        moves = (1 - keep)[:, :, None] * weights(total, rate)
        moves[:, np.arange(count), last] += keep
        law = (law[:, :, None] * moves).reshape(len(law), -1)
    return law


def l2p_law(
    losses: Sums, rate: float, redraw: float, batch: int, normalizer: int = 2, reference: bool = False
) -> Floats:
    """The same for Algorithm 1, of actions alone or with the reference, for losses that do not follow the actions."""
    experts = losses[0].shape[-1]
    here = np.eye(experts)
    law = np.full((len(losses[0]), 1, experts, experts), 1 / experts**2)
    total = 0
    for newest in losses:
        newest = newest[:, 0]
        total = total + newest
        drawn = weights(total, rate)
        gap = newest[:, :, None] - newest[:, None, :]
        keep = (1 - redraw) * np.minimum(1, np.exp(-rate * (gap + normalizer * batch)))
        moves = keep[..., None] * here[:, None, :] + (1 - keep)[..., None] * drawn[:, None, None, :]
        asides = (1 - redraw) * here + redraw * drawn[:, None, :]
        after = "shxyuv" if reference else "shxuv"
        law = np.einsum(f"shxy,sxyu,syv->{after}", law, moves, asides, optimize=True)
        law = law.reshape(len(law), -1, experts, experts)
    return (law if reference else law.sum(axis=3)).reshape(len(law), -1)


def marginals(law: Floats, experts: int) -> Floats:
    """P(action s = x), shape (sequences, actions, experts)."""
    steps = round(np.log(law.shape[1]) / np.log(experts))
    cube = law.reshape((len(law),) + (experts,) * steps)
    axes = range(1, steps + 1)
    return np.stack([cube.sum(axis=tuple(a for a in axes if a != keep)) for keep in axes], axis=1)


def largest_delta(law: Floats, pairs: NDArray[np.int64], epsilons: Floats, chunk: int = 4096) -> Floats:
    """The largest delta of any pair at each epsilon."""
    found = np.zeros(len(epsilons))
    for start in range(0, pairs.shape[1], chunk):
        left, right = law[pairs[0, start : start + chunk]], law[pairs[1, start : start + chunk]]
        deltas = [np.maximum(left - np.exp(e) * right, 0).sum(axis=1).max(initial=0.0) for e in epsilons]
        found = np.maximum(found, deltas)
    return found
