"""The accountant of lazy learners between two convolutions: of the worst that it admits, and of one member."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from labeldp.online.experts.renyi import Switching
from labeldp.privacy import PrivacyLoss

DELTA = 1e-6
Curve = Callable[[np.ndarray], np.ndarray]


def loss_of(curve: Curve, step: float, reach: float) -> PrivacyLossDistribution:
    """The loss whose curve of delta joins that of another at the points of a grid."""
    rounded = np.arange(-math.ceil(reach / step) - 1, math.ceil(reach / step) + 2)
    return PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots(step, rounded, np.clip(curve(rounded * step), 0.0, 1.0))
    )


def of_two(one: list[float], other: list[float]) -> Curve:
    """The curve of two finite laws."""
    p, q = np.array(one), np.array(other)
    return lambda losses: np.maximum(p - np.exp(losses)[:, None] * q, 0).sum(axis=1)


def coin(rate: float, redraw: float) -> Curve:
    """The coin after the losses that differ: kept with (1 - p) e^-rate or 1 - p."""
    often, seldom = 1 - redraw, (1 - redraw) * math.exp(-rate)
    return of_two([seldom, 1 - seldom], [often, 1 - often])


def response(rate: float, share: float) -> Curve:
    """With some probability a randomized response whose log-ratios are -rate and rate, else nothing: a member."""
    truth = 1 / (1 + math.exp(-rate))
    return of_two([share * truth, share * (1 - truth), 1 - share], [share * (1 - truth), share * truth, 1 - share])


def worst(rate: float, share: float) -> Curve:
    """With some probability a draw that is the worst at each epsilon apart: nothing that is admitted is above it."""

    def curve(losses: np.ndarray) -> np.ndarray:
        draw = (1 - np.exp(np.clip((losses - 2 * rate) / 2, -2 * rate, 0))) ** 2 / -math.expm1(-2 * rate)
        nothing = np.maximum(0.0, -np.expm1(losses))
        return share * np.where(losses < -2 * rate, nothing, draw) + (1 - share) * nothing

    return curve


@pytest.mark.parametrize(
    ("rate", "batch", "redraw", "batches", "floor", "ceiling"),
    [(2e-3, 4, 0.01, 25_000, 0.287, 0.306), (5e-3, 1, 0.05, 10_000, 0.490, None), (0.05, 2, 0.2, 50, None, None)],
)
def test_between_one_member_and_the_worst_of_all(
    rate: float, batch: int, redraw: float, batches: int, floor: float | None, ceiling: float | None
) -> None:
    often = redraw - (1 - redraw) * math.expm1(-rate * batch)
    claimed = PrivacyLoss.curve(Switching(rate, redraw, batch, batches)).epsilon(DELTA)
    ends = []
    for draw in (response, worst):
        step = rate / 20
        first = loss_of(coin(rate, redraw), step, math.log1p((1 - redraw) * -math.expm1(-rate) / redraw))
        second, later = (loss_of(draw(rate, share), step, 2 * rate) for share in (1.0, often))
        ends.append(first.compose(second).compose(later.self_compose(batches - 2)).get_epsilon_for_delta(DELTA))
    assert ends[0] <= claimed <= 1.15 * ends[0]
    assert claimed <= 1.02 * ends[1], "orders hardly cost anything"
    for found, noted in zip(ends, (floor, ceiling), strict=True):
        assert noted is None or found == pytest.approx(noted, rel=0.01)


def test_the_worst_draw_is_above_every_other() -> None:
    """Its curve is the largest of all pairs whose log-ratio varies by at most its width."""
    rate = 0.35
    losses = np.linspace(-2 * rate, 2 * rate, 29)
    found = np.zeros(len(losses))
    for top in np.linspace(1e-6, 2 * rate - 1e-6, 400):
        low, high = math.exp(top - 2 * rate), math.exp(top)
        share = (1 - low) / (high - low)
        found = np.maximum(found, of_two([share * high, (1 - share) * low], [share, 1 - share])(losses))
    claimed = worst(rate, 1.0)(losses)
    assert np.all(found <= claimed * (1 + 1e-9)) and np.all(claimed <= found * (1 + 1e-3) + 1e-5)


@pytest.mark.parametrize(
    ("horizon", "experts", "nominal", "proven", "lower", "dartboard"),
    [
        (10**4, 100, 0.1, 0.97, 0.66, 0.63),
        (10**6, 1000, 0.1, 1.01, 0.70, 0.63),
        (10**6, 1000, 0.3, 1.47, 1.00, 0.94),
        (10**6, 1000, 1.0, 1.76, 0.98, 1.29),
    ],
)
def test_the_parameters_of_theorem_3_10_do_not_keep_epsilon(
    horizon: int, experts: int, nominal: float, proven: float, lower: float, dartboard: float
) -> None:
    """From below: half of the experts lose in one round of the first batch, or the other half; nobody loses later.

    Which half a new action is in has log-ratios of -eta and eta. Moves within a half are rarer by the chance to draw
    the same expert again; thinning the others as much leaves independent responses.
    """
    rate = min(horizon**-0.25 * math.log(experts) ** 0.75, nominal) ** (2 / 3) / horizon ** (1 / 3)
    batch, redraw = round(1 / nominal), min(rate / nominal, 1.0)
    batches = horizon // batch
    for chains, noted in ((2, proven), (1, dartboard)):
        claimed = PrivacyLoss.curve(Switching(rate, redraw, batch, batches, chains=chains)).epsilon(DELTA)
        assert claimed == pytest.approx(noted, abs=6e-3)
    moved = (redraw - (1 - redraw) * math.expm1(-2 * rate * batch)) * (1 - 2 / experts)
    draws = loss_of(response(rate, moved), rate / 20, 2 * rate).self_compose(batches - 2)
    found = draws.get_epsilon_for_delta(DELTA)
    assert found == pytest.approx(lower, abs=0.011)
    assert found > nominal or nominal == 1.0
