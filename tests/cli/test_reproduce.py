"""`labeldp reproduce multistage`: runs, a table and figures in a folder; a mistake gets one line."""

import gzip
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from cli.conftest import Ran


@pytest.fixture
def digits(people: Path) -> Path:
    """A folder in MNIST's format: ten classes, each with a bright column of its own."""
    rng, folder = np.random.default_rng(0), people / "digits"
    folder.mkdir()
    for part, count in (("train", 80), ("t10k", 30)):
        labels = rng.integers(0, 10, count)
        images = rng.integers(0, 60, (count, 28, 28))
        images[np.arange(count), :, labels] += 150
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            shape = np.array(array.shape, dtype=">u4").tobytes()
            content = bytes([0, 0, 8, array.ndim]) + shape + array.astype(np.uint8).tobytes()
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
    return folder


def arguments(**changes: str) -> list[str]:
    options = {"dataset": "mnist", "data": "digits", "epsilon": "2,9", "method": "linear", "seeds": "1", "out": "runs"}
    given = {**options, **changes}
    return ["reproduce", "multistage", *(word for name, value in given.items() for word in (f"--{name}", value))]


def test_a_grid_ends_in_a_table_and_figures(labeldp: Callable[..., Ran], digits: Path, people: Path) -> None:
    ran = labeldp(*arguments())
    assert ran.status == 0, ran
    assert ran.out.splitlines() == ["runs/results.md", "runs/mnist-accuracy.svg"]
    assert ran.err.startswith("mnist, linear, ε = 2, noise 1: ") and ran.err.count("\n") == 2
    assert "| **linear** |" in (people / "runs" / "results.md").read_text()
    ElementTree.parse(people / "runs" / "mnist-accuracy.svg")
    table = (people / "runs" / "results.md").read_text()
    again = labeldp(*arguments())
    assert again.err.count("from before") == 2 and (people / "runs" / "results.md").read_text() == table


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
def test_a_mistake_gets_one_line(
    labeldp: Callable[..., Ran], digits: Path, changes: dict[str, str], words: str
) -> None:
    ran = labeldp(*arguments(**changes))
    assert ran.status != 0 and "Traceback" not in ran.err and words in ran.err.splitlines()[-1], ran
    assert "results.md" not in ran.out


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is here")
def test_networks_without_torch_are_refused_before_anything_is_run(labeldp: Callable[..., Ran], digits: Path) -> None:
    ran = labeldp(*arguments(method="linear,lp-2st"))
    assert ran.status == 1 and ran.err.count("\n") == 1 and "pip install '.[torch]'" in ran.err
    assert not list(Path("runs").rglob("*.json"))
