"""The noise that a plan reads is that of the mechanisms, with features private, too; and it tells what is learned."""

import math

import numpy as np
import pytest

from labeldp.advice import cell_noise, relative_records
from labeldp.advice.rates import CellNoise
from labeldp.learners import CubeGrid
from labeldp.mechanisms import Classes, Interval, PermuteAndFlip, UnaryEncoding, debias
from labeldp.privacy import Public
from papers.rates.instances import hard_classes
from papers.rates.table import rate, records_for
from papers.rates.whole_records import FullMeans, FullSelection, Located

SIGMAS = 7.4
ONE_CELL = CubeGrid((0.0,), (1.0,), (1,))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_central_classes_have_the_noise_of_permute_and_flip(epsilon: float) -> None:
    """Between two classes it errs as often as Laplace noise of scale 2/ε on the difference, whose variance is 8/ε²."""
    central = FullSelection(domain=Located(ONE_CELL, Classes(2)), epsilon=epsilon)
    assert central.unit == PermuteAndFlip(domain=Classes(2), epsilon=epsilon, groups=Public([0], why="one")).unit
    for lead in (0, 1, 5, 20):
        assert central.law([lead, 0])[1] == pytest.approx(math.exp(-epsilon * lead / 2) / 2)
    for protection in ("label", "full"):
        found = cell_noise(task="classification", trust="central", protection=protection, epsilon=epsilon)
        assert found == CellNoise(1.0, cell=pytest.approx(2 * (2 / epsilon) ** 2))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_central_numbers_have_the_noise_of_full_means(epsilon: float) -> None:
    located = Located(ONE_CELL, Interval(-1, 1, grid=9))
    full = FullMeans(domain=located, epsilon=epsilon, smallest=500)  # half of the thousand records of a cell
    both = cell_noise(task="regression", trust="central", protection="full", epsilon=epsilon)
    assert math.sqrt(both.added(1000, 1)) == pytest.approx(math.sqrt(2) * full.scale, rel=0.01)


def test_the_multiplier_of_the_rate_has_the_order_of_the_one_with_constants() -> None:
    """For small epsilon both grow as 1/ε² under local protection."""
    for epsilon in (0.01, 0.1):
        noise = cell_noise(task="classification", epsilon=epsilon)
        exact = relative_records(records=1e4, noise=noise, dimension=2)
        order = records_for(
            rate(task="classification", protection="none", records=1e4, dimension=2),
            task="classification",
            epsilon=epsilon,
            dimension=2,
        )
        assert exact / (order / 1e4) == pytest.approx(8, rel=0.01)


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_so_many_times_the_records_give_the_error_without_privacy(share: float) -> None:
    """Unary bits at ε = 1.5 in cells, against plain counts: with less than half of the records they err more."""
    rng, plain = np.random.default_rng(0), 40
    hard = hard_classes(6000, dimension=1, beta=0.25, amplitude=1.2, rng=rng)
    bits = UnaryEncoding(domain=Classes(2), epsilon=1.5)
    multiple = relative_records(records=1e5, noise=cell_noise(task="classification", epsilon=1.5), dimension=1)

    def missed(times: float) -> float:
        """How many cubes get the wrong class."""
        features, labels = hard.draw(round(6000 * plain * times), rng)
        known = debias(bits, bits.randomize(labels, rng=rng)).values if times > 1 else np.eye(2)[labels]
        lead = np.bincount(hard.cubes.index(features), known[:, 1] - known[:, 0], minlength=6000)
        answers = np.where(np.abs(lead) < 1e-6, rng.integers(0, 2, 6000), lead > 0)
        return hard.excess(lambda x: answers[hard.cubes.index(x)]) / hard.height

    apart = missed(multiple * share) - missed(1.0)
    noise = SIGMAS * math.sqrt(2 * 0.25 / 6000)
    assert abs(apart) < noise if share == 1 else apart > noise
