"""Bags with published weights: golden values, to the digits that are known."""

import math
from typing import Any

import pytest

from labeldp import NoisyBags, llp_calibrate, llp_delta, llp_epsilon

UNIT = {"label_range": (-1, 1), "stddev": 1}
PAPER: dict[str, Any] = {"weights": "gaussian", "noisy_set": "fixed"}

# delta at (noisy fraction, epsilon), a column for each size; Gaussian weights, fixed set, limit; labels in [-1, 1].
SIZES = [16, 32, 64, 128, 256, 512, 1024, 4096]
STDDEV_1 = """
0.01 0.5 9.4e-01 8.7e-01 7.7e-01 6.0e-01 4.0e-01 2.2e-01 1.1e-01 1.9e-02
0.01 1 9.3e-01 8.6e-01 7.4e-01 5.6e-01 3.5e-01 1.7e-01 6.2e-02 4.5e-03
0.01 2 9.2e-01 8.4e-01 7.1e-01 5.1e-01 2.8e-01 1.1e-01 2.5e-02 3.3e-04
0.01 4 9.1e-01 8.2e-01 6.7e-01 4.6e-01 2.2e-01 6.0e-02 7.0e-03 3.9e-06
0.1 0.5 5.5e-01 3.4e-01 1.8e-01 8.4e-02 3.6e-02 1.3e-02 4.0e-03 1.2e-04
0.1 1 5.1e-01 2.8e-01 1.2e-01 4.3e-02 1.2e-02 2.6e-03 3.6e-04 8.4e-07
0.1 2 4.5e-01 2.2e-01 7.0e-02 1.4e-02 1.8e-03 1.3e-04 3.9e-06 5.6e-11
0.1 4 3.9e-01 1.6e-01 3.3e-02 2.7e-03 8.1e-05 6.8e-07 1.0e-09 5.5e-19
0.5 0.5 1.4e-01 6.4e-02 2.7e-02 9.3e-03 2.6e-03 5.0e-04 5.9e-05 7.7e-08
0.5 1 8.9e-02 2.9e-02 7.6e-03 1.4e-03 1.7e-04 9.7e-06 2.1e-07 9.5e-13
0.5 2 4.2e-02 7.4e-03 8.0e-04 4.5e-05 9.6e-07 5.2e-09 4.1e-12 2.2e-22
0.5 4 1.4e-02 8.1e-04 1.6e-05 8.4e-08 6.3e-11 3.1e-15 3.2e-21 <1e-38
1 0.5 5.4e-02 2.3e-02 8.5e-03 2.4e-03 4.7e-04 5.6e-05 3.3e-06 4.2e-10
1 1 2.0e-02 5.7e-03 1.1e-03 1.3e-04 8.0e-06 1.8e-07 1.0e-09 4.2e-17
1 2 2.8e-03 3.5e-04 2.1e-05 4.8e-07 2.7e-09 2.2e-12 1.1e-16 5.2e-31
1 4 4.4e-05 1.0e-06 6.2e-09 5.1e-12 2.7e-16 2.9e-22 1.3e-30 <1e-38
"""
STDDEV_4 = """
0.01 0.5 8.9e-01 7.9e-01 6.2e-01 3.8e-01 1.5e-01 3.3e-02 4.4e-03 4.3e-05
0.01 1 8.8e-01 7.8e-01 6.0e-01 3.6e-01 1.3e-01 2.0e-02 1.0e-03 2.7e-07
0.01 2 8.8e-01 7.7e-01 5.8e-01 3.4e-01 1.1e-01 1.4e-02 2.8e-04 1.0e-10
0.01 4 8.7e-01 7.6e-01 5.7e-01 3.2e-01 1.0e-01 1.1e-02 1.3e-04 1.7e-14
0.1 0.5 3.1e-01 1.0e-01 1.7e-02 2.2e-03 2.5e-04 1.7e-05 4.9e-07 6.7e-12
0.1 1 2.8e-01 8.0e-02 8.2e-03 3.0e-04 6.2e-06 4.5e-08 6.4e-11 3.2e-20
0.1 2 2.6e-01 6.5e-02 4.5e-03 3.8e-05 3.3e-08 3.2e-12 1.1e-17 8.2e-36
0.1 4 2.5e-01 5.6e-02 3.0e-03 1.1e-05 3.3e-10 1.9e-17 7.7e-28 <1e-38
0.5 0.5 7.6e-03 1.1e-03 1.1e-04 5.7e-06 1.2e-07 6.4e-10 4.9e-13 2.6e-23
0.5 1 2.1e-03 7.0e-05 1.2e-06 5.5e-09 3.9e-12 1.8e-16 1.8e-22 <1e-38
0.5 2 5.2e-04 1.7e-06 9.0e-10 3.6e-14 3.2e-20 1.3e-28 <1e-38 <1e-38
0.5 4 2.0e-04 6.0e-08 1.3e-13 8.0e-22 1.9e-33 <1e-38 <1e-38 <1e-38
1 0.5 3.8e-04 4.4e-05 2.6e-06 5.9e-08 3.3e-10 2.6e-13 1.3e-17 6.1e-32
1 1 3.0e-06 6.7e-08 3.8e-10 3.1e-13 1.6e-17 1.7e-23 7.4e-32 <1e-38
1 2 3.3e-11 3.2e-14 1.9e-18 2.2e-24 1.0e-32 <1e-38 <1e-38 <1e-38
1 4 6.7e-25 2.5e-30 2.9e-38 <1e-38 <1e-38 <1e-38 <1e-38 <1e-38
"""


