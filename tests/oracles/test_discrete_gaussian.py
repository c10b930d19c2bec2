"""The loss of integer Gaussian noise against sums in 50 digits."""

import mpmath
import pytest

from labeldp.mechanisms import gaussian_loss, smallest_stddev
from labeldp.privacy import decimal
from labeldp.sampling import SMOOTHING
from slow import mostly_slow


def exact_delta(moves: tuple[int, ...], stddev: int, epsilon: str) -> mpmath.mpf:
    """The hockey-stick divergence of integer noise on one or two cells and the same noise moved by `moves`."""
    reach = 14 * stddev
    masses = {i: mpmath.exp(-(mpmath.mpf(i) ** 2) / (2 * stddev**2)) for i in range(-reach - 40, reach + 41)}
    total = mpmath.fsum(masses.values())
    growth = mpmath.exp(mpmath.mpf(epsilon))
    if len(moves) == 1:
        gains = (masses[i] - growth * masses[i - moves[0]] for i in range(-reach, reach + 1))
        return mpmath.fsum(gain for gain in gains if gain > 0) / total
    result = mpmath.mpf(0)
    one, two = moves
    for i in range(-reach, reach + 1):
        result += mpmath.fsum(
            gain
            for j in range(-reach, reach + 1)
            if (gain := masses[i] * masses[j] - growth * masses[i - one] * masses[j - two]) > 0
        )
    return result / total**2


@pytest.mark.guarantee("labeldp.mechanisms:gaussian_loss", "dominates")
@pytest.mark.parametrize("stddev", mostly_slow([3, 7, 40, 300], [3, 40]))
@pytest.mark.parametrize("epsilon", ["0", "0.1", "0.9", "2.5"])
@pytest.mark.parametrize("move", [1, 5])
def test_one_cell(stddev: int, epsilon: str, move: int) -> None:
    with mpmath.workdps(50):
        exact = exact_delta((move,), stddev, epsilon)
        claimed = gaussian_loss(move**2, stddev, 1).delta(epsilon)
    assert exact <= claimed
    if stddev >= 40 and exact > 1e-12:
        assert claimed <= exact * 1.03  # the integers cost (1 - SMOOTHING / stddev^2)^(-1/2) of mu, and their own steps


@pytest.mark.parametrize("moves", [(1, -1), (3, 4)])
@pytest.mark.parametrize("epsilon", ["0.2", "1"])
def test_two_cells_that_move_together(moves: tuple[int, int], epsilon: str) -> None:
    with mpmath.workdps(20):
        exact = exact_delta(moves, 5, epsilon)
        assert exact <= gaussian_loss(moves[0] ** 2 + moves[1] ** 2, 5, 2).delta(epsilon)


def test_random_rounding_of_continuous_noise_is_integer_noise_up_to_what_is_charged() -> None:
    """The proof's lemma, by numerical integration: the two laws differ by less than 2^-111, relative."""
    stddev = 5
    with mpmath.workdps(60):
        spread = mpmath.sqrt(stddev**2 - SMOOTHING)

        def weight(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.exp(-(x**2) / (2 * SMOOTHING))

        def density(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.npdf(x, 0, spread)

        total = mpmath.fsum(mpmath.exp(-(mpmath.mpf(i) ** 2) / (2 * stddev**2)) for i in range(-90, 91))
        step = mpmath.mpf(1) / 16  # the trapezoidal rule is exact to many digits for smooth, fast decaying functions
        points = [step * i for i in range(-16 * 80, 16 * 80 + 1)]
        constant = {i: mpmath.fsum(weight(j - step * i) for j in range(-45, 46)) for i in range(16)}
        for z in (0, 1, 4, 12):
            rounded = step * mpmath.fsum(
                density(x) * weight(z - x) / constant[i % 16] for i, x in enumerate(points, start=-16 * 80)
            )
            exact = mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * stddev**2)) / total
            assert abs(exact / rounded - 1) < mpmath.mpf(2) ** -111


@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "1e-6"), ("1", "1e-6"), ("4", "1e-9")])
def test_calibration_against_the_formula_in_50_digits(epsilon: str, delta: str) -> None:
    sensitivity = 10**6
    stddev = smallest_stddev(sensitivity**2, 100, decimal(epsilon, "epsilon"), decimal(delta, "delta"))
    with mpmath.workdps(50):

        def curve(noise: mpmath.mpf) -> mpmath.mpf:
            mu, at = sensitivity / mpmath.mpf(noise), mpmath.mpf(epsilon)
            return mpmath.ncdf(mu / 2 - at / mu) - mpmath.exp(at) * mpmath.ncdf(-mu / 2 - at / mu)

        assert curve(stddev) <= mpmath.mpf(delta) < curve(stddev - 2)
