"""Every run of rates leaves one file and is not made twice; slopes are those of the rates, or are flagged."""

import dataclasses
import fcntl
import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from labeldp.advice import exponent
from labeldp.privacy import InputError
from papers.rates import rows as rates_rows
from papers.rates.rows import DIMENSIONS, FAMILIES, RECORDS, ROWS, tuning
from papers.rates.run import (
    OF_CLASSES,
    RateGrid,
    RatePoint,
    RateResult,
    RateRun,
    Slope,
    class_curves,
    reproduce_rates,
    slopes,
)

SMOOTH = FAMILIES["smooth"]
TRUE = [row for row in ROWS.values() if not row.printed]


def grid(**changes: object) -> RateGrid:
    options = {"rows": "regression-none", "epsilon": None, "records": "1e3,1e4", "seeds": 1}
    return RateGrid.parse(**{**options, **changes})


def test_every_row_of_table_one_is_run_in_two_dimensions_with_three_epsilon_over_two_decades() -> None:
    made = grid(rows=None, records=None)
    assert len(made.records) >= 5 and made.records[-1] >= 100 * made.records[0]
    for row in TRUE:
        own = [(run.dimension, run.epsilon) for run in made.runs if run.row == row.name]
        assert len(own) == len(set(own)) == 2 * (3 if row.trust else 1)
    assert len(TRUE) == 3 * 5, "three tasks; local and central trust, label and full protection, and none"
    assert {run.row for run in made.runs} == set(ROWS) | set(OF_CLASSES)
    assert len({run.name for run in made.runs}) == len(made.runs)
    assert len({run.rng().integers(1 << 60) for run in made.runs}) == len(made.runs)


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("row", TRUE, ids=lambda row: row.name)
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_learner_is_tuned_so_that_its_side_has_the_exponent_of_its_rate(
    row: rates_rows.Row, dimension: int, family: rates_rows.Family
) -> None:
    sides = [tuning(row, dimension, family, 1.0, count).side for count in (10**15, 10**17)]
    power = (1 + family.margin) * family.beta if row.task == "classification" else 2 * family.beta
    found = power * math.log(sides[0] / sides[1]) / math.log(100)
    assert found == pytest.approx(exponent(**row.setting(dimension, family)), abs=0.02)


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.printed], ids=lambda row: row.name)
def test_a_printed_tuning_is_another_one(row: rates_rows.Row) -> None:
    right = ROWS[row.name.removesuffix("-printed")]
    for dimension in DIMENSIONS:
        sides = [[tuning(each, dimension, SMOOTH, 0.001, n).side for n in (10**9, 10**12)] for each in (row, right)]
        found = [math.log(first / last) for first, last in sides]
        assert abs(found[0] - found[1]) > 0.05 * math.log(1000)


def test_the_printed_tuning_is_that_of_the_paper() -> None:
    """N = 10^6, epsilon = 0.1, d = 1, β = 1, p = 3: by hand."""
    local = tuning(ROWS["heavy-tailed-local-label-printed"], 1, SMOOTH, 0.1, 10**6)
    assert local.neighbors == math.ceil(2 * 10**4)  # (Nε²)^(2/8) = 10 is less than N^(2/3)
    assert local.reach == pytest.approx((20_000 * 0.01) ** (1 / 6))
    central = tuning(ROWS["heavy-tailed-central-label-printed"], 1, SMOOTH, 0.1, 10**6)
    assert central.side == pytest.approx(2 * (10**-2 + 10**-1))  # N^(-1/3) + (εN)^(-1/5)
    assert central.reach == pytest.approx((10**5 * central.side) ** (1 / 3))


def measured(tmp_path: Path, **changes: object) -> list[Slope]:
    return slopes(reproduce_rates(grid(**changes), out=str(tmp_path / "out")))


def test_the_measured_slope_is_near_the_predicted_one(tmp_path: Path) -> None:
    rows = "classification-local-label,regression-none,regression-central-label,regression-local-label"
    found = measured(tmp_path, rows=rows, records="1e6,1e7,1e8", seeds=4, epsilon="1")
    assert len(found) == 8
    assert [each for each in found if abs(each.measured - each.predicted) > 0.1] == []


def test_a_wrong_tuning_has_another_slope(tmp_path: Path) -> None:
    found = measured(tmp_path, rows="heavy-tailed-central-label", records="1e6,1e7,1e8", seeds=2, epsilon="1")
    right, wrong = ([each for each in found if each.printed is printed] for printed in (False, True))
    assert all(each.reached for each in right) and not any(each.reached for each in wrong)
    assert all(high.low - low.high > 0.1 for low, high in zip(right, wrong, strict=True)), "intervals lie apart"


