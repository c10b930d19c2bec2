"""Exponents and bounds of Figure 1 and Table 1: by hand, and where printed and corrected ones part."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from labeldp.privacy import InputError
from papers.online import tables as online_tables
from papers.online.bounds import batching_excess
from papers.online.report import write_online
from papers.online.run import TABLES, OnlineGrid, OnlineResult, auto_choices, online_cells, reproduce_online
from papers.online.tables import (
    BOUNDS,
    CONVEX,
    CORRECTED,
    EXPERTS,
    KNOWN,
    PANELS,
    PRINTED,
    Bound,
    bounds_of,
    free_until,
)

GROWTH = {letter: growth for letter, _, growth, _ in PANELS}


def bound(name: str, setting: str, source: str) -> Bound:
    """The only one of that name."""
    (found,) = [each for each in BOUNDS if (each.name, each.setting, each.source) == (name, setting, source)]
    return found


PRINTED_EXPERTS, CORRECTED_EXPERTS = (bound("L2P", EXPERTS, source) for source in (PRINTED, CORRECTED))

PRINTED_CONVEX, CORRECTED_CONVEX = (bound("L2P", CONVEX, source) for source in (PRINTED, CORRECTED))


def test_values_by_hand() -> None:
    rounds, d, epsilon = 1e6, 100.0, 0.1
    log, free = math.log(100), math.sqrt(1e6 * math.log(100))
    assert PRINTED_EXPERTS.value(rounds, d, epsilon) == pytest.approx(free + 100 * log / 0.1 ** (2 / 3))
    longer = 1e6**0.4 * log**0.8 / 0.1**0.6
    assert CORRECTED_EXPERTS.value(rounds, d, epsilon) == pytest.approx(free + min(longer, 100 * log / 0.1))
    before = bound("lazy, before", EXPERTS, KNOWN)
    assert before.value(rounds, d, 0.01) == pytest.approx(free + min(100 * log / 0.01, 1e6**0.4 * log / 0.01**0.8))
    assert bound("tree noise", EXPERTS, KNOWN).value(rounds, d, epsilon) == pytest.approx(free + 10 * log / 0.1)
    assert PRINTED_CONVEX.value(rounds, d, epsilon) == pytest.approx(1000 + 100 * 10 / 0.1 ** (2 / 3))
    ftrl = bound("DP-FTRL", CONVEX, KNOWN)
    assert ftrl.value(rounds, d, epsilon) == pytest.approx(1000 + 100**0.25 * 1000 / math.sqrt(0.1))
    assert PRINTED_EXPERTS.value(100.0, 10.0, 1e-6) == 100.0, "more than all rounds nobody loses"


def test_privacy_is_free_up_to_the_sixth_root_and_not_to_the_fourth() -> None:
    assert free_until(PRINTED_EXPERTS, 1.0) == pytest.approx(1 / 4)
    assert free_until(CORRECTED_EXPERTS, 1.0) == pytest.approx(1 / 6)
    assert free_until(bound("lazy, before", EXPERTS, KNOWN), 1.0) == pytest.approx(1 / 6)
    assert free_until(PRINTED_CONVEX, 0.0) == pytest.approx(1 / 4)
    assert free_until(CORRECTED_CONVEX, 0.0) == pytest.approx(1 / 6)
    assert free_until(bound("without privacy", EXPERTS, KNOWN), 1.0) == 1.0


@pytest.mark.parametrize("alpha", [0.0, 1 / 6, 0.25, 0.4, 0.7, 1.0])
def test_exponents_by_hand(alpha: float) -> None:
    assert PRINTED_EXPERTS.exponent(alpha, 1.0) == pytest.approx(max(1 / 2, 1 / 3 + 2 * alpha / 3))
    corrected = min(1 / 3 + alpha, 2 / 5 + 3 * alpha / 5)
    assert CORRECTED_EXPERTS.exponent(alpha, 1.0) == pytest.approx(min(1.0, max(1 / 2, corrected)))
    assert PRINTED_CONVEX.exponent(alpha, 1 / 3) == pytest.approx(min(1.0, max(1 / 2, 1 / 2 + 2 * alpha / 3)))


@pytest.mark.parametrize("growth", [0.0, 0.1, 1 / 3, 0.6])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.2, 0.35, 0.5, 0.9])
def test_the_corrected_rate_of_convex_losses_is_that_of_the_best_batch(alpha: float, growth: float) -> None:
    """Of √(TB) + √d T^(1/3)/(εB^(1/3)), for B from 1 to 1/ε."""
    batches = [alpha * step / 3000 for step in range(3001)]
    best = min(max((1 + b) / 2, growth / 2 + 1 / 3 + alpha - b / 3) for b in batches)
    assert CORRECTED_CONVEX.exponent(alpha, growth) == pytest.approx(min(1.0, best), abs=1e-3)


def test_a_corrected_rate_is_never_below_the_printed_one() -> None:
    for letter, setting, growth, _ in PANELS:
        printed, corrected = (bound("L2P", setting, source) for source in (PRINTED, CORRECTED))
        for step in range(61):
            assert corrected.exponent(step / 60, growth) >= printed.exponent(step / 60, growth) - 1e-12, letter


def test_large_numbers_follow_the_exponents() -> None:
    """d = T and a long horizon: what is printed as an exponent is the slope of the values."""
    for each in bounds_of(EXPERTS):
        values = [each.value(rounds, rounds, rounds**-0.4) for rounds in (1e100, 1e102)]
        assert math.log(values[1] / values[0]) / math.log(100) == pytest.approx(each.exponent(0.4, 1.0), abs=0.01)


WORDS = {"tables": "regret,excess", "losses": "trap,alt100", "rounds": "256", "experts": "3", "epsilon": "4"}


def grid(seeds: int = 1, **changes: str | None) -> OnlineGrid:
    """As on a command line."""
    return OnlineGrid.parse(**{**WORDS, **changes}, seeds=seeds)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of finished runs, two seeds."""
    out = tmp_path_factory.mktemp("online") / "out"
    reproduce_online(grid(2, tables="regret"), data=None, out=str(out))
    return out