@pytest.mark.parametrize(("stddev", "table"), [(1, STDDEV_1), (4, STDDEV_4)])
def test_the_table_of_deltas(stddev: int, table: str) -> None:
    for row in table.strip().splitlines():
        fraction, epsilon, *cells = row.split()
        for size, cell in zip(SIZES, cells, strict=True):
            bags = NoisyBags(size, stddev=stddev, label_range=(-1, 1), noisy_fraction=fraction, **PAPER)
            lower, upper = (llp_delta(bags, epsilon, end=end) for end in ("lower", "upper"))
            assert lower <= upper <= lower * (1 + 1e-9) + 1e-95, row
            if cell.startswith("<"):
                assert upper < 1e-38, row
            else:
                assert f"{upper:.1e}" == cell, (row, size)


# noisy fraction, stddev, the paper's bags, stratified with Gaussian weights, stratified with +1 and -1.
SMALLEST = [
    ("0.01", 1, 39767, 39500, 7200),
    ("0.01", 2, 10650, 10400, 1800),
    ("0.01", 4, 3409, 3100, 500),
    ("0.01", 8, 1738, 1200, 200),
    ("0.1", "0.5", 15626, 15600, 2860),
    ("0.1", 1, 3975, 3950, 720),
    ("0.1", 2, 1063, 1040, 180),
    ("0.1", 4, 339, 310, 50),
    ("0.1", 8, 170, 120, 20),
    ("0.5", 1, 794, 790, 144),
    ("0.5", 2, 211, 208, 36),
    ("0.5", 4, 66, 62, 10),
    (1, "0.5", 1550, 1550, 286),
    (1, 1, 385, 385, 72),
    (1, 2, 93, 93, 18),
    (1, 4, 20, 20, 5),
    (1, 8, 2, 2, 2),
]


@pytest.mark.parametrize(("fraction", "stddev", "fixed", "stratified", "signs"), SMALLEST)
def test_the_smallest_bags(fraction: Any, stddev: Any, fixed: int, stratified: int, signs: int) -> None:
    design = {"noisy_fraction": fraction, "stddev": stddev, "label_range": (-1, 1), "epsilon": 1, "delta": 1e-6}
    assert llp_calibrate("size", **design, **PAPER).size == fixed
    assert llp_calibrate("size", **design, weights="gaussian").size == stratified
    assert llp_calibrate("size", **design).size == signs