WRONG_SIDES = [(1, 0.1, 0.0), (1, 20.0, -0.6), (2, 0.1, 0.0), (2, 5.0, -0.4)]
"""Dimension, and constant and exponent of a side that falls too slowly or too fast: the right one is -1/(2β + d)."""


@pytest.mark.parametrize(("dimension", "constant", "power"), WRONG_SIDES)
def test_a_wrong_side_for_classes_is_flagged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dimension: int, constant: float, power: float
) -> None:
    monkeypatch.setattr(rates_rows, "cube_side", lambda records, dimension, **rest: constant * records**power)
    monkeypatch.setattr(rates_rows, "REPEATS", 2)
    made = grid(rows="classification-local-label", records="1e5,1e6,1e7", seeds=3, epsilon="1")
    own = RateGrid(made.records, tuple(run for run in made.runs if run.dimension == dimension))
    [found] = slopes(reproduce_rates(own, out=str(tmp_path / "out")))
    assert not found.reached


def test_a_run_is_the_same_again_and_says_what_it_is(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        reproduce_rates(grid(), out=str(tmp_path / folder))
    [path, _] = sorted((tmp_path / "one" / "runs").iterdir())
    contents = [json.loads((tmp_path / folder / "runs" / path.name).read_text()) for folder in ("one", "two")]
    assert contents[0]["points"] == contents[1]["points"]
    assert contents[0]["run"] == {
        "row": "regression-none",
        "dimension": 1,
        "epsilon": 0.0,
        "seed": 0,
        "family": "smooth",
    }
    assert contents[0]["simulation"].startswith("SIMULATION") and contents[0]["constants"]["records"] == [1000, 10000]
    assert {point["at"] for point in contents[0]["points"]} == {1000, 10_000}
    assert str(tmp_path) not in path.read_text() and not (tmp_path / "one" / "unfinished").exists()


def test_what_stands_is_not_run_again_and_what_is_missing_is(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = reproduce_rates(grid(seeds=2), out=str(out))
    gone, kept = sorted((out / "runs").iterdir())[:2]
    gone.unlink()
    stamp, published = kept.stat().st_mtime_ns, list[int]()
    again = reproduce_rates(grid(seeds=2), out=str(out), publish=lambda results: published.append(len(results)))
    assert kept.stat().st_mtime_ns == stamp and len(first) == 4 and published == [4]
    assert [each.points for each in again] == [each.points for each in first]
    assert len(reproduce_rates(grid(rows="regression-none", seeds=3), out=str(out))) == 6, "a folder collects grids"


def test_a_run_that_somebody_is_at_is_left_to_them(tmp_path: Path) -> None:
    made, out, said = grid(), tmp_path / "out", list[str]()
    (out / "runs").mkdir(parents=True)
    place = out / "unfinished" / made.runs[0].name
    place.mkdir(parents=True)
    handle = os.open(place, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    results = reproduce_rates(made, out=str(out), callback=said.append)
    os.close(handle)
    assert [each.run for each in results] == [made.runs[1]] and "left to the command" in said[0] and place.is_dir()
    assert len(reproduce_rates(made, out=str(out))) == 2


WRONG = [
    ({"rows": "regresion"}, "--rows must be names"),
    ({"rows": "regression,"}, "--rows must hold"),
    ({"epsilon": "0"}, "epsilon"),
    ({"epsilon": "1,1"}, "distinct"),
    ({"records": "1e6"}, "--records must hold at least two"),
    ({"records": "1e7,1e6"}, "rising"),
    ({"records": "1e6,many"}, "--records must be numbers"),
    ({"records": "1e6,nan"}, "--records must be numbers"),
    ({"records": "10,1000"}, "from 100"),
    ({"seeds": 0}, "--seeds must be at least 1"),
    ({"family": "smooth,rogh"}, "--family must be"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_wrong_options_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        grid(**changes)


def test_other_files_and_other_constants_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    reproduce_rates(grid(), out=str(out))
    with pytest.raises(InputError, match="other data or constants"):
        reproduce_rates(grid(records="1e3,1e5"), out=str(out))
    path = sorted((out / "runs").iterdir())[0]
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "constants": {**content["constants"], "MARGIN": 0.7}}))
    with pytest.raises(InputError, match="other data or constants"):
        reproduce_rates(grid(), out=str(out))
    path.write_text("[]")
    with pytest.raises(InputError, match="is not a result of python -m papers rates"):
        reproduce_rates(grid(), out=str(out))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other things"):
        reproduce_rates(grid(), out=str(tmp_path / "full"))


def imagined(row: str, seed: int, risk: Callable[[int, int], float], at: tuple[int, ...] = RECORDS) -> RateResult:
    """A run with two instances, whose risks are given."""
    run = RateRun(row, 0 if row in OF_CLASSES else 1, 1.0 if row in OF_CLASSES or ROWS[row].trust else 0.0, seed)
    points = tuple(RatePoint(n, f"{place}", risk(n, place)) for n in at for place in range(2))
    return RateResult(run, points, {}, 1.0, {}, "2026-01-01T00:00:00+00:00")


def test_a_slope_is_fitted_to_the_hardest_instances() -> None:
    results = [imagined("regression-none", seed, lambda n, place: n**-0.5 * (1 + place)) for seed in range(3)]
    [found] = slopes(results)
    assert found.measured == pytest.approx(-0.5) and (found.low, found.high) == pytest.approx((-0.5, -0.5))
    assert found.risks == pytest.approx([2 * n**-0.5 for n in RECORDS]) and found.noises == 3
    assert found.predicted == pytest.approx(-2 / 3) and found.limit == pytest.approx(-2 / 3) and not found.reached
    [near] = slopes([imagined("regression-none", 0, lambda n, place: n**-0.6)])
    assert near.reached and math.isnan(near.low) and math.isnan(near.high)


def test_the_interval_is_that_of_the_runs() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.1, (40, len(RECORDS)))
    results = [
        imagined("regression-none", seed, lambda n, place, own=own: n**-0.5 * math.exp(own[RECORDS.index(n)]))
        for seed, own in enumerate(noise)
    ]
    [found] = slopes(results)
    away = np.log(RECORDS) - np.log(RECORDS).mean()
    error = 0.1 / math.sqrt(40 * (away @ away))
    assert found.low < found.measured < found.high
    assert found.high - found.low >= 2 * 1.96 * error * 0.65
    [few] = slopes([dataclasses.replace(each, points=each.points[:6]) for each in results])
    error = 0.1 / math.sqrt(40 * np.var(np.log(RECORDS[:3])) * 3)
    assert few.high - few.low == pytest.approx(2 * 1.96 * error, rel=0.35), "three points: noise alone"


def test_a_resample_without_risk_has_no_slope() -> None:
    results = [
        imagined("regression-none", seed, lambda n, place, seed=seed: 0.0 if seed and n == RECORDS[0] else n**-0.5)
        for seed in range(3)
    ]
    [found] = slopes(results)
    assert math.isfinite(found.low) and found.low <= found.measured <= found.high


def test_the_interval_holds_what_all_runs_share_at_one_number_of_records() -> None:
    """A side that jumps with N moves all runs alike: their noise says nothing of it, the scatter around a line does."""
    rng, hits = np.random.default_rng(1), 0
    for _ in range(200):
        jumps = np.exp(rng.normal(0, 0.2, len(RECORDS)))
        results = [
            imagined("regression-none", seed, lambda n, place, own=jumps: n ** (-2 / 3) * own[RECORDS.index(n)])
            for seed in range(2)
        ]
        [found] = slopes(results)
        hits += found.held
    assert 178 <= hits <= 200, "95 % of 200, four standard deviations"


def test_possible_slopes_lie_between_the_exponents_of_the_two_terms() -> None:
    """Regression under central trust at ε = 1e-4, d = 1: N^(-2/3) of data, (εN)^(-1) of privacy."""
    made = imagined("regression-central-label", 0, lambda n, place: n**-0.9)
    made = dataclasses.replace(made, run=dataclasses.replace(made.run, epsilon=1e-4))
    [found] = slopes([made, dataclasses.replace(made, run=dataclasses.replace(made.run, seed=1))])
    low, high = found.possible
    assert -4 / 3 < low < found.predicted < high < -2 / 3 and found.held_possibly == (low <= -0.9 <= high)
    [plain] = slopes([imagined("regression-none", 0, lambda n, place: n**-0.9)])
    assert plain.possible == pytest.approx((plain.predicted, plain.predicted)) and not plain.held_possibly


def test_the_rough_family_has_slopes_of_its_own(tmp_path: Path) -> None:
    rows = "classification-none,regression-none"
    found = measured(tmp_path, rows=rows, records="1e4,1e5,1e6", seeds=2, family="smooth,rough")
    assert [each.family for each in found] == ["smooth"] * 4 + ["rough"] * 4 and all(each.reached for each in found)
    assert [round(each.predicted, 3) for each in found] == [-0.5, -0.375, -0.667, -0.5, -0.5, -0.333, -0.5, -0.333]


def test_a_curve_of_classes_is_that_of_the_hardest_lead() -> None:
    results = [
        imagined("classes-unary", seed, lambda size, place, seed=seed: 0.01 * place + 0.001 * seed, (2, 100))
        for seed in range(2)
    ]
    [curve] = class_curves(results)
    assert curve.classes == (2, 100) and curve.risks == pytest.approx((0.0105, 0.0105))
    assert curve.spreads == pytest.approx([0.001 / math.sqrt(2)] * 2) and slopes(results) == []