def test_the_excess_of_batches_is_that_of_the_counterexample() -> None:
    """Proposition 3.3 has T B² η²; it is eta T B / 8, as in the reference tables: 112 and 522."""
    for (rounds, epsilon), measured in zip(online_tables.EXCESSES, (112, 522), strict=False):
        found = {point.name: point.value for point in online_tables.excess(rounds, epsilon)}
        assert found["measured"] == pytest.approx(measured, abs=0.6)
        batch, rate = round(1 / epsilon), epsilon ** (2 / 3) * rounds ** (-1 / 3)
        assert found["measured"] == pytest.approx(batching_excess(rounds, batch, rate), rel=1e-4)
        assert 0.85 < found["measured"] / found["η T B / 8"] < 1
    assert found["measured"] > 2.4 * found["claimed, T B² η²"]


def test_every_table_has_its_runs() -> None:
    everything = OnlineGrid.parse(tables=None, losses=None, rounds="1e5", experts="100,1000", epsilon=None, seeds=5)
    names = [run.name for run in everything.runs(["djia", "elec2"])]
    assert len(names) == len(set(names)) and everything.tables == TABLES
    counts = {table: sum(name.startswith(f"{table}-") for name in names) for table in TABLES}
    regret = 7 * 2 * 2 * 5
    assert counts == {
        "exponents": 1,
        "table1": 8,
        "excess": 4,
        "regret": regret,
        "hard": 20,
        "adversary": 30,
        "stocks": 15,
        "elec2": 15,
    }
    assert "regret-iid-0.1-T100000-d1000-epsilon0.1-seed0" in names
    assert [run.seed for run in everything.runs(["djia"])] == sorted(run.seed for run in everything.runs(["djia"]))


def test_the_adversary_of_the_lower_bound_is_left_out_where_its_epochs_are_too_short() -> None:
    few = grid(tables="hard", rounds="1000", epsilon=None)
    assert [run.epsilon for run in few.runs([])] == [0.01, 0.03]
    assert list(grid(tables="hard", rounds="64", epsilon=None).runs([])) == [
        run for run in grid(tables="hard", rounds="64", epsilon=None).runs([]) if run.epsilon >= 1 / 64
    ]


def test_the_adversary_is_played_by_every_learner_beside_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(online_tables, "ADVERSARY_ROUNDS", (300, 1000))
    monkeypatch.setattr(online_tables, "ADVERSARY_POWERS", (1 / 4,))
    grid = OnlineGrid.parse(tables="adversary", losses=None, rounds="1e3", experts="4", epsilon=None, seeds=1)
    results = reproduce_online(grid, data=None, out=str(tmp_path / "out"))
    assert {each.size for each in results} == {(300, 4), (1000, 4)} and len(results) == 2
    assert all(each.run.epsilon <= each.size[0] ** -0.25 for each in results)
    for each in results:
        bound, *points = each.points
        rounds, epsilon = each.size[0], each.run.epsilon
        assert bound.value == pytest.approx(math.sqrt(rounds) + rounds ** (1 / 3) / epsilon ** (2 / 3))
        played = {point.name for point in points if point.played is not None}
        assert played >= {"dartboard", "l2p", "redraw", "matrix-factorization", "tree", "multiplicative-weights"}
        free = next(point for point in points if point.name == "multiplicative-weights")
        assert free.value <= max(point.value for point in points) and all(abs(p.value) <= rounds for p in points)
    paths = write_online(results, tmp_path)
    assert [Path(path).name for path in paths] == ["online.md", "adversary.svg"]
    assert "## The adversary of Theorem 4.2, played" in (tmp_path / "online.md").read_text()


