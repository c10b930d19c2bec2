"""A grid of methods leaves a file for each run, is not made twice, and refuses what it cannot run."""

from pathlib import Path

import numpy as np
import pytest

from labeldp.privacy import InputError
from papers.aggregation import data as aggregation_data
from papers.peers import run as peers_run
from papers.peers.report import write_peers
from papers.peers.run import PEER_METHODS, PeerGrid, reproduce_peers

OPTIONS = {"dataset": "generated", "method": "laplace,weighted-llp", "epsilon": "1,2", "delta": "1e-6", "records": 600}


def grid(**changes: object) -> PeerGrid:
    return PeerGrid.parse(**{**OPTIONS, "seeds": 1, **changes})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregation_data, "MADE", 1500)
    monkeypatch.setattr(aggregation_data, "BLOCK", 1000)


def test_a_run_is_made_once_and_says_what_it_promises(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = reproduce_peers(grid(), out=str(out))
    stamps = {path: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}
    assert len(first) == len(stamps) == 5 and reproduce_peers(grid(), out=str(out)) == first
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    by_name = {(each.run.method, each.run.epsilon): each for each in first}
    laplace, bags = by_name["laplace", 1.0], by_name["weighted-llp", 1.0]
    assert laplace.trust == "local" and "ε = 1, δ = 0" in laplace.certificate
    assert bags.trust == "central" and "ε = 1, δ = 1e-06" in bags.certificate
    assert by_name["labels", 0.0].trust == "none" and by_name["labels", 0.0].value < laplace.value
    assert all(each.records == (600, 300) and each.metric == "RMSE" for each in first)
    [path] = write_peers(first, out)
    assert "| `laplace` | Laplace noise | local | 0 |" in Path(path).read_text()


def test_a_missing_run_is_made_again_and_is_the_same(tmp_path: Path) -> None:
    out, small = tmp_path / "out", grid(method="laplace", epsilon="1")
    first = reproduce_peers(small, out=str(out))
    (out / "runs" / f"{first[0].run.name}.json").unlink()
    assert [each.value for each in reproduce_peers(small, out=str(out))] == [each.value for each in first]


def test_other_constants_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = grid(method="laplace", epsilon="1")
    reproduce_peers(small, out=str(tmp_path / "out"))
    monkeypatch.setattr("papers.peers.methods.BAG", 7)
    with pytest.raises(InputError, match="other data or constants"):
        reproduce_peers(small, out=str(tmp_path / "out"))


def test_by_default_all_that_fit_are_run() -> None:
    names = {run.method for run in grid(method=None).runs} - {"labels"}
    assert names == {name for name, method in PEER_METHODS.items() if method.numbers}
    images = {run.method for run in grid(dataset="mnist", method=None).runs} - {"labels"}
    assert images == set(PEER_METHODS) - names
    runs = grid(dataset="mnist", method=None, seeds=2).runs
    assert len({run.name for run in runs}) == len({run.rng().integers(1 << 60) for run in runs}) == len(runs)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dataset": "pets"}, "--dataset must be one of"),
        ({"method": "rr"}, "--method must be one or more of laplace, .* for generated, not 'rr'"),
        ({"method": "laplace,laplace"}, "--method must hold distinct values"),
        ({"epsilon": "0"}, "epsilon must be positive"),
        ({"delta": "0"}, "--delta must be positive for methods that spend one"),
        ({"delta": "2"}, "delta"),
        ({"records": 499}, "--records must be an integer, at least 500"),
        ({"seeds": 0}, "--seeds must be at least 1"),
    ],
)
def test_wrong_options_get_one_error(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        grid(**changes)


def test_without_torch_what_was_not_named_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise InputError("networks need torch: pip install '.[torch]'")

    monkeypatch.setattr(peers_run, "imported", missing)
    said = list[str]()
    needy = [name for name, method in PEER_METHODS.items() if method.network]
    kept = grid(dataset="mnist", method=None).possible(said.append)
    assert not {run.method for run in kept.runs} & set(needy)
    assert bool(said) == bool(needy)
    for name in needy:
        with pytest.raises(InputError, match="networks need torch"):
            grid(dataset="mnist", method=name).possible(said.append)


def test_images_of_a_folder_with_the_name_of_the_data_set_are_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {}
    for part, count in {"train": 620, "test": 50}.items():
        labels = np.arange(count) % 10
        images = rng.integers(0, 40, (count, 28, 28))
        images[np.arange(count), 2 * labels + 3] += 200
        arrays |= {f"{part}_images": images.astype(np.uint8), f"{part}_labels": labels}
    np.savez(tmp_path / "some.npz", **arrays)
    images_grid = grid(dataset="mnist", method="rr,walr", epsilon="8")
    results = reproduce_peers(images_grid, data=str(tmp_path / "some.npz"), out=str(tmp_path / "out"))
    assert {each.run.method: each.value > 0.8 for each in results} == dict.fromkeys(("labels", "rr", "walr"), True)
