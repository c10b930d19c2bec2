"""Tables of learning from bags: every cell leaves one file and is not made twice, and says what it really promises."""

import fcntl
import gzip
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from labeldp.privacy import InputError
from papers.aggregation import data as aggregation_data
from papers.aggregation.cells import ADAM_WAYS, _natural, fit_adam, noisy_labels
from papers.aggregation.data import (
    CENSUS,
    CRITEO_COLUMNS,
    EXTRACT,
    Problem,
    generated,
    problems,
    squared_log,
)
from papers.aggregation.report import write_aggregation
from papers.aggregation.run import SHARES, AggregationGrid, AggregationResult, AggregationRun, reproduce_aggregation

SMALL = {"tables": "lba", "bag_size": "8,32", "bags": "100,200", "noisy_fraction": None, "seeds": 1}


def grid(**changes: object) -> AggregationGrid:
    return AggregationGrid.parse(**{**SMALL, **changes})


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer made-up records and features, so that a test takes a second."""
    monkeypatch.setattr(aggregation_data, "MADE", 8_500)
    monkeypatch.setattr(aggregation_data, "BLOCK", 4_000)
    monkeypatch.setattr(aggregation_data, "LEVELS", (4, 3))
    monkeypatch.setattr(aggregation_data, "NUMBERS", 3)


def found(results: list[AggregationResult], learner: str) -> dict[tuple[int, int], float]:
    return {(each.run.bags, each.run.size): each.cell.errors[learner] for each in results if each.run.bags}


def test_by_default_the_papers_shares_and_both_tables_are_run() -> None:
    made = grid(tables="lba,llp", bag_size=None, bags=None)
    assert made.shares == SHARES == (0.0, 0.01, 0.1, 0.5, 1.0)
    assert made.cells("criteo", "llp") == [(k, m) for m in (512, 1024, 2048, 4096) for k in (32, 64, 128, 256)]
    assert made.cells("census", "lba")[-1] == (512, 8192)
    runs = [run for name in ("generated", "hillstrom") for seed in (0, 1) for run in made.runs(name, seed)]
    assert len({run.name for run in runs}) == len(runs) == len({run.rng().integers(1 << 60) for run in runs})


@pytest.mark.usefixtures("few")
def test_table_one_falls_with_m_and_k_under_adam_and_with_m_alone_by_least_squares(tmp_path: Path) -> None:
    results = reproduce_aggregation(grid(), out=str(tmp_path / "out"))
    slow, exact = found(results, "Adam"), found(results, "exact")
    for descent in (slow[100, 8] - slow[200, 8], slow[100, 8] - slow[100, 32], slow[200, 8] - slow[200, 32]):
        assert descent > 20
    for m in (100, 200):
        assert abs(exact[m, 8] - exact[m, 32]) < 8000 / m and max(exact[m, 8], exact[m, 32]) < slow[m, 32] / 5
    cells = [each.cell for each in results if each.run.bags]
    assert all(0.9 < cell.delta < 1 and "SIMULATION" in cell.certificate for cell in cells)
    alone = next(each.cell for each in results if not each.run.bags)
    assert alone.delta is None and 165 < alone.errors["exact"] < 195 and alone.certificate.startswith("none")


@pytest.mark.usefixtures("few")
def test_a_run_is_made_once_and_shared(tmp_path: Path) -> None:
    out, small = tmp_path / "out", grid(bag_size="8", bags="100")
    first = reproduce_aggregation(small, out=str(out))
    stamps = {path: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}
    assert len(stamps) == 2 and reproduce_aggregation(small, out=str(out)) == first
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    name, said = first[0].run.name, list[str]()
    (out / "runs" / f"{name}.json").unlink()
    (out / "unfinished" / name).mkdir(parents=True)
    handle = os.open(out / "unfinished" / name, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert len(reproduce_aggregation(small, out=str(out), callback=said.append)) == 1 and "left to" in said[0]
    os.close(handle)
    again = reproduce_aggregation(small, out=str(out))
    assert [each.cell for each in again] == [each.cell for each in first]


@pytest.mark.usefixtures("few")
def test_cells_of_more_records_than_there_are_are_left_out_and_said(tmp_path: Path) -> None:
    said = list[str]()
    results = reproduce_aggregation(
        grid(bag_size="8,1000", bags="100"), out=str(tmp_path / "out"), callback=said.append
    )
    assert len(results) == 2 and said == ["generated: 1 of 3 runs left out, of more than 6800 records"]


@pytest.mark.usefixtures("few")
def test_other_constants_and_other_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, small = tmp_path / "out", grid(bag_size="8", bags="100")
    reproduce_aggregation(small, out=str(out))
    monkeypatch.setattr("papers.aggregation.cells.EPOCHS", 7)
    with pytest.raises(InputError, match="other data or constants"):
        reproduce_aggregation(small, out=str(out))
    (out / "runs" / "strange.json").write_text("{}")
    with pytest.raises(InputError, match="strange"):
        reproduce_aggregation(small, out=str(out))


@pytest.mark.usefixtures("few")
def test_results_with_fewer_learners_are_refused(tmp_path: Path) -> None:
    out, small = tmp_path / "out", grid(bag_size="8", bags="100")
    reproduce_aggregation(small, out=str(out))
    path = next((out / "runs").glob("*k8*"))
    content = json.loads(path.read_text())
    del content["constants"]["LEARNERS"]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="other data or constants"):
        reproduce_aggregation(small, out=str(out))


def test_adam_ends_at_the_least_squares_where_it_has_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3))
    sums = rows @ np.array([0.3, -0.2, 0.1])
    assert fit_adam(rows, sums, 4, 0) == pytest.approx([0.3, -0.2, 0.1], abs=1e-3)
    monkeypatch.setattr("papers.aggregation.cells.EPOCHS", 3)
    assert np.abs(fit_adam(rows, sums, 400, 0)).max() < 0.01


def test_a_whole_number_of_labels_is_noisy_and_one_at_least() -> None:
    assert [noisy_labels(share, 32) for share in (0.0, 0.01, 0.1, 0.5, 1.0)] == [1, 1, 3, 16, 32]


CENSUS_CATEGORIES = CENSUS.categories
HEADER = "WKSWORK,AGE,SEX,MARST,CHBORN,SCHOOL,EMPSTAT,OCC,IND,OTHER\n"


def criteo(path: Path) -> None:
    """The published file without a header: tabs, and −1 for what is missing."""
    lines = []
    for number in range(60):
        values = dict.fromkeys(CRITEO_COLUMNS, "x")
        values |= {"SalesAmountInEuro": "-1" if number < 10 else str(number), "product_price": str(number)}
        values |= {"Time_delay_for_conversion": "-1" if number == 20 else "8", "nb_clicks_1week": "-1"}
        values |= {"product_gender": "rare" if number == 30 else "-1" if number == 31 else "ab"[number % 2]}
        lines.append("\t".join(values[name] for name in CRITEO_COLUMNS))
    path.write_text("\n".join(lines) + "\n")


def test_criteo_is_prepared_as_the_appendix_says(tmp_path: Path) -> None:
    criteo(tmp_path / "conversions.tsv")
    ((name, load),) = problems(str(tmp_path / "conversions.tsv")).items()
    problem = load()
    assert name == "criteo" and len(problem.labels) == 50, "those without a label are removed"
    assert problem.labels[0] == pytest.approx(np.log2(10) ** 2) and (problem.low, problem.high) == (0, 253.78)
    genders = problem.features[:, -3:]
    assert genders.sum(axis=0).tolist() == [24, 24, 2], "the rare and the missing stand together"
    assert np.isfinite(problem.features).all() and problem.features.shape[1] == 3 + 4 * 2 + 3


def test_two_to_sixteen_makes_256() -> None:
    assert squared_log(np.array([-1.0, 2.0, 4.0, 65536.0])).tolist() == [-1.0, 2.0, 4.0, 256.0]


def test_census_is_prepared_as_the_appendix_says(tmp_path: Path) -> None:
    rows = [f"{'' if n < 5 else n % 53},{20 + n % 40},1,2,3,1,2,{n % 3},{n % 2},z" for n in range(60)]
    (tmp_path / "census.csv").write_text(HEADER + "\n".join(rows))
    ((name, load),) = problems(str(tmp_path / "census.csv")).items()
    problem = load()
    assert name == "census" and len(problem.labels) == 54 and 1 <= problem.labels.min() <= problem.labels.max() <= 52
    assert problem.features.shape[1] == 1 + 5 * 2 + 4 + 3 and abs(problem.features[:, 0].mean()) < 1e-6


HOUSEHOLD, USER = 159, 170
"""Characters of a line; of users more than those that are read."""


def user(**values: int) -> str:
    """A line of EXT1940USCB.dat: 9 where nothing is said."""
    line = list("P1940" + "9" * (USER - 5))
    for name, value in values.items():
        first, last = EXTRACT[name]
        line[first - 1 : last] = f"{value:0{last - first + 1}d}"
    return "".join(line)


EVERYBODY = {"SEX": 1, "AGE": 30, "MARST": 6, "CHBORN": 0, "SCHOOL": 1, "EMPSTAT": 1, "OCC": 266, "IND": 7036}


def read_extract(path: Path, people: list[str]) -> Problem:
    """Write households of two users, and read them."""
    pairs = [people[at : at + 2] for at in range(0, len(people), 2)]
    lines = [line for pair in pairs for line in ("H1940" + "1" * (HOUSEHOLD - 5), *pair)]
    path.write_text("\n".join(lines) + "\n")
    ((name, load),) = problems(str(path)).items()
    assert name == "census"
    return load()


def test_the_published_extract_of_the_census_is_read_by_its_columns(tmp_path: Path) -> None:
    people = [user(**{**EVERYBODY, "AGE": 20 + n, "WKSWORK1": 1 + n}) for n in range(52)]
    problem = read_extract(tmp_path / "EXT1940USCB.dat", people)
    assert problem.labels.tolist() == list(range(1, 53)) and (problem.low, problem.high) == (0, 52)
    ages = problem.features[:, 0] * problem.scales[1, 0] + problem.scales[0, 0]
    assert ages == pytest.approx(np.arange(20, 72), rel=1e-5) and problem.features.shape == (52, 1 + 7 * 2)


@pytest.mark.parametrize("weeks", [0, 53, 98, 99])
def test_users_without_weeks_have_no_label(tmp_path: Path, weeks: int) -> None:
    people = [user(**EVERYBODY, WKSWORK1=weeks if n % 3 == 0 else 40) for n in range(30)]
    assert len(read_extract(tmp_path / "EXT1940USCB.dat", people).labels) == 20


@pytest.mark.parametrize("column", [name for name in EXTRACT if name not in ("AGE", "WKSWORK1")])
def test_each_category_of_the_extract_becomes_columns_and_rare_codes_stand_together(
    tmp_path: Path, column: str
) -> None:
    first, last = EXTRACT[column]
    codes = [0, 9] if first == last else [0, 10 ** (last - first + 1) - 1]
    rare = 5
    chosen = [codes[n % 2] for n in range(40)] + [rare] * 5
    people = [user(**{**EVERYBODY, column: code, "WKSWORK1": 52}) for code in chosen]
    problem = read_extract(tmp_path / "EXT1940USCB.dat", people)
    place = 1 + sum(2 for name in CENSUS_CATEGORIES[: CENSUS_CATEGORIES.index(column)])
    flags = problem.features[:, place : place + 3]
    assert flags.sum(axis=0).tolist() == [20, 20, 5] and (flags.sum(axis=1) == 1).all()
    assert (flags[:40, 0] == flags[0, 0]).sum() == 20 and flags[40:, 2].all()


def test_a_missing_age_is_the_mean_and_other_signs_are_refused(tmp_path: Path) -> None:
    people = [user(**{**EVERYBODY, "AGE": 999 if n == 3 else 20 + n % 2, "WKSWORK1": 9}) for n in range(41)]
    problem = read_extract(tmp_path / "EXT1940USCB.dat", people)
    ages = problem.features[:, 0] * problem.scales[1, 0] + problem.scales[0, 0]
    assert ages[3] == pytest.approx(np.delete(ages, 3).mean(), rel=1e-5) and ages.max() < 22
    odd = people[0][: EXTRACT["OCC"][0] - 1] + "x" + people[0][EXTRACT["OCC"][0] :]
    with pytest.raises(InputError, match="characters 142 to 145"):
        read_extract(tmp_path / "odd.dat", [*people, odd])
    with pytest.raises(InputError, match="at least 160 characters"):
        read_extract(tmp_path / "short.dat", [*people, people[0][:150]])


def test_blocks_of_the_extract_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people = [user(**{**EVERYBODY, "AGE": 20 + n, "WKSWORK1": 1 + n}) for n in range(31)]
    whole = read_extract(tmp_path / "EXT1940USCB.dat", people)
    monkeypatch.setattr(aggregation_data, "BLOCK", 3)
    assert read_extract(tmp_path / "again.dat", people).digest == whole.digest


CRITEO_NUMBERS = ("Time_delay_for_conversion", "nb_clicks_1week", "product_price")
CRITEO_CATEGORIES = (
    "product_age_group",
    "product_category_1",
    "product_category_7",
    "product_country",
    "product_gender",
)


def read_criteo(path: Path, column: str, values: list[str]) -> Problem:
    """Write the published layout with one column that varies, all others as they are documented."""
    given = dict.fromkeys(CRITEO_COLUMNS, "7E2C1B9AD4F05C43D3A5B21E6C6E5A0B")
    given |= {"Sale": "1", "SalesAmountInEuro": "64.0", "Time_delay_for_conversion": "86400", "nb_clicks_1week": "3"}
    given |= {"click_timestamp": "1598891820", "product_price": "19.99"}
    lines = ["\t".join({**given, column: value}[name] for name in CRITEO_COLUMNS) for value in values]
    path.write_text("\n".join(lines) + "\n")
    ((name, load),) = problems(str(path)).items()
    assert name == "criteo"
    return load()


@pytest.mark.parametrize("column", CRITEO_NUMBERS)
def test_each_number_of_criteo_is_a_squared_logarithm_and_the_missing_are_the_mean(tmp_path: Path, column: str) -> None:
    problem = read_criteo(tmp_path / "CriteoSearchData", column, ["-1", "0", "2", "16", "1024", "16"])
    place = CRITEO_NUMBERS.index(column)
    natural = problem.features[:, place] * problem.scales[1, place] + problem.scales[0, place]
    mean = np.mean([0, 2, 16, 1024, 16])
    wanted = [np.log2(mean) ** 2, 0, 2, 16, 100, 16]
    assert natural == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("column", CRITEO_CATEGORIES)
def test_each_category_of_criteo_becomes_columns_and_the_missing_stand_with_the_rare(
    tmp_path: Path, column: str
) -> None:
    problem = read_criteo(tmp_path / "CriteoSearchData", column, ["A"] * 6 + ["B"] * 7 + ["C"] * 5 + ["-1"] * 9)
    place = 3 + 2 * CRITEO_CATEGORIES.index(column)
    assert problem.features[:, place : place + 3].sum(axis=0).tolist() == [6, 7, 14]


@pytest.mark.parametrize(("amount", "label"), [("0", 0.0), ("1.5", 1.5), ("2", 2.0), ("64.0", 36.0), ("1e9", 253.78)])
def test_amounts_of_criteo_are_squared_logarithms_within_their_range(tmp_path: Path, amount: str, label: float) -> None:
    problem = read_criteo(tmp_path / "CriteoSearchData", "SalesAmountInEuro", [amount, "-1", amount])
    assert problem.labels == pytest.approx([label, label]), "without a sale there is no label"


@pytest.mark.usefixtures("few")
def test_stand_ins_are_found_in_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "data" / "protein_structure"
    place.mkdir(parents=True)
    table = np.random.default_rng(0).normal(size=(700, 10)) + 5
    names = ",".join([*(f"F{number}" for number in range(1, 10)), "rmsd"])
    with gzip.open(place / "protein_structure.csv.gz", "wt") as file:
        file.write(names + "\n" + "\n".join(",".join(f"{value:.3f}" for value in row) for row in table))
    results = reproduce_aggregation(
        grid(bag_size="4", bags="100"), data=str(tmp_path / "data"), out=str(tmp_path / "out")
    )
    assert [each.run.problem for each in results] == ["generated"] * 2 + ["protein_structure"] * 2
    protein = found(results, "exact")[100, 4]
    assert 0.8 < protein < 1.8


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is there")
def test_networks_without_torch_get_one_sentence_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="networks need torch"):
        reproduce_aggregation(grid(tables="llp"), out=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


WRONG: list[tuple[dict[str, object], str]] = [
    ({"tables": "lbp"}, "--tables"),
    ({"bag_size": "1"}, "--bag-size"),
    ({"bags": "many"}, "--bags"),
    ({"bags": "64,64"}, "--bags"),
    ({"noisy_fraction": "2"}, "--noisy-fraction"),
    ({"seeds": 0}, "--seeds"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_a_wrong_grid_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        grid(**changes)


def empty(path: Path) -> None:
    path.mkdir()


def other(path: Path) -> None:
    path.write_text("a,b\n1,2\n")


@pytest.mark.parametrize("make", [empty, other, lambda path: None])
def test_wrong_data_is_refused_before_anything_is_made(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "data")
    with pytest.raises(InputError, match="--data"):
        reproduce_aggregation(grid(), data=str(tmp_path / "data"), out=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("few")
def test_made_up_records_are_the_same_every_time() -> None:
    problem = generated()
    assert problem.digest == generated().digest and problem.features.shape == (8_500, 10)
    assert json.dumps(AggregationRun("generated", "lba", 8, 100, 0.0, 0).name) == '"generated-lba-m100-k8-seed0"'


@pytest.mark.usefixtures("few")
def test_adam_learns_in_time_what_it_misses_in_two_hundred_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("papers.aggregation.cells.EPOCHS", 60)
    [result] = reproduce_aggregation(grid(tables="adam", bag_size="32", bags="200"), out=str(tmp_path / "out"))
    errors, curves = result.cell.errors, result.cell.curves
    assert set(errors) == {"least squares", *ADAM_WAYS} and set(curves) == set(ADAM_WAYS)
    paper, best = errors["Appendix K, numbers scaled"], errors["least squares"]
    assert paper > 5 * best and errors["rate × 100"] < 3 * best
    for name in ("one bag in a step", "constant from the mean", "rate × 10", "epochs × 10", "unscaled numbers"):
        assert errors[name] < 0.9 * paper, name
    assert curves["constant from the mean"][0][1] < curves["rate × 10"][0][1] == curves["rate × 100"][0][1]
    assert [epoch for epoch, _ in curves["no early end"]] == [0, 1, 2, 4, 8, 16, 20, 32, 40, 60]
    text = (write_aggregation([result], tmp_path), (tmp_path / "aggregation.md").read_text())[1]
    assert "### Adam, m = 200, k = 32" in text and (tmp_path / "generated-adam-m200-k32.svg").exists()


@pytest.mark.usefixtures("few")
def test_numbers_as_they_are_make_the_same_linear_models() -> None:
    problem = generated()
    turn = _natural(problem)
    rows = np.column_stack([np.ones(5), problem.features[:5]])
    natural = rows @ turn
    assert natural[:, :8] == pytest.approx(rows[:, :8]) and natural[:, 8:] == pytest.approx(100 + 50 * rows[:, 8:])
    assert np.linalg.matrix_rank(turn) == len(turn)