def test_runs_are_made_once(folder: Path) -> None:
    stamps = {path: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert len(stamps) == 4 and not (folder / "unfinished").exists()
    shown = list[str]()
    again = reproduce_online(
        grid(2, tables="regret"), data=None, out=str(folder), progress=lambda t, s: shown.append(t)
    )
    assert len(again) == 4 and all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert shown[0] == "regret, trap, T = 256, d = 3, ε = 4, seed 1"


def test_a_file_tells_everything(folder: Path) -> None:
    (path,) = (folder / "runs").glob("regret-trap-*-seed0.json")
    content = json.loads(path.read_text())
    assert "SIMULATION" in content["simulation"] and "no private output" in content["simulation"]
    assert content["constants"]["delta"] == 1e-6 and content["constants"]["parameters"]["dartboard"]["B"] >= 1
    result = OnlineResult.read(path)
    assert result.size == (256, 3) and result.auto in {point.name for point in result.points}
    trap = {point.name: point.value for point in result.points}
    assert trap["doubling"] > 3 * trap["dartboard"] and trap["multiplicative-weights"] < 25


def test_seeds_are_put_together(folder: Path) -> None:
    results = [OnlineResult.read(path) for path in sorted((folder / "runs").iterdir())]
    cells = [each for each in online_cells(results) if each.data == "trap"]
    assert all(len(each.values) == 2 and each.size == (256, 3) for each in cells)
    (free,) = [each for each in cells if each.name == "multiplicative-weights"]
    assert free.values[0] == free.values[1], "the trap leaves nothing to chance"
    choices = {each.data: each for each in auto_choices(results)}
    safe = [each.values for each in cells if each.name in ("dartboard", "redraw", "l2p", "shrinking-dartboard")]
    assert choices["trap"].ratio >= 1 - 1e-9 and len(safe) == 4


def test_other_constants_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("papers.online.run.DELTA", 1e-5)
    with pytest.raises(InputError, match="other data or constants"):
        reproduce_online(grid(2, tables="regret"), data=None, out=str(folder))


def test_real_losses_are_played_and_left_out_where_there_are_none(tmp_path: Path) -> None:
    import gzip

    place = tmp_path / "data" / "stock_experts" / "djia.csv.gz"
    place.parent.mkdir(parents=True)
    place.write_bytes(gzip.compress(("a,b\n" + "1.1,0.9\n0.9,1.2\n" * 40).encode()))
    told = list[str]()
    with pytest.raises(InputError, match="tables: elec2 cannot be made; --data names no folder"):
        reproduce_online(grid(tables="stocks,elec2"), data=str(place.parents[1]), out=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    asked = replace(grid(tables="stocks,elec2"), named=False)
    (found,) = reproduce_online(asked, data=str(place.parents[1]), out=str(tmp_path / "out"), callback=told.append)
    assert found.size == (80, 2) and told == ["elec2: left out; --data names no folder with these losses"]
    played = {point.name for point in found.points if point.played is not None}
    assert "dartboard" in played and "l2p-printed" not in played and "blind" not in played
    assert all(point.switches is not None for point in found.points if point.name in played)
    assert reproduce_online(asked, data=None, out=str(tmp_path / "other")) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tables": "regrets"}, "--tables"),
        ({"losses": "trap,trap"}, "--losses"),
        ({"rounds": "1e5,1e6"}, "--rounds"),
        ({"rounds": "10"}, "--rounds"),
        ({"experts": "1"}, "--experts"),
        ({"experts": "2.5"}, "--experts"),
        ({"epsilon": "0"}, "epsilon"),
        ({"seeds": 0}, "--seeds"),
    ],
)
def test_a_wrong_grid_is_refused(changes: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        grid(**changes)


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.json").write_text("{}")
    with pytest.raises(InputError, match="is not a result of python -m papers online"):
        reproduce_online(grid(tables="exponents"), data=None, out=str(tmp_path))