TARGETS = {
    (0.5, 1e-6): (13165, 2632, 1305),
    (1, 1e-5): (2551, 509, 245),
    (1, 1e-8): (7923, 1582, 774),
    (2, 1e-6): (1282, 255, 114),
    (4, 1e-6): (488, 95, 33),
    (8, 1e-6): (258, 48, 7),
}


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_smallest_bags_for_other_promises(target: tuple[float, float]) -> None:
    epsilon, delta = target
    for fraction, size in zip(("0.1", "0.5", 1), TARGETS[target], strict=True):
        found = llp_calibrate("size", epsilon=epsilon, delta=delta, noisy_fraction=fraction, **UNIT, **PAPER)
        assert found.size == size


CRITEO, CENSUS = (0, 253.78), (0, 51)
# range, noisy fraction, size, delta at 1, 4, 10, 100, epsilon at 1e-5 and at 1e-2; None: no finite one.
EXPERIMENTS = [
    (CRITEO, "0.01", 32, ".998 .998 .997 .990", None, None),
    (CRITEO, "0.01", 256, ".991 .986 .980 .940", None, None),
    (CRITEO, "0.1", 32, ".989 .984 .977 .931", None, None),
    (CRITEO, "0.1", 64, ".984 .976 .965 .895", None, 1.8e5),
    (CRITEO, "0.1", 128, ".976 .964 .948 .846", 9.6e5, 2.9e4),
    (CRITEO, "0.1", 256, ".966 .948 .925 .780", 5.4e4, 1.1e4),
    (CRITEO, "0.5", 256, ".923 .884 .832 .528", 5.5e3, 1.7e3),
    (CRITEO, 1, 256, ".891 .836 .764 .371", 2.4e3, 8.3e2),
    (CENSUS, "0.1", 64, ".920 .879 .826 .522", None, 7.2e3),
    (CENSUS, "0.1", 128, ".883 .824 .747 .348", 3.9e4, 1.2e3),
    (CENSUS, "0.1", 256, ".833 .749 .643 .178", 2.2e3, 4.3e2),
    (CENSUS, "0.1", 512, ".765 .651 .511 .056", 698, 191),
    (CENSUS, "0.5", 512, ".522 .327 .154 .000", 112, 36),
    (CENSUS, 1, 512, ".387 .183 .051 .000", 56, 18),
]


@pytest.mark.parametrize(("label_range", "fraction", "size", "deltas", "tight", "loose"), EXPERIMENTS)
def test_what_the_published_experiments_promise(
    label_range: Any, fraction: Any, size: int, deltas: str, tight: float | None, loose: float | None
) -> None:
    bags = NoisyBags(size, stddev=1, label_range=label_range, noisy_fraction=fraction, **PAPER)
    assert [f"{llp_delta(bags, epsilon):.3f}"[1:] for epsilon in (1, 4, 10, 100)] == deltas.split()
    for delta, epsilon in ((1e-5, tight), (1e-2, loose)):
        found = llp_epsilon(bags, delta)
        if epsilon is None:
            assert found == math.inf or found > 1e6
        else:
            assert found == pytest.approx(epsilon, rel=0.05)


def test_the_noise_that_the_experiments_would_have_needed() -> None:
    for label_range, size, fraction, strict, relaxed in (
        (CRITEO, 256, "0.1", 629, 163),
        (CRITEO, 256, 1, 155, 40),
        (CENSUS, 512, "0.1", 78, 20),
        (CENSUS, 512, 1, 22, 5.7),
    ):
        design = {"size": size, "noisy_fraction": fraction, "label_range": label_range, **PAPER}
        assert llp_calibrate("stddev", epsilon=1, delta=1e-6, **design).stddev == pytest.approx(strict, rel=0.02)
        assert llp_calibrate("stddev", epsilon=4, delta=1e-5, **design).stddev == pytest.approx(relaxed, rel=0.02)
