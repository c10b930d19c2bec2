"""`python -m papers`: runs, a table and figures in a folder; a mistake gets one line."""

import gzip
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from cli.conftest import Ran
from labeldp.privacy import InputError
from papers.aggregation import data as aggregation_data
from papers.aggregation import run as aggregation
from papers.index import PAPERS


@pytest.fixture
def digits(people: Path) -> Path:
    """A folder in MNIST's format: ten classes, each with a bright column of its own."""
    images_of_columns(people / "digits", 80, 30)
    return people / "digits"


def images_of_columns(folder: Path, train: int, test: int) -> None:
    """Write such images in MNIST's format."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for part, count in (("train", train), ("t10k", test)):
        labels = rng.integers(0, 10, count)
        images = rng.integers(0, 60, (count, 28, 28))
        images[np.arange(count), :, labels] += 150
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            shape = np.array(array.shape, dtype=">u4").tobytes()
            content = bytes([0, 0, 8, array.ndim]) + shape + array.astype(np.uint8).tobytes()
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))


def arguments(**changes: str) -> list[str]:
    options = {"dataset": "mnist", "data": "digits", "epsilon": "2,9", "method": "linear", "seeds": "1", "out": "runs"}
    given = {**options, **changes}
    return ["multistage", *(word for name, value in given.items() for word in (f"--{name}", value))]


def test_a_grid_ends_in_a_table_and_figures(papers: Callable[..., Ran], digits: Path, people: Path) -> None:
    ran = papers(*arguments())
    assert ran.status == 0, ran
    assert ran.out.splitlines() == ["runs/results.md", "runs/mnist-accuracy.svg"]
    assert ran.err.startswith("mnist, linear, ε = 2, noise 1: ") and ran.err.count("\n") == 2
    assert "| **linear** |" in (people / "runs" / "results.md").read_text()
    ElementTree.parse(people / "runs" / "mnist-accuracy.svg")
    table = (people / "runs" / "results.md").read_text()
    again = papers(*arguments())
    assert again.err.count("from before") == 2 and (people / "runs" / "results.md").read_text() == table


def test_without_matplotlib_nothing_is_run(
    papers: Callable[..., Ran], digits: Path, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("papers.__main__.find_spec", lambda name: None)
    ran = papers(*arguments())
    assert (
        ran.status == 1
        and ran.err == "Error: figures need matplotlib, which is not installed: pip install -e '.[papers]'\n"
    )
    assert not (people / "runs").exists()


WRONG = [
    ({"dataset": "mnits"}, "--dataset"),
    ({"method": "lp"}, "--method"),
    ({"seeds": "0"}, "--seeds"),
    ({"seeds": "many"}, "--seeds"),
    ({"epsilon": "-1"}, "epsilon"),
    ({"data": "nowhere"}, "nowhere"),
    ({"dataset": "cifar10"}, "has images of 32 × 32 × 3, and digits has 28 × 28"),
    ({"figure": "pie"}, "--figure"),
    ({"out": "people.csv"}, "people.csv"),
    ({"out": "digits"}, "holds other things"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_a_mistake_gets_one_line(papers: Callable[..., Ran], digits: Path, changes: dict[str, str], words: str) -> None:
    ran = papers(*arguments(**changes))
    assert ran.status != 0 and "Traceback" not in ran.err and words in ran.err.splitlines()[-1], ran
    assert "results.md" not in ran.out


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is here")
def test_networks_without_torch_are_refused_before_anything_is_run(papers: Callable[..., Ran], digits: Path) -> None:
    ran = papers(*arguments(method="linear,lp-2st"))
    assert ran.status == 1 and ran.err.count("\n") == 1 and "pip install '.[torch]'" in ran.err
    assert not list(Path("runs").rglob("*.json"))


def bags_arguments(**changes: str) -> list[str]:
    given = {"tables": "lba", "bag-size": "8", "bags": "100", "seeds": "1", "out": "bags"}
    words = (word for name, value in {**given, **changes}.items() for word in (f"--{name}", value))
    return ["aggregation", *words]


SMALLER = {
    "Ghazi": ({"data": "thousand", "epsilon": "1"}, "mnist-clusters"),
    "Zhao": ({"records": "1000,10000", "seeds": "1"}, "classification-local-label"),
    "Brahmbhatt": ({"bag-size": "8", "bags": "50,100"}, "generated"),
    "Asi": ({"tables": "exponents"}, "exponents"),
}


@pytest.mark.parametrize("paper", SMALLER)
def test_the_quick_case_of_each_paper_ends_with_a_picture(papers: Callable[..., Ran], people: Path, paper: str) -> None:
    images_of_columns(people / "thousand", 1000, 20)
    changes, picture = SMALLER[paper]
    others = [f"--{name}={value}" for name, value in changes.items()]
    ran = papers(*PAPERS[paper].quick.split()[3:], *others)  # the last one of two holds
    assert ran.status == 0, ran
    ElementTree.parse(next(Path(path) for path in ran.out.splitlines() if Path(path).stem == picture))


def test_the_list_is_printed_without_a_command(papers: Callable[..., Ran]) -> None:
    ran = papers("--list")
    assert ran.status == 0 and ran.err == "" and PAPERS["Asi"].quick in ran.out and "Table I: classification" in ran.out


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregation_data, "MADE", 3_000)
    monkeypatch.delenv("LABELDP_DATA", raising=False)


def test_a_grid_ends_in_a_table_and_a_figure(papers: Callable[..., Ran], people: Path) -> None:
    ran = papers(*bags_arguments())
    assert ran.status == 0 and ran.out.splitlines() == ["bags/aggregation.md", "bags/generated.svg"], ran
    assert "| 100 |" in (people / "bags" / "aggregation.md").read_text()
    assert not (people / "bags" / "unfinished").exists()


def test_without_torch_the_other_tables_are_run(
    papers: Callable[..., Ran], people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise InputError("networks need torch: pip install '.[torch]'")

    monkeypatch.setattr(aggregation, "imported", missing)
    ran = papers(*bags_arguments(tables="lba,llp"))
    assert ran.status == 0 and "bags/aggregation.md" in ran.out, ran
    assert "the tables of llp are left out: networks need torch: pip install '.[torch]'" in ran.err
    ran = papers(*bags_arguments(tables="llp", out="none"))
    assert ran.status == 1 and ran.err.splitlines()[-1].startswith("Error: networks need torch")


BAGS_WRONG = [
    ({"tables": "lbp"}, "--tables"),
    ({"bags": "0"}, "--bags"),
    ({"data": "people.csv"}, "Criteo"),
    ({"data": "nowhere"}, "nowhere"),
    ({"out": "people.csv"}, "people.csv"),
]


@pytest.mark.parametrize(("changes", "words"), BAGS_WRONG)
def test_a_mistake_gets_one_line_of_bags(
    papers: Callable[..., Ran], people: Path, changes: dict[str, str], words: str
) -> None:
    ran = papers(*bags_arguments(**changes))
    assert ran.status != 0 and "Traceback" not in ran.err and words in ran.err.splitlines()[-1], ran
    assert not (people / "bags").exists()


def rounds_arguments(**changes: str) -> list[str]:
    given = {"tables": "exponents,regret", "losses": "trap,shift", "rounds": "200", "experts": "3", "epsilon": "4"}
    words = {**given, "seeds": "1", "out": "online", **changes}
    return ["online", *(word for name, value in words.items() for word in (f"--{name}", value))]


def test_a_grid_ends_in_tables_and_figures(papers: Callable[..., Ran], people: Path) -> None:
    ran = papers(*rounds_arguments())
    assert ran.status == 0, ran
    assert ran.out.splitlines() == ["online/online.md", "online/exponents.svg", "online/regret-T200-d3.svg"]
    table = (people / "online" / "online.md").read_text()
    assert "| L2P | corrected |" in table and "### T = 200, d = 3, ε = 4; 1 seed" in table
    for name in ("exponents", "regret-T200-d3"):
        ElementTree.parse(people / "online" / f"{name}.svg")
    stamps = {path: path.stat().st_mtime_ns for path in (people / "online" / "runs").iterdir()}
    assert len(stamps) == 3
    again = papers(*rounds_arguments())
    assert again.status == 0 and (people / "online" / "online.md").read_text() == table
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


ROUNDS_WRONG = [
    ({"tables": "figure1"}, "--tables"),
    ({"losses": "iid"}, "--losses"),
    ({"rounds": "some"}, "--rounds"),
    ({"experts": "1"}, "--experts"),
    ({"epsilon": "-1"}, "Error: --epsilon"),
    ({"epsilon": "abc"}, "Error: --epsilon"),
    ({"tables": "stocks"}, "Error: --tables: stocks cannot be made; --data names no folder with these losses"),
    ({"seeds": "0"}, "--seeds"),
    ({"data": "nowhere"}, "nowhere"),
    ({"out": "people.csv"}, "people.csv"),
]


@pytest.mark.parametrize(("changes", "words"), ROUNDS_WRONG)
def test_a_mistake_gets_one_line_of_rounds(
    papers: Callable[..., Ran], people: Path, changes: dict[str, str], words: str
) -> None:
    ran = papers(*rounds_arguments(**changes))
    assert ran.status != 0 and "Traceback" not in ran.err and words in ran.err.splitlines()[-1], ran
    assert not (people / "online").exists()


def rates_arguments(**changes: str) -> list[str]:
    given = {"rows": "regression-local-full,classes-unary", "records": "1e3,1e4", "seeds": "1", "out": "rates"}
    return ["rates", *(word for name, value in {**given, **changes}.items() for word in (f"--{name}", value))]


def test_a_grid_ends_in_a_table_and_figures_of_rates(papers: Callable[..., Ran], people: Path) -> None:
    ran = papers(*rates_arguments(epsilon="0.5,1"))
    assert ran.status == 0, ran
    assert ran.out.splitlines() == ["rates/rates.md", "rates/regression-local-full.svg", "rates/classes.svg"]
    table = (people / "rates" / "rates.md").read_text()
    assert table.count("| regression-local-full |") == 4 and table.count("| unary |") == 2
    for name in ("regression-local-full", "classes"):
        ElementTree.parse(people / "rates" / f"{name}.svg")
    stamps = {path: path.stat().st_mtime_ns for path in (people / "rates" / "runs").iterdir()}
    assert len(stamps) == 6
    again = papers(*rates_arguments(epsilon="0.5,1"))
    assert again.status == 0 and (people / "rates" / "rates.md").read_text() == table
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


RATES_WRONG = [
    ({"rows": "regresion"}, "--rows"),
    ({"records": "1e3"}, "--records"),
    ({"epsilon": "-1"}, "epsilon"),
    ({"seeds": "0"}, "--seeds"),
    ({"out": "people.csv"}, "people.csv"),
]


@pytest.mark.parametrize(("changes", "words"), RATES_WRONG)
def test_a_mistake_gets_one_line_of_rates(
    papers: Callable[..., Ran], people: Path, changes: dict[str, str], words: str
) -> None:
    ran = papers(*rates_arguments(**changes))
    assert ran.status != 0 and "Traceback" not in ran.err and words in ran.err.splitlines()[-1], ran
    assert not (people / "rates").exists()
